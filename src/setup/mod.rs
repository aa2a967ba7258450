//! The C code that enables ThreadX's event trace in a program, chosen by what its ELF shows: the kernel and its components,
//! the processor and its counter of cycles, and whether the trace is compiled in already.

mod code;
mod time;

use std::time::Duration;

use crate::elf::{Elf, Machine, PT_LOAD};
use crate::format::threadx::symbols::{CURRENT, HEADER, KERNEL};
use time::Time;

/// What the functions of a component begin with, and its name.
const COMPONENTS: [(&str, &str); 3] = [("_fx_", "FileX"), ("_nx_", "NetX"), ("_ux_", "USBX")];
/// What NetX Duo has, and NetX classic has not.
const DUO: &str = "_nxd_";
/// There in every kernel for several cores.
const SEVERAL_CORES: &str = "_tx_thread_smp_";
/// Starts the trace.
const ENABLE: &str = "_tx_trace_enable";
/// Marks where an interrupt handler begins.
const ISR_ENTER: &str = "_tx_trace_isr_enter_insert";
/// Inserts an event of the application.
const USER_EVENT: &str = "_tx_trace_user_event_insert";
/// The kernel's version string.
const VERSION_ID: &str = "_tx_version_id";
/// The most bytes of it that are read, and the most characters that are shown.
const LONGEST: usize = 160;
const SHOWN: usize = 100;

/// How far a program is on the way to a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The kernel was built without it.
    NotBuilt,
    /// The kernel has it, and nothing enables it.
    NotEnabled,
    /// The kernel has it, and the function that enables it is in the program.
    There,
}

/// What an ELF shows of a ThreadX program.
#[derive(Debug, Clone)]
pub struct Program {
    name: String,
    version: Option<String>,
    components: Vec<&'static str>,
    machine: Machine,
    time: Time,
    state: State,
    has_isr_events: bool,
    has_user_events: bool,
}

/// What is wanted of the trace.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// How far back a full buffer reaches.
    pub keep: Duration,
    /// Events in a second.
    pub rate: u64,
    /// True where the rate was not typed.
    pub rate_is_guessed: bool,
    /// Entries of the object registry.
    pub objects: u64,
    /// C expression that reads the time.
    pub time_source: Option<String>,
    /// The largest value of the time.
    pub time_mask: u64,
    /// The buffer keeps its contents over a reset.
    pub over_reset: bool,
    /// The code also where the trace is there.
    pub all: bool,
}

impl Wanted {
    /// How many events the buffer holds: at least one.
    fn events(&self) -> u64 {
        let events = self.keep.as_millis().saturating_mul(u128::from(self.rate)).div_ceil(1000);
        u64::try_from(events).unwrap_or(u64::MAX).max(1)
    }
}

impl Program {
    /// Of an ELF whose file has this name; `None` where it has no symbol of ThreadX.
    pub fn of(name: &str, elf: &Elf) -> Option<Self> {
        let has = |symbol: &str| elf.symbol(symbol).is_some();
        let has_any = |prefix: &str| !elf.symbols_with_prefix(prefix).is_empty();
        if !KERNEL.into_iter().any(has) {
            return None;
        }
        let state = match (has(HEADER) || has(CURRENT), has(ENABLE)) {
            (false, _) => State::NotBuilt,
            (true, false) => State::NotEnabled,
            (true, true) => State::There,
        };
        let components = COMPONENTS.into_iter().filter(|(prefix, _)| has_any(prefix));
        let components = components.map(|(_, name)| if name == "NetX" && has_any(DUO) { "NetX Duo" } else { name });
        Some(Self {
            name: comment(name),
            version: version(elf),
            components: components.collect(),
            machine: elf.machine(),
            time: Time::of(elf, has_any(SEVERAL_CORES)),
            state,
            has_isr_events: has(ISR_ENTER),
            has_user_events: has(USER_EVENT),
        })
    }

    /// How far it is.
    pub const fn state(&self) -> State {
        self.state
    }

    /// What is to be added to it: C code, or a text where nothing is.
    pub fn text(&self, wanted: &Wanted) -> String {
        if self.state == State::There && !wanted.all { self.nothing_to_add() } else { code::write(self, wanted) }
    }

    /// The name of its file as it is typed: in quotes where it has blanks.
    fn typed_name(&self) -> String {
        if self.name.contains(' ') { format!("\"{}\"", self.name) } else { self.name.clone() }
    }

    /// For a program that has its trace.
    fn nothing_to_add(&self) -> String {
        let (name, typed) = (&self.name, self.typed_name());
        let isr = if self.has_isr_events {
            "tx_trace_isr_enter_insert is there: handlers that call it are in the trace"
        } else {
            "tx_trace_isr_enter_insert is not in this program"
        };
        let user = if self.has_user_events {
            "tx_trace_user_event_insert is there; their names: tx-trace help events"
        } else {
            "tx_trace_user_event_insert is not in this program"
        };
        format!(
            "{name}: nothing to add. The event trace is compiled in, and tx_trace_enable is there.\n\n  \
             read it      tx-trace last 50 --elf {typed} --remote :3333\n  \
             interrupts   {isr}\n  \
             your events  {user}\n  \
             the code     tx-trace setup --all {typed} prints it anyway\n"
        )
    }
}

/// The kernel's version string: a variable, whose first value is in the file.
fn version(elf: &Elf) -> Option<String> {
    let address = elf.symbol(VERSION_ID)?.address;
    let segments = elf.segments().filter(|segment| segment.kind == PT_LOAD);
    let text = segments.filter_map(|segment| {
        let at = usize::try_from(address.checked_sub(segment.vaddr)?).ok()?;
        let bytes = elf.segment_bytes(&segment);
        let text = bytes.get(at..)?.split(|byte| *byte == 0).next()?;
        let text = String::from_utf8_lossy(text.get(..text.len().min(LONGEST))?);
        text.contains("ersion").then(|| short(&text))
    });
    text.into_iter().next()
}

/// Text that can end no comment: of one line, without a star.
fn comment(text: &str) -> String {
    text.chars().map(|c| if c == ' ' || c.is_ascii_graphic() && c != '*' { c } else { '?' }).collect()
}

/// What names kernel, port and version in the kernel's version string, whose parts stand between stars.
fn short(text: &str) -> String {
    let part = text.split('*').find(|part| part.contains("ersion")).unwrap_or(text);
    comment(part.trim()).chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A version string is a text of the ELF, and goes into C code.
    #[test]
    fn no_text_of_an_elf_ends_a_comment() {
        assert_eq!(short("Copyright * ThreadX Cortex-M4/GNU Version 6.4.2 *"), "ThreadX Cortex-M4/GNU Version 6.4.2");
        for text in ["Version */ int main", "*/ x *", "a\nb\r\u{1b}[1m Version\0", "Version /*/"] {
            let short = short(text);
            assert!(!short.contains('*') && short.chars().all(|c| c == ' ' || c.is_ascii_graphic()), "{short:?}");
        }
        assert_eq!(comment("a*/b.elf"), "a?/b.elf");
    }

    #[test]
    fn the_buffer_holds_what_is_wanted() {
        let wanted = |keep, rate| Wanted {
            keep: Duration::from_millis(keep),
            rate,
            rate_is_guessed: false,
            objects: 0,
            time_source: None,
            time_mask: 0,
            over_reset: false,
            all: false,
        };
        assert_eq!(wanted(2000, 1000).events(), 2000);
        assert_eq!(wanted(1, 1).events(), 1);
        assert_eq!(wanted(1500, 333).events(), 500);
        assert_eq!(wanted(u64::MAX, u64::MAX).events(), u64::MAX);
    }
}
