//! What of a kernel goes into an evidence core: its memory, and the functions that it names.

use super::{Kernel, Kind};
use crate::abi::Addr;
use crate::cpu::{Architecture, Registers};
use crate::mem::Region;

/// Bytes that are taken for a name, in parts: names are among constants, near the end of which there may be less than the
/// longest of them.
const NAME: u64 = 64;
const NAME_PART: usize = 16;
/// Bytes that are taken of a main stack, in parts.
const MAIN_STACK: u64 = 4096;
const MAIN_PART: usize = 32;
/// The longest stack.
const MAX_STACK: u64 = 64 << 20;

impl Kernel {
    /// Control blocks and stacks, each with what it is.
    pub fn regions(&self) -> Vec<(&'static str, Region)> {
        let thread = self.layout.thread.len;
        let threads = self.threads.iter().map(|t| Region { start: t.address, len: thread });
        let len = |kind: Kind| self.layout.object(kind).map_or(0, |s| s.len);
        let objects = self.objects.iter().map(|o| Region { start: o.address, len: len(o.kind) });
        let blocks = threads.chain(objects).map(|region| ("control blocks", region));
        let stacks = self.threads.iter().flat_map(|t| t.stacks());
        blocks.chain(stacks.filter(|r| r.len <= MAX_STACK).map(|region| ("stack", region))).collect()
    }

    /// The main stack of each CPU that is on it, in parts: where it ends is not known.
    pub fn main_stacks(&self) -> Vec<Region> {
        // The stack pointers of a host are those of its own threads.
        if matches!(self.processor, Some(Architecture::X86 | Architecture::X86_64) | None) {
            return Vec::new();
        }
        let on_a_thread = |sp: &Addr| self.threads.iter().any(|t| t.holds(*sp));
        let starts = self.registers.iter().filter_map(Registers::sp).filter(|sp| !on_a_thread(sp));
        let parts = |sp: Addr| (0..MAIN_STACK).step_by(MAIN_PART).map_while(move |offset| sp.checked_add(offset));
        starts.flat_map(parts).map(|start| Region { start, len: MAIN_PART as u64 }).collect()
    }

    /// Where the names of objects are.
    pub fn name_regions(&self) -> Vec<Region> {
        let threads = self.threads.iter().filter_map(|t| t.name_at);
        let names = threads.chain(self.objects.iter().filter_map(|o| o.name_at));
        let part = |start| Region { start, len: NAME_PART as u64 };
        let parts = |at: Addr| (0..NAME).step_by(NAME_PART).map_while(move |offset| at.checked_add(offset));
        names.flat_map(parts).map(part).collect()
    }

    /// Addresses of code that threads, timers and CPUs have: some carry the Thumb bit.
    pub fn code(&self) -> Vec<Addr> {
        let threads = self.threads.iter().flat_map(|thread| {
            let lr = thread.position.registers.as_ref().and_then(Registers::lr);
            [thread.entry, thread.position.pc, lr].into_iter().flatten()
        });
        let timers = self.objects.iter().filter_map(|o| o.get("tx_timer_internal_timeout_function"));
        let places = self.interrupted.iter().flat_map(|found| &found.places);
        let places = places.flat_map(|place| [place.registers.pc(), place.registers.lr()]).flatten();
        threads.chain(self.cpus.iter().filter_map(|cpu| cpu.pc)).chain(timers).chain(places).collect()
    }

    /// The addresses of all control blocks.
    pub fn blocks(&self) -> impl Iterator<Item = Addr> {
        self.threads.iter().map(|t| t.address).chain(self.objects.iter().map(|o| o.address))
    }
}
