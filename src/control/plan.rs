//! What an action would write, or why it must not.

use super::change::{Change, Destination};
use super::clock::inserts_with_cycles;
use super::mark::Insertion;
use super::state::{State, Variable};
use crate::abi::Endian;
use crate::catalogue::mask_text;
use crate::code::Code;
use crate::error::Error;
use crate::format::threadx::layout::TraceLayout;
use crate::format::threadx::symbols::{CURRENT, ENABLE_BITS, HEADER};
use crate::session::Target;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Insert events of these classes.
    On(u64),
    /// Insert them no more.
    Off(u64),
    /// Insert these alone.
    Only(u64),
    /// Insert nothing for now.
    Pause,
    /// Go on inserting.
    Resume,
    /// Insert an event of the application.
    Mark {
        /// Its id.
        id: u64,
        /// Its four words.
        info: [u64; 4],
    },
}

/// What is to be written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Writes, in this order. One that changes nothing is checked, and not made.
    pub changes: Vec<Change>,
    /// What is to be said beside them.
    pub notes: Vec<String>,
}

/// Says what an action would write.
///
/// # Errors
/// [`Error`] where it must not be done: there is no trace, its header is not sound, or an event is being inserted.
pub fn plan(target: &mut Target<'_>, state: &State, action: Action) -> Result<Plan, Error> {
    let layout = sound(state)?;
    if target.is_running() {
        return Err(Error::failed(Code::TargetRuns, "the target runs while it is written to", "halt it first"));
    }
    match action {
        Action::On(bits) => mask(state, |mask| mask | bits),
        Action::Off(bits) => mask(state, |mask| mask & !bits),
        Action::Only(bits) => mask(state, |_| bits),
        Action::Pause => pause(state),
        Action::Resume => resume(state, &layout),
        Action::Mark { id, info } => {
            let with_cycles = state.m_profile && target.elf().is_some_and(inserts_with_cycles);
            let (memory, symbols) = target.parts();
            Insertion { state, layout, memory, symbols, with_cycles }.mark(id, info)
        }
    }
}

/// The layout of the trace, where it may be written to.
pub fn sound(state: &State) -> Result<TraceLayout, Error> {
    if let Some(why) = state.unnamed {
        return Err(Error::failed(
            Code::NoSuchSymbol,
            format!("nothing is written: {why}"),
            "give the unstripped --elf of the program that runs",
        ));
    }
    if !state.found.contains(&HEADER) {
        return Err(Error::not_found(
            Code::TraceNotBuiltIn,
            format!("the program has no {HEADER}"),
            "give the unstripped --elf; `tx-trace setup ELF` prints the code that puts the trace into the program",
        ));
    }
    if let Some(why) = &state.wrong {
        let hint = if state.ran_from_zero {
            "reset the target: its memory from address 0 on was overwritten, and no write repairs that; `last` and `dump` \
             still read the ring. Where nothing was paused: check that the ELF is that of the running program"
        } else {
            "check that the ELF is that of the running program"
        };
        return Err(Error::failed(Code::HeaderDamaged, format!("nothing is written: {why}"), hint));
    }
    state.layout.ok_or_else(|| {
        Error::not_found(
            Code::NeverEnabled,
            format!("{HEADER} is 0: the trace was not enabled since the last start"),
            "call tx_trace_enable, in GDB by `tx-trace control enable BUFFER SIZE`",
        )
    })
}

fn no_symbol(name: &str) -> Error {
    Error::failed(Code::NoSuchSymbol, format!("no symbol {name}"), "give its address: --symbol NAME=ADDR")
}

fn mask(state: &State, change: impl Fn(u64) -> u64) -> Result<Plan, Error> {
    let Some(mask) = state.mask else { return Err(no_symbol(ENABLE_BITS)) };
    let new = change(mask.value);
    let mut notes = Vec::new();
    if new == mask.value {
        notes.push(format!("the mask is {new:#010x} already: nothing is written"));
    } else {
        notes.push(format!("classes of events: {} -> {}", mask_text(mask.value), mask_text(new)));
    }
    if new != mask.value && new & 7 != 7 {
        notes.push(
            "without internal, block pool and byte pool events the kernel writes late words into the oldest event: \
             do not trust its i2 and i4"
                .to_owned(),
        );
    }
    let what = format!("{ENABLE_BITS} {:#010x} -> {new:#010x}", mask.value);
    Ok(Plan { changes: vec![set(ENABLE_BITS, mask, new, state.endian, what)], notes })
}

/// Fails where the kernel is between its two stores of the current pointer.
pub(super) fn not_inserting(state: &State) -> Result<(), Error> {
    if state.current.is_none() {
        return Err(no_symbol(CURRENT));
    }
    match state.inserting() {
        None => Ok(()),
        Some((current, copy)) => Err(Error::failed(
            Code::InsertionInProgress,
            format!(
                "nothing is written: {CURRENT} is {current:#x}, the header's copy {copy:#x}: an event is being inserted"
            ),
            "resume the target for a moment, and halt it again; if it crashed in that place, only a reset helps",
        )),
    }
}

fn pointer(state: &State, new: u64) -> Result<Change, Error> {
    let Some(current) = state.current else { return Err(no_symbol(CURRENT)) };
    let what = format!("{CURRENT} {:#x} -> {new:#x}", current.value);
    Ok(set(CURRENT, current, new, state.endian, what))
}

/// The write of a value to a variable of the kernel.
fn set(name: &'static str, variable: Variable, new: u64, endian: Endian, what: String) -> Change {
    Change {
        destination: Destination::Variable(name),
        address: variable.address,
        bytes: endian.bytes(variable.width, new),
        before: endian.bytes(variable.width, variable.value),
        what,
    }
}

fn pause(state: &State) -> Result<Plan, Error> {
    not_inserting(state)?;
    if !state.is_enabled() {
        let notes = vec!["nothing is inserted already: nothing is written".to_owned()];
        return Ok(Plan { changes: Vec::new(), notes });
    }
    Ok(Plan { changes: vec![pointer(state, 0)?], notes: Vec::new() })
}

fn resume(state: &State, layout: &TraceLayout) -> Result<Plan, Error> {
    not_inserting(state)?;
    if state.is_enabled() {
        let notes = vec!["events are inserted already: nothing is written".to_owned()];
        return Ok(Plan { changes: Vec::new(), notes });
    }
    let mut notes = Vec::new();
    if state.registry_start == Some(0) {
        notes.push("the kernel's own tx_trace_disable was called: new objects are not registered any more".to_owned());
    }
    Ok(Plan { changes: vec![pointer(state, layout.place(layout.fields.current))?], notes })
}

/// The current pointer and the header's copy of it, as the kernel moves them on.
pub(super) fn advance(state: &State, layout: &TraceLayout, next: u64) -> Result<[Change; 2], Error> {
    let (value, before) = (layout.pointer_to(next), layout.fields.current);
    let copy = Change {
        destination: Destination::Copy,
        address: layout.current_at(),
        bytes: layout.endian.bytes(layout.word, value),
        before: layout.endian.bytes(layout.word, before),
        what: format!("the header's current pointer {before:#x} -> {value:#x}"),
    };
    Ok([pointer(state, next)?, copy])
}
