//! An event of the application, inserted as the kernel would.

use super::change::{Change, Destination};
use super::clock;
use super::plan::{Plan, advance, not_inserting};
use super::state::{State, word_at};
use crate::abi::{Addr, Width};
use crate::code::Code;
use crate::error::Error;
use crate::format::threadx::layout::{CONTEXT_INIT, CONTEXT_ISR, TraceLayout};
use crate::format::threadx::symbols::{CURRENT_THREAD, SYSTEM_STATE};
use crate::mem::Memory;
use crate::sym::Symbols;

/// The mask's bit of the application's events.
const USER: u64 = 0x8000_0000;
/// `tx_thread_id` of a thread: "THRD".
const THREAD_ID: u64 = 0x5448_5244;
/// More priorities than any kernel is built with.
const PRIORITIES: u64 = 1024;
/// Where a Cortex-M says which exception is active: SCB ICSR, its low nine bits.
const ICSR: Addr = 0xE000_ED04;

/// Who inserts, as the first two words of an event have it.
struct Who {
    thread: u64,
    priority: u64,
    note: Option<String>,
}

/// What an insertion is made by: the trace, and the memory that shows who would insert, and when.
pub struct Insertion<'a> {
    pub state: &'a State,
    pub layout: TraceLayout,
    pub memory: &'a mut dyn Memory,
    pub symbols: &'a dyn Symbols,
    /// True where the program's own code stamps events with a Cortex-M's cycle counter.
    pub with_cycles: bool,
}

impl Insertion<'_> {
    /// A word of the kernel or of the processor.
    pub fn word(&mut self, address: Addr, width: Width) -> Result<u64, Error> {
        word_at(self.memory, address, self.layout.endian, width)
    }

    /// The writes that insert an event: the slot first, then the two pointers, in the kernel's order.
    pub(super) fn mark(mut self, id: u64, info: [u64; 4]) -> Result<Plan, Error> {
        let layout = self.layout;
        let current = self.place()?;
        let [i1, i2, i3, i4] = info;
        for (what, value) in [("ID", id), ("I1", i1), ("I2", i2), ("I3", i3), ("I4", i4)] {
            if value > layout.word.max() {
                let width = layout.word.bytes();
                let message = format!("{what} {value:#x} is wider than the kernel's word of {width} bytes");
                return Err(Error::failed(Code::Number, message, ""));
            }
        }
        let who = self.who()?;
        let stamp = clock::stamp(&mut self, current)?;
        let mut notes: Vec<String> = who.note.into_iter().chain([stamp.note]).collect();
        let words = [who.thread, who.priority, id, stamp.value, i1, i2, i3, i4];
        let entry: Vec<u8> = words.into_iter().flat_map(|w| layout.endian.bytes(layout.word, w)).collect();
        let before = self.memory.read_bytes(current, entry.len());
        let before = before.map_err(|e| e.explain("the slot of the next event"))?.to_vec();
        let slot = layout.slot_of(current);
        let what = format!("slot {slot}: event {id} ({i1:#x}, {i2:#x}, {i3:#x}, {i4:#x})");
        let mut changes = vec![Change { destination: Destination::Slot, address: current, bytes: entry, before, what }];
        changes.extend(stamp.ticked);
        let next = layout.after(slot, 1);
        if next == 0 {
            notes.push("the ring wraps here; the kernel's buffer-full function is not called".to_owned());
        }
        changes.extend(advance(self.state, &layout, layout.address(next))?);
        Ok(Plan { changes, notes })
    }

    /// Where the next event goes.
    fn place(&self) -> Result<Addr, Error> {
        not_inserting(self.state)?;
        let current = self.state.current.map(|c| c.value).filter(|value| *value != 0).ok_or_else(|| {
            let message = "nothing is inserted now: the trace is paused or disabled";
            Error::not_found(Code::NotInserting, message, "`control resume`")
        })?;
        if self.state.mask.is_some_and(|m| m.value & USER == 0) {
            return Err(Error::not_found(
                Code::NotInserting,
                "the mask leaves the application's events out: the kernel would not insert this one",
                "`control on user`",
            ));
        }
        Ok(current)
    }

    /// The context that the kernel would store.
    fn who(&mut self) -> Result<Who, Error> {
        let variables = self.symbols.lookup(CURRENT_THREAD).zip(self.symbols.lookup(SYSTEM_STATE));
        let (thread, system) = variables.ok_or_else(|| {
            let message = format!("no symbol {CURRENT_THREAD} or {SYSTEM_STATE}: who would insert is not known");
            Error::failed(Code::NoSuchSymbol, message, "give their addresses: --symbol NAME=ADDR")
        })?;
        let (pointer, word) = (self.state.pointer, self.layout.word);
        // An array has one for each core.
        let cores = thread.size > pointer.size() || system.size > word.size();
        let mut note = cores.then(|| "the mark is core 0's".to_owned());
        let thread = self.word(thread.address, pointer)?;
        let mut system = self.word(system.address, word)?;
        if self.state.m_profile {
            match self.word(ICSR, Width::W4) {
                Ok(icsr) => system |= icsr & 0x1FF,
                Err(_) => note = Some("whether an exception is active cannot be read: a thread is assumed".to_owned()),
            }
        }
        let cut = thread & word.max();
        if system >= CONTEXT_INIT {
            return Ok(Who { thread: CONTEXT_INIT, priority: 0, note });
        }
        // Between threads nothing but an interrupt inserts.
        if system > 0 || thread == 0 {
            return Ok(Who { thread: CONTEXT_ISR, priority: cut, note });
        }
        let priority = match self.priority(thread) {
            Some((priority, threshold)) => 0x8000_0000 | (threshold << 16) | priority,
            None => {
                note = Some("the thread's priority is not known: 0 is stored".to_owned());
                0x8000_0000
            }
        };
        Ok(Who { thread: cut, priority, note })
    }

    /// A thread's priority and preemption threshold.
    fn priority(&mut self, thread: Addr) -> Option<(u64, u64)> {
        let member = |name: &str| self.symbols.member_offset("TX_THREAD_STRUCT", name);
        let offsets = member("tx_thread_priority").zip(member("tx_thread_preempt_threshold"));
        // Without debug information: where every 32-bit port has them.
        let usual = (self.state.pointer == Width::W4).then_some((44, 60));
        let (own, threshold) = offsets.or(usual)?;
        let mut read = |offset: u64| self.word(thread.checked_add(offset)?, Width::W4).ok();
        let (id, own, threshold) = (read(0)?, read(own)?, read(threshold)?);
        (id == THREAD_ID && own < PRIORITIES && threshold <= own).then_some((own, threshold))
    }
}
