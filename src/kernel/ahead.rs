//! Reads ahead what the state of a kernel needs: reads that do not depend on each other travel together.
//!
//! Over a probe each read on its own costs a round trip, and the lists of a kernel are chains of pointers. Here all of
//! them are followed at once, in both directions and from all that names an entry: first the kernel's variables, then in
//! each round the control blocks that the last round named, with names, the lowest bytes of stacks and saved frames of
//! those that are known. Nothing is checked here. A source with latency has a cache, from which the reads that follow are
//! answered.

use std::collections::HashSet;
use std::rc::Rc;

use super::layout::{Kind, Layout};
use super::{About, THREAD_ID, stack};
use crate::abi::{Addr, Width};
use crate::mem::{Memory, Region};

/// Parts of one round that are at most so many bytes apart are one read: bytes cost less than packets.
const GAP: u64 = 512;
/// The most bytes of such a read.
const MAX_READ: u64 = 64 << 10;
/// The most bytes in all: they are held in memory together. What is beyond that is read when it is needed.
const MAX_BYTES: u64 = 64 << 20;
/// The most reads in all.
const MAX_TASKS: usize = 1 << 16;
/// Bytes that are read at a saved stack pointer: the frames of most processors are smaller.
const FRAME: u64 = 288;
/// Bytes of a name that are read at a time.
const NAME: u64 = 16;

/// What is read, and so what it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    /// A pointer to a control block: of a thread where there is no kind.
    Pointer(Option<Kind>),
    /// A control block.
    Block(Option<Kind>),
    /// A part of a name.
    Name,
    /// A part of a stack: bytes of the stack that are above, and how many of them are read next.
    Fill(u64, u64),
    /// Something that leads nowhere.
    Value,
}

#[derive(Debug, Clone, Copy)]
struct Task {
    at: Addr,
    len: u64,
    what: What,
}

struct Ahead {
    layouts: Rc<[Layout]>,
    stacks: bool,
    seen: HashSet<(Addr, What)>,
    queue: Vec<Task>,
    /// Bytes that were asked for so far.
    bytes: u64,
}

/// Reads ahead what [`super::Kernel::read`] and [`super::Kernel::place`] are going to ask for, as far as it can be known.
pub(super) fn read_ahead(memory: &mut dyn Memory, about: &About<'_>) {
    let Some((endian, pointer)) = about.endian.zip(about.pointer) else { return };
    let certain = Layout::declared(about.symbols, endian, pointer).map(|layout| vec![layout]);
    let layouts = certain.unwrap_or_else(|| Layout::measured(Some(endian), Some(pointer)));
    let mut ahead =
        Ahead { layouts: layouts.into(), stacks: about.stacks, seen: HashSet::new(), queue: Vec::new(), bytes: 0 };
    ahead.begin(about, pointer);
    while !ahead.queue.is_empty() && ahead.seen.len() < MAX_TASKS {
        let tasks = std::mem::take(&mut ahead.queue);
        let wanted = merged(&tasks);
        let answers = memory.read_batch(&wanted);
        let failed = |(range, answer): (&(Addr, usize), Result<_, _>)| answer.is_err().then_some(*range);
        let failed: HashSet<(Addr, usize)> = wanted.iter().zip(answers).filter_map(failed).collect();
        for task in tasks {
            let Ok(len) = usize::try_from(task.len) else { continue };
            let range = (task.at, len);
            if failed.contains(&range) {
                continue;
            }
            match memory.read_bytes(range.0, range.1) {
                Ok(bytes) => ahead.follow(&task, &bytes),
                Err(e) if e.is_fatal() => return,
                Err(_) => {}
            }
        }
    }
}

/// The reads of one round, neighbours as one.
fn merged(tasks: &[Task]) -> Vec<(Addr, usize)> {
    let region = |task: &Task| Region { start: task.at, len: task.len };
    let mut parts: Vec<(Addr, Addr)> =
        tasks.iter().map(region).filter_map(|region| Some((region.start, region.last()?))).collect();
    parts.sort_unstable();
    let mut all: Vec<(Addr, Addr)> = Vec::new();
    for (start, last) in parts {
        match all.last_mut() {
            Some((first, before)) if start.saturating_sub(*before) <= GAP && last.abs_diff(*first) < MAX_READ => {
                *before = last.max(*before);
            }
            _ => all.push((start, last)),
        }
    }
    let read = |(start, last)| Some((start, usize::try_from(Region::between(start, last)?.len).ok()?));
    all.into_iter().filter_map(read).collect()
}

impl Ahead {
    /// The kernel's variables, and the control blocks that the trace's registry names.
    fn begin(&mut self, about: &About<'_>, pointer: Width) {
        let lookup = |name: &str| about.symbols.lookup(name);
        let lists = Kind::ALL.into_iter().map(|kind| (Some(kind), kind.created()));
        for (kind, list) in lists.chain([(None, "_tx_thread_created".to_owned())]) {
            self.push(lookup(&format!("{list}_ptr")).map(|s| s.address), pointer.size(), What::Pointer(kind));
            self.push(lookup(&format!("{list}_count")).map(|s| s.address), 4, What::Value);
        }
        for name in ["_tx_thread_current_ptr", "_tx_thread_execute_ptr"] {
            let Some(symbol) = lookup(name) else { continue };
            for at in super::globals::each_core(&symbol, pointer) {
                self.push(Some(at), pointer.size(), What::Pointer(None));
            }
        }
        for name in ["_tx_thread_system_state", "_txm_module_manager_loaded_list_ptr"] {
            self.push(lookup(name).map(|s| s.address), pointer.size(), What::Value);
        }
        // This one is no pointer.
        self.block(lookup("_tx_timer_thread").map(|s| s.address), None);
        for root in about.registered {
            self.block(Some(root.address), root.kind);
        }
    }

    fn push(&mut self, at: Option<Addr>, len: u64, what: What) {
        let total = self.bytes.checked_add(len).filter(|total| len > 0 && *total <= MAX_BYTES);
        if let Some((at, total)) = at.filter(|at| *at != 0).zip(total)
            && self.seen.insert((at, what))
        {
            self.bytes = total;
            self.queue.push(Task { at, len, what });
        }
    }

    fn block(&mut self, at: Option<Addr>, kind: Option<Kind>) {
        let len = |l: &Layout| kind.map_or(l.thread.len, |kind| l.object(kind).map_or(0, |of| of.len));
        let len = self.layouts.iter().map(len).max().unwrap_or(0);
        self.push(at, len, What::Block(kind));
    }

    /// Asks for what these bytes lead to.
    fn follow(&mut self, task: &Task, read: &[u8]) {
        match task.what {
            What::Pointer(kind) => {
                let shape = self.layouts.first().map(|l| l.shape);
                let at = shape.and_then(|shape| shape.endian.word(shape.pointer, read, 0));
                self.block(at, kind);
            }
            What::Block(kind) => {
                for layout in Rc::clone(&self.layouts).iter() {
                    match kind {
                        None => self.thread(layout, read),
                        Some(kind) => self.object(layout, kind, read),
                    }
                }
            }
            What::Name if !read.contains(&0) => self.push(task.at.checked_add(task.len), NAME, What::Name),
            What::Fill(rest, step) if step <= MAX_READ && read.iter().all(|byte| *byte == stack::FILL) => {
                self.fill(task.at.checked_add(task.len), rest, step);
            }
            What::Name | What::Fill(..) | What::Value => {}
        }
    }

    /// The next bytes of a stack that has `rest` more.
    fn fill(&mut self, at: Option<Addr>, rest: u64, step: u64) {
        let len = step.min(rest);
        // The step doubles up to `MAX_READ`.
        self.push(at, len, What::Fill(rest.saturating_sub(len), step << 1));
    }

    fn thread(&mut self, layout: &Layout, read: &[u8]) {
        let get = |name: &str| layout.thread.get(read, layout.shape.endian, name);
        let (start, size) = (get("tx_thread_stack_start"), get("tx_thread_stack_size"));
        let own = start.zip(size).map(|(start, len)| Region { start, len });
        // Under a layout that is not this kernel's the members of a stack contradict each other.
        let last = own.and_then(Region::last);
        if get("tx_thread_id") != Some(THREAD_ID) || layout.is_inferred() && get("tx_thread_stack_end") != last {
            return;
        }
        self.block(get("tx_thread_created_next"), None);
        self.block(get("tx_thread_created_previous"), None);
        self.push(get("tx_thread_name"), NAME, What::Name);
        let waits_for = get("tx_thread_state").and_then(|state| Kind::of_state(u32::try_from(state).ok()?));
        if let Some(kind) = waits_for {
            self.block(get("tx_thread_suspend_control_block"), Some(kind));
        }
        if !self.stacks || get("tx_thread_linux_thread_id").is_some_and(|id| id != 0) {
            return;
        }
        let Some(own) = own else { return };
        self.fill(start, own.len.min(stack::MAX), stack::STEP);
        if let Some((saved, into)) = get("tx_thread_stack_ptr").and_then(|sp| Some((sp, own.offset_of(sp)?))) {
            self.push(Some(saved), own.len.saturating_sub(into).min(FRAME), What::Value);
        }
    }

    fn object(&mut self, layout: &Layout, kind: Kind, read: &[u8]) {
        let get = |name: &str| layout.object(kind)?.get(read, layout.shape.endian, name);
        if get("id") != Some(kind.id()) {
            return;
        }
        self.block(get("created_next"), Some(kind));
        self.block(get("created_previous"), Some(kind));
        self.block(get("suspension_list"), None);
        self.push(get("name"), NAME, What::Name);
        if kind == Kind::Mutex {
            self.block(get("owner"), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Root;
    use super::*;
    use crate::abi::Endian;
    use crate::bytes::Bytes;
    use crate::mem::{ReadError, ReadErrorKind};
    use crate::sym::NoSymbols;

    const BLOCKS: Addr = 0x2000_0000;
    const STACKS: Addr = 0x8000_0000;
    const SIZE: u32 = 16 << 20;

    /// Control blocks of threads whose stacks were never used, and the bytes that were asked for.
    struct Unused(u64);

    impl Memory for Unused {
        fn read(&mut self, addr: Addr, buf: &mut [u8]) -> Result<(), ReadError> {
            self.0 = self.0.saturating_add(buf.len() as u64);
            if self.0 > 4 * MAX_BYTES {
                let why = "more was asked for than may be".to_owned();
                return Err(ReadError::new(addr, buf.len(), ReadErrorKind::Source(why)));
            }
            for (byte, at) in buf.iter_mut().zip(addr..) {
                let block = at.saturating_sub(BLOCKS) / 0x400;
                let start = STACKS.saturating_add(block.saturating_mul(0x10_0000));
                let start = u32::try_from(start).unwrap_or(0);
                let words = [0x5448_5244, 0, 0, start, start.wrapping_add(SIZE - 1), SIZE];
                let word = words.get(((at & 0x3FF) / 4) as usize).copied().unwrap_or(0);
                *byte = if at >= STACKS { stack::FILL } else { word.to_le_bytes()[(at % 4) as usize] };
            }
            Ok(())
        }

        fn read_batch(&mut self, wanted: &[(Addr, usize)]) -> Vec<Result<Bytes, ReadError>> {
            wanted.iter().map(|&(addr, len)| self.read_bytes(addr, len)).collect()
        }
    }

    /// Each round asked for twice as much of every stack as the one before.
    #[test]
    fn stacks_that_were_never_used_were_read_ahead_without_a_bound() {
        let registered: Vec<Root> = (0..300).map(|i| Root { kind: None, address: BLOCKS + i * 0x400 }).collect();
        let about = About {
            symbols: &NoSymbols,
            endian: Some(Endian::Little),
            pointer: Some(Width::W4),
            names: &|_: Addr| None,
            registered: &registered,
            stacks: true,
        };
        let mut memory = Unused(0);
        read_ahead(&mut memory, &about);
        // Every part is read twice: with the others of its round, and on its own.
        assert!(memory.0 > 1 << 20 && memory.0 <= 2 * MAX_BYTES, "{} bytes", memory.0);
    }
}
