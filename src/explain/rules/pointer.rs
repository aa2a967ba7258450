//! Where a pointer was read from that led to a fault: a variable, or a block of a pool, which may have been released. The code in
//! front of the instruction shows which word it was; it counts where that word still is the pointer.
//!
//! Against it: the word may have been written again since, with the same value.

use super::super::address;
use super::super::graph::Graph;
use super::super::{Case, Confidence, Evidence, Finding};
use super::beyond::Beyond;
use super::chain;
use super::jump::Way;
use super::passed::Access;
use super::past_end::PastEnd;
use super::pool_memory::{Held, in_pool, kept, owners, with_kept};
use super::set_by::{self, SetBy};
use super::shared::{self, Shared};
use super::static_pointers;
use crate::abi::{Addr, Endian, Region};
use crate::cpu::{Code, Effect, Origin, Read, Registers, long_branch};
use crate::kernel::Thread;
use crate::session::{Function, Place, is_of_kernel};
use crate::sym::Symbol;

/// The most bytes of a variable of which all are taken to belong together.
const SMALL: u64 = 64;
/// The most bytes of a function, and those that are read at once.
const LONGEST: u64 = 4096;
const PIECE: u64 = 1024;

/// The most bytes from a pointer to what is accessed by it: a member of a structure.
pub(super) const NEAR: u64 = 0x1000;
/// Bytes in front of a word, as far as there is memory, and from it on, that are looked at for text.
const BEFORE: [u64; 4] = [48, 32, 16, 8];
const AFTER: u64 = 16;
/// The fewest characters in front of an address of a text that goes on there.
const FRONT: usize = 6;
/// The fewest of its characters there.
const BACK: usize = 2;

/// What was read.
const POINTER: &str = "pointer";
const DIVISOR: &str = "divisor";
/// By what its place is inferred.
const BY_CALLER: &str = "the code of the function that passed it";
const BY_CODE: &str = "the code in front of the instruction";
const BY_CHAIN: &str = "memory: what this function's variables lead to holds it";
/// Of a divisor that the exception frame has with another value.
const OLDER: &str =
    "the exception frame has another value in the divisor's register: QEMU pushes that of before the load";

/// The place from which a pointer was read, or a divisor.
pub(super) struct Pointer {
    /// In words: `sensors+0x8 (0x20000108)`.
    pub words: String,
    pub evidence: Vec<Evidence>,
    /// What to look at.
    pub next: String,
    /// True where a message brought it.
    pub is_of_message: bool,
    /// True where the caller of the function read it, and passed it.
    pub is_passed: bool,
    /// The pointer, or the divisor.
    pub value: u64,
    /// What was read.
    noun: &'static str,
    /// By what that place is inferred.
    by: &'static str,
    /// The variable that it was read from, where the program writes that.
    variable: Option<Symbol>,
    /// Who sets it, where it is a variable.
    set_by: Option<SetBy>,
    /// What speaks against who wrote over it.
    against: Option<&'static str>,
    /// The word, where it is a local variable of a thread.
    pub local: Option<Addr>,
    /// True where the word is in no stack and no pool, and who set it is not known: it may be in the C library's heap, or point into it.
    pub may_be_of_heap: bool,
}

/// The functions of libgcc for a `switch` of a Cortex-M0: the table of jumps is behind the call.
const CASES: [&str; 5] = ["sqi", "uqi", "shi", "uhi", "si"];

/// True where code calls one of them.
fn jumps_by_call(from: Addr, code: &[u8], case: &Case<'_>) -> bool {
    let helper = |name: &&str| case.look.symbol(&format!("__gnu_thumb1_case_{name}")).map(|symbol| symbol.address & !1);
    let helpers: Vec<Addr> = CASES.iter().filter_map(helper).collect();
    let half = |at: usize| Some(u16::from_le_bytes(code.get(at..at.checked_add(2)?)?.try_into().ok()?));
    let target = |at: usize| {
        let behind = from.checked_add(u64::try_from(at).ok()?)?.checked_add(4)?;
        long_branch(half(at)?, half(at.checked_add(2)?)?, behind)
    };
    !helpers.is_empty() && (0..code.len()).step_by(2).filter_map(target).any(|to| helpers.contains(&(to & !1)))
}

impl Pointer {
    /// Of the instruction that failed at a place, or of the one that jumped to it.
    pub fn of_place(place: &Place, way: Option<&Way>, case: &Case<'_>, graph: &Graph) -> Option<Self> {
        let accesses = || place.effect.is_some_and(|effect| effect.address().is_some());
        let at = match way {
            Some(way) => way.site?,
            None => place.registers.pc().filter(|_| accesses())?,
        };
        let stack = stack_at(place.registers.sp(), case);
        let of = |registers: &Registers| Self::of(at, registers, stack, case, graph);
        // A word that is 0 is everywhere.
        let framed =
            || of(&with_frame_pointer(at, &place.registers, case)?).filter(|found| found.value >= address::NULL);
        let found = of(&place.registers).or_else(framed)?;
        // A local variable in which the kernel has the function that it calls is a copy.
        let is_of_kernel = case.look.function(at & !1).is_some_and(|function| is_of_kernel(&function.name));
        (way.is_none() || found.local.is_none() || !is_of_kernel).then_some(found)
    }

    /// The place from which the divisor of the instruction at a place was read, where that is 0.
    pub fn of_divisor(place: &Place, case: &Case<'_>, graph: &Graph) -> Option<Self> {
        let found = Self::read_from(Self::zero_divisor(place, case)?, DIVISOR, case, graph)?;
        let is_other = matches!(place.effect, Some(Effect::Divide(Some(value))) if value != 0);
        Some(Self { against: is_other.then_some(OLDER), ..found })
    }

    /// The word that the divisor of the instruction at a place was read from, where that is 0.
    pub fn zero_divisor(place: &Place, case: &Case<'_>) -> Option<Read> {
        let divides = matches!(place.effect, Some(Effect::DivideByZero | Effect::Divide(_)));
        // Which bytes of a word are its lowest part.
        let is_little = case.kernel?.layout.shape.endian == Endian::Little;
        let at = place.registers.pc().filter(|_| divides && is_little)?;
        let stack = stack_at(place.registers.sp(), case);
        Self::code_at(at, &place.registers, stack, case, &|code| code.zero_divisor())
    }

    /// The place from which the caller of a function read the argument that is the pointer, or a divisor that is 0.
    pub fn of_caller(access: &Access<'_>, place: &Place, case: &Case<'_>, graph: &Graph) -> Option<Self> {
        // Which bytes of a word are its lowest part.
        let is_little = case.kernel?.layout.shape.endian == Endian::Little;
        let caller = place.callers.first().filter(|_| is_little)?;
        let noun = match place.effect? {
            Effect::DivideByZero => DIVISOR,
            effect => effect.address().map(|_| POINTER)?,
        };
        let read = access.read_by_caller(&place.functions, caller, case)?;
        Some(Self { by: BY_CALLER, is_passed: true, ..Self::read_from(read, noun, case, graph)? })
    }

    /// Of the instruction at an address, with the registers in front of it, and the stack in which its stack pointer is.
    pub fn of(at: Addr, registers: &Registers, stack: Option<Region>, case: &Case<'_>, graph: &Graph) -> Option<Self> {
        let read = Self::code_at(at, registers, stack, case, &|code| code.pointer())?;
        Self::read_from(read, POINTER, case, graph)
    }

    /// What the code of the function around an instruction shows.
    pub fn code_at<T>(
        at: Addr,
        registers: &Registers,
        stack: Option<Region>,
        case: &Case<'_>,
        shows: &dyn Fn(&Code<'_>) -> Option<T>,
    ) -> Option<T> {
        let at = at & !1;
        let (from, code) = body(at, case)?;
        let word = |at: Addr| word(at, case);
        shows(&Code { at, registers, from, code: &code, stack, word: &word })
    }

    /// Of an access where there is no memory, by what the variables lead to that its function uses.
    pub fn of_chain(access: &Access<'_>, functions: &[Function], case: &Case<'_>, graph: &Graph) -> Option<Self> {
        let failed = access.failed.filter(|at| case.cpus.is_some_and(|cpus| cpus.has(*at) == Some(false)))?;
        let (_, base) = access.base(case)?;
        let value = base.filter(|base| *base >= address::NULL && base.abs_diff(failed) < NEAR)?;
        let read = chain::read(value, functions, case)?;
        Some(Self { by: BY_CHAIN, ..Self::read_from(read, POINTER, case, graph)? })
    }

    /// The same, where a message brought it.
    pub fn with_message(mut self, (words, evidence): (String, Evidence)) -> Self {
        self.words = format!("{}; {words}", self.words);
        self.next = "look at who sends these messages, and sets each part of them".to_owned();
        self.is_of_message = true;
        self.evidence.push(evidence);
        self
    }

    /// Adds it to a fault.
    pub fn added_to(self, fault: Finding, case: &Case<'_>) -> Finding {
        let claim = format!("{}; the {} was read from {}", fault.claim, self.noun, self.words);
        let set_by = self.set_by;
        let next = set_by.as_ref().and_then(|set_by| set_by.next.clone()).unwrap_or(self.next);
        let claim = match set_by.as_ref().and_then(|set_by| set_by.words.as_ref()) {
            Some(words) => format!("{claim}; {}", words.of("it")),
            None => claim,
        };
        let confidence = fault.confidence.min(Confidence::Likely);
        // Of a large variable, others may use other members.
        let shared = self.variable.filter(|variable| variable.size <= SMALL).and_then(|variable| {
            Shared::of(Region { start: variable.address, len: variable.size }, &variable.name, case)
        });
        Finding { claim, confidence, ..fault }
            .against([format!("where the {} was read from is inferred from {}", self.noun, self.by)])
            .against(set_by.is_some().then_some(set_by::AGAINST))
            .against(self.against)
            .evidence(self.evidence)
            .evidence(set_by.map(|set_by| set_by.evidence))
            .next(next)
            .with_shared_value(shared)
    }

    fn read_from(read: Read, noun: &'static str, case: &Case<'_>, graph: &Graph) -> Option<Self> {
        let Read { place, value, .. } = read;
        let threads = || case.kernel.into_iter().flat_map(|kernel| &kernel.threads);
        // A local variable has no name.
        let through = read.base.filter(|base| !threads().any(|thread| thread.holds(*base)));
        let through = through.and_then(|base| case.look.place(base));
        let at = match &through {
            Some(name) => format!("{place:#x} (in what {name} points to)"),
            None => format!("{place:#x}"),
        };
        let stack = case.kernel?.threads.iter().find(|thread| thread.holds(place));
        let held = in_pool(place, case, graph).filter(|_| stack.is_none());
        let is_of_program = held.is_none() && stack.is_none() && noun == POINTER;
        let has_symbols = case.trust.without_lines.is_none() && !case.trust.other_build;
        let is_in_no_variable =
            has_symbols && case.look.is_stored() && !is_constant(place, case) && case.look.place(place).is_none();
        let beyond = Beyond::of(place, read.first, case).filter(|_| noun == POINTER);
        let past_end = PastEnd::of(place, value, case).filter(|_| noun == POINTER && beyond.is_none());
        let (words, next) = match (&beyond, held, stack) {
            (Some(beyond), ..) => {
                let name = case.look.place(place).map_or(at, |name| format!("{name} ({place:#x})"));
                (format!("{name}{}", beyond.words), beyond.next.clone())
            }
            (_, Some(held), _) => in_block(&at, held, place, value, case),
            (_, None, Some(thread)) => in_stack(&at, thread, through),
            (_, None, None) if is_in_no_variable => (
                format!("{place:#x}, which is in no variable"),
                format!("look for who writes to {place:#x}, which may be allocated memory"),
            ),
            (_, None, None) => in_variable(place, past_end.as_ref(), case)?,
        };
        let word = case.look.bytes(place, case.width()).and_then(|bytes| case.words(&bytes, true).first().copied());
        // A divisor may be a part of the word.
        let word = word.filter(|_| noun == POINTER);
        let moved = if word.is_some_and(|word| word != value) { "; the code has moved it on since" } else { "" };
        let read = format!("the {noun} {value:#x} was read from here{moved}");
        let read = Evidence::memory(place, read).holds(word.unwrap_or(value));
        let kept = if stack.is_none() { kept(place, case) } else { Vec::new() };
        let words = static_pointers::said(&words, &kept, "points into it, too", "point into it, too");
        let next = with_kept(next, &kept);
        let kept = kept.into_iter().map(|kept| kept.evidence);
        let owners = owners(place, case, graph).filter(|_| stack.is_none());
        let evidence = std::iter::once(read).chain(owners).chain(text_around(place, case)).chain(kept);
        let evidence = evidence.chain(past_end.as_ref().and_then(|past_end| past_end.evidence.clone())).collect();
        let variable = case.look.variable(place).filter(|variable| shared::is_data(variable, case));
        // Who sets it on purpose did not set that.
        let set_by =
            if past_end.is_none() && beyond.is_none() { SetBy::of(place, word.unwrap_or(value), case) } else { None };
        let against = past_end.as_ref().and_then(|past_end| past_end.against);
        let may_be_of_heap = is_of_program && set_by.as_ref().is_none_or(|set_by| set_by.words.is_none());
        Some(Self {
            words,
            evidence,
            next,
            is_of_message: false,
            is_passed: false,
            value,
            noun,
            by: BY_CODE,
            variable,
            set_by,
            against,
            local: stack.map(|_| place),
            may_be_of_heap,
        })
    }
}

/// With the frame pointer of code that was not optimized, where it is not known: the function sets it once, beside the stack pointer (ADD
/// r7, sp, #n; Armv7-M Architecture Reference Manual, A7.7.5). What was read through it is compared with the pointer.
fn with_frame_pointer(at: Addr, registers: &Registers, case: &Case<'_>) -> Option<Registers> {
    let sp = registers.sp().filter(|_| registers.get("r7").is_none())?;
    let (_, code) = body(at & !1, case)?;
    let halves = code.chunks_exact(2).filter_map(|two| Endian::Little.u16(two, 0));
    let mut set = halves.filter(|half| half & 0xFF00 == 0xAF00);
    let (first, None) = (set.next()?, set.next()) else { return None };
    let mut registers = registers.clone();
    registers.set_from(Origin::Inferred, "r7", sp.checked_add(u64::from(first & 0xFF) << 2)?);
    Some(registers)
}

/// In words where a pointer was read from, and what to look at: in a block of a pool. `at`: the place.
fn in_block(at: &str, held: Held, place: Addr, value: u64, case: &Case<'_>) -> (String, String) {
    let Held { words, is_free, was_released, changed_owner } = held;
    let here = format!("{at}, {words}");
    if is_free || was_released {
        return (here, format!("look for what uses {place:#x} after its release"));
    }
    if let Some(older) = older_text(place, value, case) {
        let next = "look for a path on which this member of the block is not set before it is used";
        return (format!("{here}; {older}"), next.to_owned());
    }
    let writer = format!("look for who writes to {place:#x}");
    let left = "who released the block may have left its address to an interrupt, a device or another thread";
    (here, if changed_owner { format!("{writer}: {left}") } else { writer })
}

/// The same in the stack of a thread. `through`: the variable that points there.
fn in_stack(at: &str, thread: &Thread, through: Option<String>) -> (String, String) {
    let name = thread.label();
    let next = match through {
        None => "find out who sets this local variable, or writes past another one".to_owned(),
        Some(through) => format!(
            "look for a function of {name} that sets {through} to a local variable of its own, and returns while {through} is still used"
        ),
    };
    (format!("{at}, in the stack of {name}"), next)
}

/// The same in a variable.
fn in_variable(place: Addr, past_end: Option<&PastEnd>, case: &Case<'_>) -> Option<(String, String)> {
    let name = case.look.place(place)?;
    let here = format!("{name} ({place:#x})");
    Some(match past_end {
        Some(past_end) => (format!("{here}{}", past_end.words), past_end.next.clone()),
        None if is_constant(place, case) => (here, format!("look at the initial value of {name}")),
        None => (here, format!("look for who writes to {name}")),
    })
}

/// Where the function around an instruction begins, and all of its code.
pub(super) fn body(at: Addr, case: &Case<'_>) -> Option<(Addr, Vec<u8>)> {
    let symbol = case.look.function(at)?;
    let from = symbol.address & !1;
    // A branch to the instruction may be anywhere in the function, also in a part that the compiler keeps elsewhere.
    let len = Some(symbol.size).filter(|size| (2..=LONGEST).contains(size))?;
    let is_cold = |end: &str| case.look.symbol(&format!("{}.cold{end}", symbol.name)).is_some();
    if ["", ".0", ".1", ".2"].into_iter().any(is_cold) {
        return None;
    }
    let code = pieces(from, len, case)?;
    (!jumps_by_call(from, &code, case)).then_some((from, code))
}

/// True in memory that the program only reads.
fn is_constant(at: Addr, case: &Case<'_>) -> bool {
    case.cpus.is_some_and(|cpus| cpus.is_read_only(at))
}

/// A word of memory that may be read without an effect on a device.
pub(super) fn word(at: Addr, case: &Case<'_>) -> Option<u64> {
    let is_safe = case.look.is_stored() || is_constant(at, case) || is_memory(at, case);
    case.words(&case.look.bytes(at, case.width()).filter(|_| is_safe)?, true).first().copied()
}

/// The text of which a word is a part: a string that was longer than its place.
fn text_around(place: Addr, case: &Case<'_>) -> Option<Evidence> {
    if !case.look.is_stored() {
        return None;
    }
    let read =
        |len: u64| Some((place.checked_sub(len)?, case.look.bytes(place.checked_sub(len)?, len.checked_add(AFTER)?)?));
    let (from, bytes) = BEFORE.into_iter().find_map(read)?;
    let (before, after) = bytes.split_at_checked(usize::try_from(place.checked_sub(from)?).ok()?)?;
    let is_text = |byte: &&u8| byte.is_ascii_graphic() || **byte == b' ';
    let (front, back) = (before.iter().rev().take_while(is_text).count(), after.iter().take_while(is_text).count());
    let first = before.len().checked_sub(front)?;
    let text = bytes.get(first..before.len().checked_add(back)?).filter(|_| back >= 4 && front > 0)?;
    let start = from.checked_add(u64::try_from(first).ok()?)?;
    let within = case.look.place(start).map_or_else(String::new, |name| format!(", in {name}"));
    let text = String::from_utf8_lossy(text);
    Some(Evidence::memory(start, format!("the text around it begins here{within}: \"{text}\"")))
}

/// That a pointer in a block that is in use is a piece of an older text, in words: its bytes are text, and those in front of it and behind
/// it are none, as no string that was written over it leaves them.
pub(super) fn older_text(place: Addr, value: u64, case: &Case<'_>) -> Option<String> {
    let width = case.width();
    let bytes = case.look.bytes(place.checked_sub(width)?, width.checked_mul(3)?)?;
    let pointer = case.words(&bytes, true).get(1).copied().filter(|word| *word == value)?;
    let width = usize::try_from(width).ok()?;
    // An address in RAM may consist of such bytes.
    let is_text = address::text(pointer).is_some() && is_piece(&bytes, width);
    is_text.then(|| {
        format!(
            "{pointer:#x} is text, and the bytes before and after it are not: perhaps this member was never set, and holds what was in \
             that memory before"
        )
    })
}

/// True where the second of three words is text, and the bytes next to it are not.
fn is_piece(bytes: &[u8], width: usize) -> bool {
    let is_text = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    let (Some(front), Some(own), Some(behind)) = (
        bytes.get(..width),
        bytes.get(width..).and_then(|rest| rest.get(..width)),
        bytes.get(width.saturating_mul(2)..),
    ) else {
        return false;
    };
    own.iter().all(is_text)
        && !front.last().is_some_and(is_text)
        && !behind.first().is_some_and(|byte| is_text(byte) || *byte == 0)
}

/// A text in front of an address that goes on there, as one that was longer than its place; in words, and as evidence.
pub(super) fn text_into(at: Addr, case: &Case<'_>) -> Option<(String, Evidence)> {
    let read = |before: u64| {
        let (from, len) = (at.checked_sub(before)?, before.checked_add(AFTER)?);
        let is_safe = case.look.is_stored() || case.cpus?.writes(Region { start: from, len });
        Some((from, case.look.bytes(from, len).filter(|_| is_safe)?))
    };
    let (from, bytes) = BEFORE.into_iter().find_map(read)?;
    let into = usize::try_from(at.checked_sub(from)?).ok()?;
    let (first, back) = runs_on(&bytes, into)?;
    let text = String::from_utf8_lossy(bytes.get(first..into.checked_add(back)?)?).into_owned();
    let start = from.checked_add(u64::try_from(first).ok()?)?;
    let place = case.look.place(start).unwrap_or_else(|| format!("{start:#x}"));
    let cut = if first == 0 { "..." } else { "" };
    let more = if into.checked_add(back)? == bytes.len() { "..." } else { "" };
    let words = format!("the text \"{cut}{text}{more}\" in {place} runs on into it");
    Some((
        words,
        Evidence::memory(start, format!("{place}: the text \"{cut}{text}\", whose last {back} characters are there")),
    ))
}

/// Where a text begins that runs on over a place, and how many of its characters are behind that. It has its end there, or goes on as
/// far as there are bytes, and is longer than numbers that look like text.
fn runs_on(bytes: &[u8], place: usize) -> Option<(usize, usize)> {
    let (before, after) = bytes.split_at_checked(place)?;
    let is_text = |byte: &&u8| byte.is_ascii_graphic() || **byte == b' ';
    let (front, back) = (before.iter().rev().take_while(is_text).count(), after.iter().take_while(is_text).count());
    let ends = after.get(back).is_none_or(|byte| *byte == 0);
    let first = before.len().checked_sub(front)?;
    (front >= FRONT && back >= BACK && ends).then_some((first, back))
}

fn pieces(from: Addr, len: u64, case: &Case<'_>) -> Option<Vec<u8>> {
    let mut code = Vec::new();
    for piece in 0..len.div_ceil(PIECE) {
        let into = piece.checked_mul(PIECE)?;
        code.extend(case.look.bytes(from.checked_add(into)?, PIECE.min(len.checked_sub(into)?))?);
    }
    Some(code)
}

/// The stack of the thread on which a stack pointer is.
pub(super) fn stack_at(sp: Option<Addr>, case: &Case<'_>) -> Option<Region> {
    let sp = sp?;
    case.kernel?.threads.iter().find(|thread| thread.holds(sp)).and_then(stack_of)
}

/// The stack of a thread.
pub(super) fn stack_of(thread: &Thread) -> Option<Region> {
    let (start, end) = (thread.stack.start?, thread.stack.end()?);
    Some(Region { start, len: end.checked_sub(start)? })
}

/// True for a word of memory that the program is known to have. Other addresses may be those of a device, which a read changes.
fn is_memory(at: Addr, case: &Case<'_>) -> bool {
    let word = Region { start: at, len: case.width() };
    let mut stacks = case.kernel.into_iter().flat_map(|kernel| &kernel.threads).filter_map(stack_of);
    case.cpus.is_some_and(|cpus| cpus.writes(word)) || stacks.any(|stack| word.is_within(stack))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pointer that was never set since its block was allocated, over a text that was there before.
    #[test]
    fn a_piece_of_an_older_text_was_said_to_be_written_there() {
        assert!(is_piece(b"\x02\0\0\0TER-\xC6\x08\0\0", 4));
        assert!(!is_piece(b"\0SORTER-2;OK", 4), "the text begins in front of it");
        assert!(!is_piece(b"\x02\0\0\0TER-2;OK", 4), "it goes on behind it");
        assert!(!is_piece(b"\x02\0\0\0TER-\0\0\0\0", 4), "a string may end there");
        assert!(!is_piece(b"\x02\0\0\0\x10TER\xC6\x08\0\0", 4), "it is no text");
    }

    /// A name of 14 characters in a place of 12: the mutex behind it begins with "di", a zero and an old byte.
    #[test]
    fn a_name_that_was_too_long_was_a_number_in_a_control_block() {
        assert_eq!(runs_on(b"\0\0Salvator Mundi\0M", 14), Some((2, 2)));
        assert_eq!(runs_on(b"\0\0Salvator Mund\0\0M", 14), None, "one character may be a number");
        assert_eq!(runs_on(b"\0\0Salvator Mun\0\0\0M", 14), None, "it ends in front of it");
        assert_eq!(runs_on(b"\0\0\0\0\0MunPEVT\0", 8), None, "three characters in front may be a number");
        assert_eq!(runs_on(b"Salvator Mundi\x01\0", 12), None, "it does not end as a text");
        assert_eq!(runs_on(b"Salvator Mundi et omnium", 12), Some((0, 12)), "as far as there are bytes");
    }
}
