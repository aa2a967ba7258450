//! An event of the application, inserted as the kernel would.

use super::change::{Change, Target};
use super::clock::Stamp;
use super::plan::{Plan, advance, bytes, not_inserting};
use super::state::{Header, State, word_at};
use super::symbols::{STATE, THREAD};
use crate::abi::{Addr, Width};
use crate::code::Code;
use crate::error::Error;
use crate::format::threadx::layout::{CONTEXT_INIT, CONTEXT_ISR, entry_size};
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

/// The writes that insert an event: the slot first, then the two pointers, in the kernel's order.
pub fn mark(
    state: &State,
    header: &Header,
    id: u64,
    info: [u64; 4],
    stamped_with_cycles: bool,
    memory: &mut dyn Memory,
    symbols: &dyn Symbols,
) -> Result<Plan, Error> {
    not_inserting(state)?;
    let current = state.current.filter(|c| c.value != 0).ok_or_else(|| {
        Error::not_found(
            Code::NotInserting,
            "nothing is inserted now: the trace is paused or disabled",
            "`control resume`",
        )
    })?;
    if state.mask.is_some_and(|m| m.value & USER == 0) {
        return Err(Error::not_found(
            Code::NotInserting,
            "the mask leaves the application's events out: the kernel would not insert this one",
            "`control on user`",
        ));
    }
    for (what, value) in [("ID", id), ("I1", info[0]), ("I2", info[1]), ("I3", info[2]), ("I4", info[3])] {
        if value > header.word.max() {
            return Err(Error::failed(
                Code::Number,
                format!("{what} {value:#x} is wider than the kernel's word of {} bytes", header.word.bytes()),
                "",
            ));
        }
    }
    let mut notes = Vec::new();
    let who = who(state, header, memory, symbols)?;
    notes.extend(who.note);
    let stamp = Stamp::read(state, header, current.value, stamped_with_cycles, memory, symbols)?;
    notes.push(stamp.note);
    let [i1, i2, i3, i4] = info;
    let words = [who.thread, who.priority, id, stamp.value, i1, i2, i3, i4];
    let entry: Vec<u8> = words.into_iter().flat_map(|w| bytes(w, header.endian, header.word)).collect();
    let before =
        memory.read_bytes(current.value, entry.len()).map_err(|e| e.explain("the slot of the next event"))?.to_vec();
    let slot = header.slot(current.value).unwrap_or(0);
    let mut changes = vec![Change {
        target: Target::Slot,
        address: current.value,
        bytes: entry,
        before,
        what: format!("slot {slot}: event {id} ({i1:#x}, {i2:#x}, {i3:#x}, {i4:#x})"),
    }];
    changes.extend(stamp.ticked);
    let (start, end) = header.ring();
    let next = current.value.wrapping_add(entry_size(header.word) as u64);
    let next = if next >= end {
        notes.push("the ring wraps here; the kernel's buffer-full function is not called".to_owned());
        start
    } else {
        next
    };
    changes.extend(advance(state, header, next)?);
    Ok(Plan { changes, notes })
}

/// The context that the kernel would store.
fn who(state: &State, header: &Header, memory: &mut dyn Memory, symbols: &dyn Symbols) -> Result<Who, Error> {
    let mut cores = false;
    let mut value = |name: &str, usual: Width| -> Result<Option<u64>, Error> {
        let Some(symbol) = symbols.lookup(name) else { return Ok(None) };
        // An array has one for each core.
        cores |= symbol.size > usual.bytes() as u64;
        word_at(memory, symbol.address, state.endian, usual).map(Some)
    };
    let thread = value(THREAD, state.pointer)?;
    let system = value(STATE, header.word)?;
    let (Some(thread), Some(mut system)) = (thread, system) else {
        return Err(Error::failed(
            Code::NoSuchSymbol,
            format!("no symbol {THREAD} or {STATE}: who would insert is not known"),
            "give their addresses: --symbol NAME=ADDR",
        ));
    };
    let mut note = cores.then(|| "the mark is core 0's".to_owned());
    if state.m_profile {
        match word_at(memory, ICSR, state.endian, Width::W4) {
            Ok(icsr) => system |= icsr & 0x1FF,
            Err(_) => note = Some("whether an exception is active cannot be read: a thread is taken".to_owned()),
        }
    }
    let cut = thread & header.word.max();
    if system >= CONTEXT_INIT {
        return Ok(Who { thread: CONTEXT_INIT, priority: 0, note });
    }
    // Between threads nothing but an interrupt inserts.
    if system > 0 || thread == 0 {
        return Ok(Who { thread: CONTEXT_ISR, priority: cut, note });
    }
    let priority = match priority(state, thread, memory, symbols) {
        Some((priority, threshold)) => 0x8000_0000 | (threshold << 16) | priority,
        None => {
            note = Some("the thread's priority is not known: 0 is stored".to_owned());
            0x8000_0000
        }
    };
    Ok(Who { thread: cut, priority, note })
}

/// A thread's priority and preemption threshold.
fn priority(state: &State, thread: Addr, memory: &mut dyn Memory, symbols: &dyn Symbols) -> Option<(u64, u64)> {
    let member = |name: &str| symbols.member_offset("TX_THREAD_STRUCT", name);
    let offsets = member("tx_thread_priority").zip(member("tx_thread_preempt_threshold"));
    // Without debug information: where every 32-bit port has them.
    let usual = (state.pointer == Width::W4).then_some((44, 60));
    let (own, threshold) = offsets.or(usual)?;
    let mut read = |offset: u64| word_at(memory, thread.checked_add(offset)?, state.endian, Width::W4).ok();
    let (id, own, threshold) = (read(0)?, read(own)?, read(threshold)?);
    (id == THREAD_ID && own < PRIORITIES && threshold <= own).then_some((own, threshold))
}
