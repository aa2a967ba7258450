//! Control blocks that something beside the kernel's created lists names: a trace's registry, a thread that waits, or a
//! search of memory for the words that they begin with.

use std::collections::HashMap;

use super::layout::Kind;
use super::{Kernel, Stop, THREAD_ID};
use crate::abi::{Addr, Endian};
use crate::code::Code;
use crate::mem::{Memory, Region};
use crate::trace::Issue;

/// A control block that something names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Root {
    /// What it is; `None` for a thread.
    pub kind: Option<Kind>,
    /// Its address.
    pub address: Addr,
}

/// How much is searched at a time.
const STEP: u64 = 16 << 20;
/// The most bytes that are searched.
const LIMIT: u64 = 1 << 30;
/// Memory without anything in it.
const ZEROS: [u8; 4096] = [0; 4096];
/// The most places of one kind that a search remembers.
const MAX_PLACES: usize = 4096;

/// The addresses of one kind.
pub fn of(roots: &[Root], kind: Option<Kind>) -> Vec<Addr> {
    roots.iter().filter(|r| r.kind == kind).map(|r| r.address).collect()
}

/// What a control block that begins with this word is of; `None` for any other word.
fn begins(word: u32) -> Option<Option<Kind>> {
    let word = u64::from(word);
    if word == THREAD_ID { Some(None) } else { Kind::of_id(word).map(Some) }
}

/// Every aligned word in memory that a control block begins with. Constants of the kernel's code are among them: only
/// a list that points back to its start shows which are objects. Empty where the source does not list its memory.
pub(super) fn search(memory: &mut dyn Memory, endian: Option<Endian>) -> Vec<Root> {
    let (mut found, mut room) = (Vec::new(), HashMap::new());
    let mut left = LIMIT;
    for region in memory.searchable().unwrap_or_default() {
        // Words are aligned, whatever the region is.
        let Some(first) = region.start.checked_next_multiple_of(4) else { continue };
        let Some(last) = region.last() else { continue };
        let mut next = Some(first);
        while let Some(part) = next.and_then(|at| Region::between(at, last)).filter(|part| part.len >= 4 && left >= 4) {
            let len = part.len.min(STEP).min(left);
            let Ok(size) = usize::try_from(len) else { return found };
            match memory.read_bytes(part.start, size) {
                Ok(bytes) => search_part(&bytes, part.start, endian, &mut found, &mut room),
                Err(e) if e.is_fatal() => return found,
                Err(_) => {}
            }
            // At most `left`.
            left = left.saturating_sub(len);
            next = part.start.checked_add(len);
        }
    }
    found
}

/// `room`: how many more of each kind are remembered.
fn search_part(
    bytes: &[u8],
    start: Addr,
    endian: Option<Endian>,
    found: &mut Vec<Root>,
    room: &mut HashMap<Option<Kind>, usize>,
) {
    let blocks = (start..).step_by(ZEROS.len()).zip(bytes.chunks(ZEROS.len()));
    // Most memory is empty.
    for (start, block) in blocks.filter(|(_, block)| ZEROS.get(..block.len()) != Some(*block)) {
        for (at, word) in (start..).step_by(4).zip(block.chunks_exact(4)) {
            let Ok(word) = <[u8; 4]>::try_from(word) else { continue };
            let little = begins(u32::from_le_bytes(word)).filter(|_| endian != Some(Endian::Big));
            let big = begins(u32::from_be_bytes(word)).filter(|_| endian != Some(Endian::Little));
            // Of a ULONG of 8 bytes in big-endian order this is the second half.
            let wide = big.zip(at.checked_sub(4));
            let places = [little.map(|kind| (kind, at)), big.map(|kind| (kind, at)), wide];
            for (kind, address) in places.into_iter().flatten() {
                let room = room.entry(kind).or_insert(MAX_PLACES);
                if let Some(less) = room.checked_sub(1) {
                    *room = less;
                    found.push(Root { kind, address });
                }
            }
        }
    }
}

impl Kernel {
    /// Where the ELF is of another build nothing at its addresses is the kernel's: which thread runs is not known.
    pub fn forget_running(&mut self) {
        self.other_build = true;
        self.current.clear();
        self.execute.clear();
        self.system_state.clear();
        for thread in self.threads.iter_mut().filter(|t| t.core.is_some()) {
            thread.core = None;
            thread.set_pointer(thread.saved);
        }
    }

    /// Names are constants of the program, which the ELF of another build has elsewhere: only those of the trace's registry
    /// count.
    pub fn rename(&mut self, registered: impl Fn(Addr) -> Option<String>) {
        self.threads.iter_mut().for_each(|thread| thread.name = registered(thread.address));
        self.objects.iter_mut().for_each(|object| object.name = registered(object.address));
    }

    /// The CPU is in start-up code, in this function: no thread runs, and none is current.
    pub fn begin_again(&mut self, function: Option<String>) {
        self.start_up = Some(function.unwrap_or_else(|| "a function without a name".to_owned()));
        self.current.iter_mut().chain(&mut self.execute).for_each(|thread| *thread = 0);
        for thread in self.threads.iter_mut().filter(|t| t.core.is_some()) {
            thread.core = None;
            thread.set_pointer(thread.saved);
        }
    }

    /// The same for the lists: that they are broken has one cause, and is one issue.
    pub fn fold_lists(&mut self) {
        let is_list = |issue: &Issue| matches!(issue.code, Code::KernelDamaged | Code::KernelUnreadable);
        let of_lists: Vec<Issue> = self.issues.drain(..self.of_lists.min(self.issues.len())).collect();
        let (broken, others): (Vec<Issue>, Vec<Issue>) = of_lists.into_iter().partition(is_list);
        self.of_lists = others.len();
        self.issues.splice(0..0, others);
        let Some(severity) = broken.iter().map(|issue| issue.severity).max() else { return };
        let message = "the ELF does not match this memory, and does not show where the kernel's lists are: objects are those that the trace's registry or a waiting thread names, and there may be more";
        let issue = Issue::new(Code::KernelDamaged, message).severity(severity);
        self.issues.insert(self.of_lists, issue.times(broken.len() as u64));
    }

    /// Where no variable of the kernel gives the thread that runs: by the stack that the only CPU is on.
    pub fn find_running(&mut self, stop: &Stop) {
        if !self.current.is_empty() {
            return;
        }
        let why = if self.other_build {
            "the ELF does not match this memory, and does not show which thread runs"
        } else {
            "no symbol _tx_thread_current_ptr, or it cannot be read"
        };
        let pointers = match stop.cpus.as_slice() {
            [cpu] => [cpu.sp(), cpu.get("psp")],
            _ => [None, None],
        };
        // Idle kernels of some ports stay on the stack of a thread that waits by now.
        let runs = |t: &super::Thread, at: Addr| t.state == Some(super::State::READY) && t.holds(at);
        let on = |at: Option<Addr>| self.threads.iter().position(|t| at.is_some_and(|at| runs(t, at)));
        let running = pointers.into_iter().find_map(on).and_then(|i| self.threads.get_mut(i));
        let message = match running {
            Some(thread) => {
                thread.core = Some(0);
                thread.set_pointer(None);
                self.current = vec![thread.address];
                format!("{why}: {} is assumed to be the running thread: the CPU is on its stack", thread.label())
            }
            None => {
                let ready = |t: &&super::Thread| t.state == Some(super::State::READY) && t.run_count != Some(0);
                let ready = self.threads.iter().filter(ready).count();
                if ready == 0 {
                    return;
                }
                format!(
                    "{why}: one of {ready} ready threads may be running; what it shows of its stack, and where it goes on, is then from its last switch"
                )
            }
        };
        self.issues.push(Issue::new(Code::NoKernelSymbol, message));
    }
}
