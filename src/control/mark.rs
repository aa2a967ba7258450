//! An event of the application, inserted as the kernel would.

use super::change::Change;
use super::plan::{Plan, advance, bytes, not_inserting};
use super::state::{Header, State, word_at};
use super::symbols::{SIMULATED, STATE, THREAD};
use crate::abi::{Addr, Width};
use crate::format::Absence;
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
/// The cycle counter of a Cortex-M: what its ports stamp with.
const CYCCNT: Addr = 0xE000_1004;

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
    memory: &mut dyn Memory,
    symbols: &dyn Symbols,
) -> Result<Plan, Absence> {
    not_inserting(state)?;
    let current = state.current.filter(|c| c.value != 0).ok_or_else(|| {
        Absence::none("not-inserting", "nothing is inserted now: the trace is paused or disabled", "`control resume`")
    })?;
    if state.mask.is_some_and(|m| m.value & USER == 0) {
        return Err(Absence::none(
            "not-inserting",
            "the mask leaves the application's events out: the kernel would not insert this one",
            "`control on user`",
        ));
    }
    for (what, value) in [("ID", id), ("I1", info[0]), ("I2", info[1]), ("I3", info[2]), ("I4", info[3])] {
        if value > header.word.max() {
            return Err(Absence::broken(
                "number",
                format!("{what} {value:#x} is wider than the kernel's word of {} bytes", header.word.bytes()),
                "",
            ));
        }
    }
    let mut notes = Vec::new();
    let who = who(state, header, memory, symbols)?;
    notes.extend(who.note);
    let (stamp, ticked, clock) = stamp(state, header, current.value, memory, symbols)?;
    notes.push(clock);
    let [i1, i2, i3, i4] = info;
    let words = [who.thread, who.priority, id, stamp, i1, i2, i3, i4];
    let entry: Vec<u8> = words.into_iter().flat_map(|w| bytes(w, header.endian, header.word)).collect();
    let before = memory
        .read_bytes(current.value, entry.len())
        .map_err(|e| Absence::from_read(&e, "the slot of the next event"))?
        .to_vec();
    let slot = header.slot(current.value).unwrap_or(0);
    let mut changes = vec![Change {
        address: current.value,
        bytes: entry,
        before,
        what: format!("slot {slot}: event {id} ({i1:#x}, {i2:#x}, {i3:#x}, {i4:#x})"),
    }];
    changes.extend(ticked);
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
fn who(state: &State, header: &Header, memory: &mut dyn Memory, symbols: &dyn Symbols) -> Result<Who, Absence> {
    let mut cores = false;
    let mut value = |name: &str, usual: Width| -> Result<Option<u64>, Absence> {
        let Some(symbol) = symbols.lookup(name) else { return Ok(None) };
        // An array has one for each core.
        cores |= symbol.size > usual.bytes() as u64;
        word_at(memory, symbol.address, state.endian, usual).map(Some)
    };
    let thread = value(THREAD, state.pointer)?;
    let system = value(STATE, header.word)?;
    let (Some(thread), Some(mut system)) = (thread, system) else {
        return Err(Absence::broken(
            "no-such-symbol",
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

/// The stamp, the write that moves the clock on where software does that, and how it is known.
fn stamp(
    state: &State,
    header: &Header,
    current: Addr,
    memory: &mut dyn Memory,
    symbols: &dyn Symbols,
) -> Result<(u64, Option<Change>, String), Absence> {
    let (start, end) = header.ring();
    let size = entry_size(header.word) as u64;
    let newest = if current == start { end.wrapping_sub(size) } else { current.wrapping_sub(size) };
    let at = |word: usize| newest.wrapping_add(word.wrapping_mul(header.word.bytes()) as u64);
    let used = word_at(memory, at(0), header.endian, header.word)? != 0;
    let last = word_at(memory, at(3), header.endian, header.word)?;
    let mask = header.raw.time_mask;
    if let Some(symbol) = symbols.lookup(SIMULATED) {
        let width = Width::from_bytes(symbol.size).unwrap_or(header.word);
        let time = word_at(memory, symbol.address, state.endian, width)?;
        if used && time & mask == last & mask {
            let next = time.wrapping_add(1) & width.max();
            let change = Change {
                address: symbol.address,
                bytes: bytes(next, state.endian, width),
                before: bytes(time, state.endian, width),
                what: format!("{SIMULATED} {time:#x} -> {next:#x}"),
            };
            return Ok((next & header.word.max(), Some(change), "its stamp is the kernel's simulated time".to_owned()));
        }
    }
    if state.m_profile
        && let Ok(cycles) = word_at(memory, CYCCNT, state.endian, Width::W4)
        && used
        && is_after(cycles, last, mask)
    {
        return Ok((cycles, None, "its stamp is the cycle counter's, DWT CYCCNT".to_owned()));
    }
    let last = if used { last } else { 0 };
    Ok((last, None, "the kernel's clock is not known: its stamp is that of the event before it".to_owned()))
}

/// True where a clock that counts up may have come from `last` to `now`: by less than half of its range.
const fn is_after(now: u64, last: u64, mask: u64) -> bool {
    let gone = now.wrapping_sub(last) & mask;
    gone != 0 && gone <= mask / 2
}
