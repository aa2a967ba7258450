//! Which layout a kernel has, where no debug information tells: the one under which the created list closes on itself.

use super::globals::Globals;
use super::layout::{Layout, Shape};
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
pub struct Fit {
    /// Where members lie.
    pub layout: Layout,
    /// The threads.
    pub walk: Walk,
    /// How many the kernel counts.
    pub count: Option<u64>,
    /// What was noticed.
    pub issues: Vec<Issue>,
}

impl Fit {
    /// True for a list of threads that is whole.
    fn closes(&self) -> bool {
        !self.walk.nodes.is_empty() && self.walk.closes(self.count)
    }
}

/// Why there is none.
pub enum Misfit {
    /// No layout is that of this memory, be it told by debug information: what was tried.
    None { tried: Vec<String>, told: bool },
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
    let more = count.is_some_and(|count| u64::try_from(walk.nodes.len()).is_ok_and(|len| len > count));
    // More than there are: these variables are not those of the kernel that this memory is of.
    if walk.led > 0 && more { list.walk_by(memory, head, &[]) } else { walk }
}

/// Threads that other variables of the kernel lead to.
fn known(memory: &mut dyn Memory, symbols: &dyn Symbols, globals: &Globals, shape: Shape) -> Vec<Addr> {
    let mut known = globals.each_core(memory, shape, "_tx_thread_current_ptr", shape.pointer);
    known.extend(globals.each_core(memory, shape, "_tx_thread_execute_ptr", shape.pointer));
    // This one is no pointer.
    known.extend(symbols.lookup("_tx_timer_thread").map(|s| s.address));
    known
}

/// What tells where the list of threads begins.
pub struct Sources<'a> {
    /// Names and addresses.
    pub symbols: &'a dyn Symbols,
    /// The kernel's variables.
    pub globals: &'a Globals<'a>,
    /// Threads that a trace's registry names.
    pub named: Vec<Addr>,
    /// What a search of memory found, where no variable tells.
    pub searched: &'a [Root],
}

/// The variable that holds the head of the list of threads.
pub const HEAD: &str = "_tx_thread_created_ptr";

impl Sources<'_> {
    /// The threads under one layout; `None` where there are none.
    ///
    /// # Errors
    /// A sentence where the head of the list cannot be read.
    fn threads(&self, memory: &mut dyn Memory, layout: &Layout) -> Result<Option<Fit>, String> {
        let fit = |walk, count, issues| Some(Fit { layout: layout.clone(), walk, count, issues });
        let Some(symbol) = self.symbols.lookup(HEAD) else {
            let walk = list(layout).walk_from(memory, &self.named, &roots::of(self.searched, None));
            return Ok(fit(walk, None, Vec::new()));
        };
        let (head, count) = self.globals.list(memory, layout.shape, "_tx_thread_created")?;
        let mut others = known(memory, self.symbols, self.globals, layout.shape);
        others.extend(&self.named);
        if head != 0 || count.is_some_and(|n| n != 0) {
            let walk = followed(layout, memory, head, count, &others);
            return Ok(fit(walk, count, Vec::new()));
        }
        let walk = list(layout).walk_from(memory, &others, &[]);
        let Some(first) = walk.nodes.first() else { return Ok(None) };
        let message = format!(
            "{HEAD} and its count are 0, yet there is a thread at {:#x}: the list was followed from there; these variables were written over, the ELF is of another build, or the threads are left over from before the last start",
            first.address
        );
        let issue = Issue::new(Code::KernelDamaged, message).at(Place::address(symbol.address));
        Ok(fit(walk, None, vec![issue]))
    }
}

/// Finds the layout and reads the threads.
pub fn find(
    memory: &mut dyn Memory,
    sources: &Sources<'_>,
    endian: Option<Endian>,
    pointer: Option<Width>,
) -> Result<Fit, Misfit> {
    let mut issues = Vec::new();
    let mut tried = Vec::new();
    let told = endian.zip(pointer).and_then(|(e, p)| Layout::told(sources.symbols, e, p));
    let mut partial: Vec<Fit> = Vec::new();
    if let Some(layout) = told {
        let fit = sources.threads(memory, &layout).map_err(Misfit::Unreadable)?.ok_or(Misfit::Empty)?;
        if fit.closes() {
            return Ok(fit);
        }
        tried.push(attempt(&fit));
        if fit.walk.nodes.len() > 1 {
            // Memory is damaged; that the layout is right is known.
            return Ok(fit);
        }
        partial.push(fit);
    }
    let by_elf = !partial.is_empty();
    let mut whole: Vec<Fit> = Vec::new();
    let (mut unreadable, mut empty, mut looked) = (None, false, false);
    for layout in Layout::measured(endian, pointer) {
        match sources.threads(memory, &layout) {
            Ok(Some(fit)) if fit.closes() => whole.push(fit),
            Ok(Some(fit)) => {
                // Where nothing leads to a thread, each layout would say the same.
                if !fit.walk.nodes.is_empty() || fit.walk.broken.is_some() {
                    tried.push(attempt(&fit));
                }
                partial.push(fit);
            }
            Ok(None) => empty = true,
            Err(why) => {
                unreadable = Some(why);
                continue;
            }
        }
        looked = true;
    }
    if whole.is_empty() && empty {
        return Err(Misfit::Empty);
    }
    if let (false, Some(why)) = (looked, unreadable) {
        return Err(Misfit::Unreadable(why));
    }
    if whole.is_empty() {
        // A damaged list: the layout that gets furthest, if it is one and its links agree with each other.
        let reach = |f: &Fit| f.walk.nodes.len().saturating_sub(f.walk.crooked);
        let most = partial.iter().map(reach).max().filter(|n| *n > 1);
        let Some(most) = most else { return Err(Misfit::None { tried, told: by_elf }) };
        whole = partial.into_iter().filter(|f| reach(f) == most).collect();
    }
    if sources.symbols.lookup(HEAD).is_none() {
        // A thread alone may close on itself under the wrong layout: with all others it does not.
        let most = whole.iter().map(|f| f.walk.nodes.len()).max();
        whole.retain(|f| Some(f.walk.nodes.len()) == most);
    }
    let fit = choose(memory, whole)?;
    let message = format!(
        "no debug information gives the offsets of members of control blocks: {} is taken, {}",
        fit.layout.how,
        if fit.walk.broken.is_none() {
            "under which the list of threads closes on itself"
        } else {
            "under which most of the list of threads can be read"
        }
    );
    issues.push(Issue::new(Code::KernelLayout, message));
    issues.extend(fit.issues);
    Ok(Fit { issues, ..fit })
}

fn attempt(fit: &Fit) -> String {
    let Fit { layout, walk, count, .. } = fit;
    let order = layout.shape.endian.name();
    let why = match (&walk.broken, count) {
        (Some(broken), _) => broken.sentence("threads"),
        (None, Some(count)) if !walk.closes(Some(*count)) && walk.crooked == 0 => {
            format!("the list has {} threads, the kernel counts {count}", walk.nodes.len())
        }
        _ => format!("{} pointers back lead elsewhere", walk.crooked),
    };
    format!("{} ({order}-endian): {why}", layout.how)
}

/// Of layouts that fit, the one whose other members agree with each other as well.
fn choose(memory: &mut dyn Memory, fits: Vec<Fit>) -> Result<Fit, Misfit> {
    let (mut sound, rest): (Vec<Fit>, Vec<Fit>) = fits.into_iter().partition(|fit| tail_agrees(memory, fit));
    let certain = !sound.is_empty();
    if !certain {
        sound = rest;
    }
    let Some(mut first) = sound.pop() else { return Err(Misfit::None { tried: Vec::new(), told: false }) };
    if let Some(other) = sound.iter().find(|f| !f.layout.same_head(&first.layout)) {
        return Err(Misfit::Several(vec![other.layout.how.clone(), first.layout.how.clone()]));
    }
    if sound.is_empty() && certain {
        return Ok(first);
    }
    // Up to the links of the created list they are one; what lies behind these is not known.
    first.layout.drop_tail();
    first.issues.push(Issue::new(
        Code::KernelLayoutTail, "the offsets of the last members of the threads' control blocks are not known: priorities of their own are not known",
    ));
    Ok(first)
}

/// A thread runs at its own priority or at a better one that it inherits, and the mutexes that it owns are counted.
fn tail_agrees(memory: &mut dyn Memory, fit: &Fit) -> bool {
    let endian = fit.layout.shape.endian;
    let mut agrees = true;
    for node in &fit.walk.nodes {
        let get = |name| fit.layout.thread.get(&node.bytes, endian, name);
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
            let word = memory.read_bytes(list, fit.layout.shape.word.bytes()).ok();
            let word = word.and_then(|b| endian.word(fit.layout.shape.word, &b, 0));
            agrees &= word == Some(super::Kind::Mutex.id());
        }
    }
    agrees
}
