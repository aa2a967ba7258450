//! Which layout a kernel has, where debug information does not give it: the one under which the created list closes on
//! itself.

use super::globals::Globals;
use super::layout::{Kind, Layout, Shape};
use super::roots::{self, Root};
use super::walk::{List, Walk};
use crate::abi::{Addr, Endian, Width};
use crate::code::Code;
use crate::mem::Memory;
use crate::sym::Symbols;
use crate::trace::{Issue, Place};

/// The word that a thread's control block begins with.
pub const THREAD_ID: u64 = 0x5448_5244;

/// A layout with the list of threads that was read by it.
pub struct LayoutMatch {
    /// Where members are.
    pub layout: Layout,
    /// The threads.
    pub walk: Walk,
    /// How many the kernel counts.
    pub count: Option<u64>,
    /// What was noticed.
    pub issues: Vec<Issue>,
}

impl LayoutMatch {
    /// True for a list of threads that is whole.
    fn closes(&self) -> bool {
        !self.walk.nodes.is_empty() && self.walk.closes(self.count)
    }

    /// How many threads are linked as they should be.
    fn reach(&self) -> usize {
        self.walk.nodes.len().saturating_sub(self.walk.bad_back_links)
    }
}

/// Why there is none.
pub enum Mismatch {
    /// No layout is that of this memory: what was tried, and whether debug information gave one.
    None { tried: Vec<String>, by_elf: bool },
    /// Several are.
    Several(Vec<String>),
    /// There is no thread yet.
    Empty,
    /// Nothing could be read.
    Unreadable(String),
}

/// The list of threads under a layout.
fn list(layout: &Layout) -> List<'_> {
    List {
        shape: layout.shape,
        of: &layout.thread,
        id: THREAD_ID,
        members: ["tx_thread_id", "tx_thread_created_next", "tx_thread_created_previous"],
        len: [layout.thread.len, layout.head_len()],
    }
}

/// The list from its head, and from `others` where it is broken.
fn followed(layout: &Layout, memory: &mut dyn Memory, head: Addr, count: Option<u64>, others: &[Addr]) -> Walk {
    let list = list(layout);
    let walk = list.walk_by(memory, head, others);
    let more = count.is_some_and(|count| walk.nodes.len() as u64 > count);
    // More than there are: these variables are not those of the kernel that this memory is of.
    if walk.led > 0 && more { list.walk_by(memory, head, &[]) } else { walk }
}

/// Threads that other variables of the kernel point to.
fn known(memory: &mut dyn Memory, symbols: &dyn Symbols, globals: &Globals, shape: Shape) -> Vec<Addr> {
    let mut known = globals.each_core(memory, shape, "_tx_thread_current_ptr", shape.pointer);
    known.extend(globals.each_core(memory, shape, "_tx_thread_execute_ptr", shape.pointer));
    // This one is no pointer.
    known.extend(symbols.lookup("_tx_timer_thread").map(|s| s.address));
    known
}

/// What shows where the list of threads begins.
pub struct Sources<'a> {
    /// Names and addresses.
    pub symbols: &'a dyn Symbols,
    /// The kernel's variables.
    pub globals: &'a Globals<'a>,
    /// Threads that a trace's registry names.
    pub named: Vec<Addr>,
    /// What a search of memory found, where no variable points to the list.
    pub searched: &'a [Root],
}

/// The variable that holds the head of the list of threads.
pub const HEAD: &str = "_tx_thread_created_ptr";

impl Sources<'_> {
    /// The threads under one layout; `None` where there are none.
    ///
    /// # Errors
    /// A sentence where the head of the list cannot be read.
    fn threads(&self, memory: &mut dyn Memory, layout: &Layout) -> Result<Option<LayoutMatch>, String> {
        let found = |walk, count, issues| Some(LayoutMatch { layout: layout.clone(), walk, count, issues });
        let Some(symbol) = self.symbols.lookup(HEAD) else {
            let walk = list(layout).walk_from(memory, &self.named, &roots::of(self.searched, None));
            return Ok(found(walk, None, Vec::new()));
        };
        let (head, count) = self.globals.list(memory, layout.shape, "_tx_thread_created")?;
        let mut others = known(memory, self.symbols, self.globals, layout.shape);
        others.extend(&self.named);
        if head != 0 || count.is_some_and(|n| n != 0) {
            let walk = followed(layout, memory, head, count, &others);
            return Ok(found(walk, count, Vec::new()));
        }
        let walk = list(layout).walk_from(memory, &others, &[]);
        let Some(first) = walk.nodes.first() else { return Ok(None) };
        let message = format!(
            "{HEAD} and its count are 0, yet there is a thread at {:#x}: the list was followed from there; these variables were overwritten, the ELF is of another build, or the threads are left over from before the last start",
            first.address
        );
        let issue = Issue::new(Code::KernelDamaged, message).at(Place::address(symbol.address));
        Ok(found(walk, None, vec![issue]))
    }
}

/// What was read under several layouts.
#[derive(Default)]
struct Candidates {
    /// Those under which the list of threads is whole.
    whole: Vec<LayoutMatch>,
    /// The others.
    partial: Vec<LayoutMatch>,
    /// Why those are not whole, in words.
    tried: Vec<String>,
    /// The list has no threads.
    empty: bool,
    /// Why the head of the list cannot be read.
    unreadable: Option<String>,
}

impl Candidates {
    fn add(&mut self, read: Result<Option<LayoutMatch>, String>) {
        match read {
            Ok(Some(found)) if found.closes() => self.whole.push(found),
            Ok(Some(found)) => {
                // Where nothing leads to a thread, each layout would give the same reason.
                if !found.walk.nodes.is_empty() || found.walk.broken.is_some() {
                    self.tried.push(attempt(&found));
                }
                self.partial.push(found);
            }
            Ok(None) => self.empty = true,
            Err(why) => self.unreadable = Some(why),
        }
    }

    /// Those under which the list is whole. Of a damaged list, those that get furthest: past the first thread, by links
    /// that agree with each other.
    fn best(self, by_elf: bool) -> Result<Vec<LayoutMatch>, Mismatch> {
        let Self { whole, partial, tried, empty, unreadable } = self;
        if !whole.is_empty() {
            return Ok(whole);
        }
        if empty {
            return Err(Mismatch::Empty);
        }
        if let Some(why) = unreadable.filter(|_| partial.is_empty()) {
            return Err(Mismatch::Unreadable(why));
        }
        match partial.iter().map(LayoutMatch::reach).max() {
            Some(most @ 2..) => Ok(partial.into_iter().filter(|found| found.reach() == most).collect()),
            _ => Err(Mismatch::None { tried, by_elf }),
        }
    }
}

/// Finds the layout and reads the threads.
pub(super) fn find(
    memory: &mut dyn Memory,
    sources: &Sources<'_>,
    endian: Option<Endian>,
    pointer: Option<Width>,
) -> Result<LayoutMatch, Mismatch> {
    let mut candidates = Candidates::default();
    let declared = endian.zip(pointer).and_then(|(e, p)| Layout::declared(sources.symbols, e, p));
    if let Some(layout) = &declared {
        let found = sources.threads(memory, layout).map_err(Mismatch::Unreadable)?.ok_or(Mismatch::Empty)?;
        // Two threads show that the layout is right, also where the list is damaged.
        if found.closes() || found.walk.nodes.len() > 1 {
            return Ok(found);
        }
        candidates.tried.push(attempt(&found));
        candidates.partial.push(found);
    }
    for layout in Layout::measured(endian, pointer) {
        candidates.add(sources.threads(memory, &layout));
    }
    let mut best = candidates.best(declared.is_some())?;
    if sources.symbols.lookup(HEAD).is_none() {
        // A thread alone may close on itself under the wrong layout: with all others it does not.
        let most = best.iter().map(|found| found.walk.nodes.len()).max();
        best.retain(|found| Some(found.walk.nodes.len()) == most);
    }
    let mut found = choose(memory, best)?;
    let message = format!(
        "no debug information gives the offsets of members of control blocks: {} is used: {}",
        found.layout.how,
        if found.walk.broken.is_none() {
            "with it the list of threads points back to its start"
        } else {
            "with it most of the list of threads can be read"
        }
    );
    found.issues.insert(0, Issue::new(Code::KernelLayout, message));
    Ok(found)
}

/// Why a list is not whole under a layout, in words.
fn attempt(found: &LayoutMatch) -> String {
    let LayoutMatch { layout, walk, count, .. } = found;
    let order = layout.shape.endian.name();
    let why = match (&walk.broken, count) {
        (Some(broken), _) => broken.sentence("threads"),
        (None, Some(count)) if !walk.closes(Some(*count)) && walk.bad_back_links == 0 => {
            format!("the list has {} threads, the kernel counts {count}", walk.nodes.len())
        }
        _ => format!("{} pointers back point elsewhere", walk.bad_back_links),
    };
    format!("{} ({order}-endian): {why}", layout.how)
}

/// Of layouts that match, the one whose other members agree with each other as well.
fn choose(memory: &mut dyn Memory, matches: Vec<LayoutMatch>) -> Result<LayoutMatch, Mismatch> {
    let (mut sound, rest): (Vec<_>, Vec<_>) = matches.into_iter().partition(|found| tail_agrees(memory, found));
    let certain = !sound.is_empty();
    if !certain {
        sound = rest;
    }
    let Some(mut first) = sound.pop() else { return Err(Mismatch::None { tried: Vec::new(), by_elf: false }) };
    if let Some(other) = sound.iter().find(|found| !found.layout.same_head(&first.layout)) {
        return Err(Mismatch::Several(vec![other.layout.how.clone(), first.layout.how.clone()]));
    }
    if sound.is_empty() && certain {
        return Ok(first);
    }
    // Up to the links of the created list they are one; what follows these is not known.
    first.layout.drop_tail();
    first.issues.push(Issue::new(
        Code::KernelLayoutTail, "the offsets of the last members of the threads' control blocks are not known: priorities of their own are not known",
    ));
    Ok(first)
}

/// A thread runs at its own priority or at a better one that it inherits, and the mutexes that it owns are counted.
fn tail_agrees(memory: &mut dyn Memory, found: &LayoutMatch) -> bool {
    let (layout, endian) = (&found.layout, found.layout.shape.endian);
    let mut agrees = true;
    for node in &found.walk.nodes {
        let get = |name| layout.thread.get(&node.bytes, endian, name);
        let priorities = [
            get("tx_thread_priority"),
            get("tx_thread_user_priority"),
            get("tx_thread_inherit_priority"),
            get("tx_thread_owned_mutex_count"),
            get("tx_thread_owned_mutex_list"),
        ];
        let [Some(now), Some(own), Some(inherited), Some(count), Some(list)] = priorities else { return false };
        agrees &= now == own.min(inherited) && (count == 0) == (list == 0);
        if list != 0 {
            agrees &= super::has_id(memory, layout, list, Kind::Mutex);
        }
    }
    agrees
}
