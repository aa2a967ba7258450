//! The CPU is, or an exception found it, where the program has no code: what that address is, and whether a call through a pointer
//! or a damaged return address caused it. A fault that this caused is reported by the rule of faults, with what is found out here.
//!
//! How it came there: after a call of a register lr leads to the call. After a return lr leads after the last call that was
//! made, by the function that returned or by one that it called; what was popped is still below the stack pointer where no exception has come since.
//! The same is so after a jump through a register, which a function makes at its end to call another: then the register that the
//! code there jumps through has the address.
//!
//! Against it: code that is not in the ELF, of a boot loader, a chip's ROM or a module. So it is claimed above a hint only where the
//! address is data, a stack, a pattern, or where no memory is.

use super::super::address;
use super::super::cpus::thread_of;
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::message::{self, Message};
use super::pointer::{Pointer, stack_of};
use super::static_pointers::{self, StaticPointer};
use super::{copied, kernel_pointer, place, through, vector, words};
use crate::abi::{Addr, Endian};
pub(in super::super) use crate::cpu::long_branch as target;
use crate::cpu::{Architecture, Level, Registers, is_fault};
use crate::kernel::Thread;
use crate::session::{CpuState, is_of_kernel};
use crate::unwind::is_exc_return;

/// So far the CPU may have gone on from where it came to.
const NEAR: Addr = 256;
/// So near to 0 a call went through a null pointer.
pub(super) const NULL: Addr = 0x100;
/// So near to 0 an address outside of the code is a number that was taken for an address.
const SMALL: Addr = 0x1000;
/// `xpsr`: Thumb state, which the lowest bit of an address sets.
const THUMB: u64 = 1 << 24;
/// The number of the exception.
const NUMBER: u64 = 0x1FF;
/// Where a Cortex-M never runs code: devices (Armv7-M Architecture Reference Manual, B3.1).
pub(super) const NEVER_CODE: [std::ops::Range<Addr>; 2] = [0x4000_0000..0x6000_0000, 0xA000_0000..0x1_0000_0000];
/// Names the list of modules that ThreadX has loaded: their code is none of the program's.
const MODULES: &str = "_txm_module_manager_loaded_list_ptr";

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    case.cpus.into_iter().flat_map(|cpus| &cpus.all).filter_map(|cpu| finding(cpu, case, graph)).collect()
}

/// How the CPU came to an address outside of the code.
pub(super) struct Way {
    /// In words, after the address: ` (in table): a call through a pointer, by regulate (pump.c:12)`.
    pub words: String,
    pub evidence: Vec<Evidence>,
    /// True where it may have been a call.
    pub is_call: bool,
    /// Who called, where lr does not lead there: `sync, which close (pump.c:12) called`.
    pub by: Option<String>,
    /// Where the call or jump through a register is.
    pub site: Option<Addr>,
    pub next: String,
}

/// What to look at behind a return address that was damaged, and behind a wrong pointer.
pub(super) const NEXT_OF_RETURN: &str = "look for a write past the end of a local variable, in the function that returned there or in one that it called, and at the bytes around this stack pointer";
const NEXT_OF_OTHERS: &str = "look for a function that gives the address of a local variable to another thread, and returns while that one may still write there";
pub(super) const NEXT_OF_CALL: &str = "find out who sets the pointer that is called there";
pub(super) const NEXT_OF_JUMP: &str = "find out who sets the pointer, or the table, that is jumped through there";

impl Way {
    /// By the registers as they were there, and the stack pointer of the threads. `is_fresh`: no exception has pushed anything
    /// below the stack pointer since.
    pub fn of(registers: &Registers, psp: Option<Addr>, is_fresh: bool, case: &Case<'_>) -> Option<Self> {
        let pc = registers.pc()?;
        let what = named(pc, registers, case);
        if let Some(way) = copied::way(pc, case) {
            return Some(way.named(&what));
        }
        let popped = registers.sp().and_then(|sp| popped(sp, pc, is_fresh, case));
        if let Some(came) = vector::came(registers, psp, case).filter(|_| popped.is_none()) {
            return Some(Self {
                words: format!("{what}{}", came.words),
                evidence: came.evidence.into_iter().collect(),
                is_call: !came.is_entry,
                by: None,
                site: None,
                next: came.next.to_owned(),
            });
        }
        let before = registers.lr().and_then(|lr| before(lr, case));
        let jumped = || jumped_on(before.as_ref()?, registers, case);
        if let Some(way) = popped.is_none().then(jumped).flatten() {
            return Some(way.named(&what));
        }
        let (how, is_return) = match &before {
            _ if popped.is_some() => (returned(before.as_ref(), case), true),
            Some(Before::Register { at }) => {
                (format!(": a call through a pointer, by {}", words::place_at(*at, case)), false)
            }
            Some(Before::Function { to, .. }) if to & !1 != pc & !1 => (returned(before.as_ref(), case), true),
            None if is_no_return(registers, pc, case) => {
                (": a damaged return address, because lr does not hold one".to_owned(), true)
            }
            _ => (String::new(), false),
        };
        let mut evidence: Vec<Evidence> = popped.into_iter().collect();
        let site = match &before {
            Some(Before::Register { at }) if !is_return => Some(*at),
            _ => None,
        };
        evidence.extend(before.map(|before| before.evidence(case)));
        let of_kernel = site.and_then(|at| case.look.function(at)).filter(|function| is_of_kernel(&function.name));
        let kept = of_kernel.and_then(|_| kernel_pointer::of(pc, case));
        let next = match &kept {
            Some(kept) => kept.next.as_str(),
            None if is_return => NEXT_OF_RETURN,
            None => NEXT_OF_CALL,
        };
        let how = kept.as_ref().map_or_else(|| how.clone(), |kept| format!("{how}; {}", kept.words));
        evidence.extend(kept.iter().flat_map(|kept| kept.evidence.clone()));
        let message = registers.sp().filter(|_| is_return).and_then(|sp| message::over_return(sp, case));
        let (how, next) = match &message {
            Some(Message { words, queue, .. }) => (
                format!("{how}; {words}"),
                format!("make the variable as long as a message of {queue}, or the messages shorter"),
            ),
            None => (how, next.to_owned()),
        };
        evidence.extend(message.as_ref().map(|message| message.evidence.clone()));
        let written = if is_return { written(registers, case) } else { Vec::new() };
        let words = format!("{what}{how}");
        let words = static_pointers::said(&words, &written, "points into its stack", "point into its stack");
        evidence.extend(written.into_iter().map(|pointer| pointer.evidence));
        let others = if is_return { others(registers, case) } else { Vec::new() };
        let words = with_others(words, &others, case);
        let next = if others.is_empty() || message.is_some() { next } else { NEXT_OF_OTHERS.to_owned() };
        evidence.extend(others.into_iter().map(|(_, evidence)| evidence));
        Some(Self { words, evidence, is_call: !is_return, by: None, site, next })
    }

    /// The same with the address in front.
    fn named(self, what: &str) -> Self {
        Self { words: format!("{what}{}", self.words), ..self }
    }
}

/// Variables that point into the stack of the thread, near its stack pointer or above it.
fn written(registers: &Registers, case: &Case<'_>) -> Vec<StaticPointer> {
    let thread = thread_with(registers, case);
    thread.map(|(thread, sp)| static_pointers::into_stack(thread, Some(sp), case)).unwrap_or_default()
}

/// Other threads that have an address of what is below the stack pointer.
fn others(registers: &Registers, case: &Case<'_>) -> Vec<(Addr, Evidence)> {
    let thread = thread_with(registers, case);
    thread.map(|(thread, sp)| static_pointers::in_other_stacks(thread, sp, case)).unwrap_or_default()
}

/// The thread in whose stack the stack pointer is.
fn thread_with<'k>(registers: &Registers, case: &Case<'k>) -> Option<(&'k Thread, Addr)> {
    let sp = registers.sp()?;
    Some((case.kernel?.threads.iter().find(|thread| thread.holds(sp))?, sp))
}

/// `...; perhaps by line, whose stack has an address of what is below this stack pointer`.
fn with_others(words: String, others: &[(Addr, Evidence)], case: &Case<'_>) -> String {
    let names: Vec<String> = others.iter().map(|(thread, _)| case.label(*thread)).collect();
    if names.is_empty() {
        return words;
    }
    format!(
        "{words}; perhaps overwritten by {}, whose stack has an address of what is below this stack pointer, as of a variable of a \
         function that has returned",
        names.join(" or ")
    )
}

/// `0x0 (a null pointer)`: the address that the CPU came to.
pub(super) fn named(pc: Addr, registers: &Registers, case: &Case<'_>) -> String {
    let is_thumb = registers.get("xpsr").is_some_and(|xpsr| xpsr & THUMB != 0);
    let what = what(pc, is_thumb, case).map_or_else(String::new, |what| format!(" ({what})"));
    format!("{pc:#x}{what}")
}

/// A jump through a register after the last call: at the end of the function that was called, or by the one that called it.
fn jumped_on(before: &Before, registers: &Registers, case: &Case<'_>) -> Option<Way> {
    let pc = registers.pc()?;
    let Before::Function { at: call, to } = before else { return None };
    let values = |number: u16| registers.get(&format!("r{number}"));
    // The call itself led there.
    if to & !1 == pc & !1 {
        return None;
    }
    let of = Architecture::CortexM;
    let evidence = |site: through::Site, what: &str| {
        let text = format!("{what} through r{}, which is {pc:#x}", site.register);
        vec![before.evidence(case), Evidence::symbol(site.at, &words::place_at(site.at, case), text)]
    };
    if let Some(site) = through::tail(*to, pc, &values, of, case) {
        let by = format!("{}, which {} called", words::function_at(site.at, case), words::place_at(*call, case));
        return Some(Way {
            words: format!(": a call through a pointer, by {by}"),
            evidence: evidence(site, "it jumps on to another function"),
            is_call: true,
            by: Some(by),
            site: Some(site.at),
            next: NEXT_OF_CALL.to_owned(),
        });
    }
    let site = through::within(*call, pc, &values, of, case)?;
    Some(Way {
        words: format!(": a jump through a pointer, in {}", words::place_at(site.at, case)),
        evidence: evidence(site, "it jumps"),
        is_call: false,
        by: None,
        site: Some(site.at),
        next: NEXT_OF_JUMP.to_owned(),
    })
}

/// True where lr shows that no call led to an address: it holds that address itself, as after a return through it, or what is no
/// return address. A call leaves one in lr, with the lowest bit set; after a return a function may have used lr for anything.
fn is_no_return(registers: &Registers, pc: Addr, case: &Case<'_>) -> bool {
    let Some(lr) = registers.lr() else { return false };
    // The handler of an exception that has called nothing may have jumped through a pointer.
    if is_exc_return(lr) && matches!(registers.level(), Level::Exception(_)) {
        return false;
    }
    let is_even = registers.architecture() == Architecture::CortexM && lr & 1 == 0;
    let is_data =
        registers.architecture() == Architecture::CortexM && NEVER_CODE.iter().any(|range| range.contains(&lr));
    is_even || is_data || lr & !1 == pc & !1 || is_no_code(lr, case)
}

/// True for what is known to be no return address: no function is there.
fn is_no_code(at: Addr, case: &Case<'_>) -> bool {
    let has_lines = case.trust.without_lines.is_none();
    has_lines && case.look.function(at & !1).is_none()
}

/// What is at an address that is no code. The lowest bit of a function's address is not part of it.
pub(super) fn what(pc: Addr, is_thumb: bool, case: &Case<'_>) -> Option<String> {
    // A member of what a null pointer points to is data that is read or written.
    if (NULL..SMALL).contains(&pc) && case.look.place(pc).is_none() {
        return Some(format!("the small number {} as an address", pc & !1 | u64::from(is_thumb)));
    }
    let known = case.cpus.and_then(|cpus| cpus.at(pc).or_else(|| cpus.at(pc & !1))).map(str::to_owned);
    let text = address::text(pc & !1 | u64::from(is_thumb));
    text.map(|text| format!("the bytes of the text \"{text}\"")).or(known)
}

/// The word below the stack pointer from which pc was popped.
fn popped(sp: Addr, pc: Addr, is_fresh: bool, case: &Case<'_>) -> Option<Evidence> {
    let at = sp.checked_sub(4).filter(|_| is_fresh)?;
    let word = u64::from(Endian::Little.u32(&case.look.bytes(at, 4)?, 0)?);
    let went_on = (pc & !1).checked_sub(word & !1)?;
    let stack = case.kernel.and_then(|kernel| kernel.threads.iter().find(|thread| thread.holds(at)));
    let of = stack.map_or_else(String::new, |thread| format!(" of {}", thread.label()));
    let text = format!("the return address that was popped from the stack{of}: {word:#x}");
    (word & 1 == 1 && went_on < NEAR).then(|| Evidence::stack(at, text).holds(word))
}

/// The call in front of a return address.
enum Before {
    /// Through a register.
    Register { at: Addr },
    /// Of a function.
    Function { at: Addr, to: Addr },
}

impl Before {
    fn evidence(&self, case: &Case<'_>) -> Evidence {
        let (Self::Register { at } | Self::Function { at, .. }) = self;
        let text = match self {
            Self::Register { .. } => "lr points after a call through a register".to_owned(),
            Self::Function { to, .. } => format!("lr points after a call of {}", words::place_at(*to, case)),
        };
        Evidence::symbol(*at, &words::place_at(*at, case), text)
    }
}

fn before(lr: Addr, case: &Case<'_>) -> Option<Before> {
    let behind = lr & !1;
    case.look.function(behind)?;
    let bytes = case.look.bytes(behind.checked_sub(4)?, 4)?;
    let (first, second) = (Endian::Little.u16(&bytes, 0)?, Endian::Little.u16(&bytes, 2)?);
    if second & 0xFF87 == 0x4780 {
        return Some(Before::Register { at: behind.checked_sub(2)? });
    }
    let to = target(first, second, behind).filter(|_| second & 0xD000 == 0xD000)?;
    Some(Before::Function { at: behind.checked_sub(4)?, to })
}

/// The call through a register in front of a return address.
pub(super) fn through_register(lr: Addr, case: &Case<'_>) -> Option<Addr> {
    match before(lr, case)? {
        Before::Register { at } => Some(at),
        Before::Function { .. } => None,
    }
}

/// The function whose call is in front of a return address.
pub(super) fn called_in_front_of(at: Addr, case: &Case<'_>) -> Option<Addr> {
    match before(at, case)? {
        Before::Function { to, .. } => Some(to),
        Before::Register { .. } => None,
    }
}

/// True for a return address: a call is in front of it.
pub(super) fn is_behind_call(at: Addr, case: &Case<'_>) -> bool {
    before(at, case).is_some()
}

/// That it was a return, and which functions may have returned.
fn returned(before: Option<&Before>, case: &Case<'_>) -> String {
    let damaged = ": a damaged return address";
    match before {
        Some(Before::Function { at, to }) => format!(
            "{damaged}; the last call was that of {} by {}: one of the two, or a caller of theirs, returned to it",
            words::function_at(*to, case),
            words::place_at(*at, case)
        ),
        Some(Before::Register { at }) => format!("{damaged}; the last call was in {}", words::place_at(*at, case)),
        None => damaged.to_owned(),
    }
}

/// True where the stack pointer is in the stack of the current thread.
fn is_on_own_stack(cpu: &CpuState, case: &Case<'_>) -> bool {
    let thread = thread_of(cpu, case.kernel).zip(cpu.registers.sp());
    thread.is_some_and(|(thread, sp)| thread.holds(sp))
}

/// The CPU runs where no code is, without a fault.
fn finding(cpu: &CpuState, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let in_fault = match cpu.registers.level() {
        Level::Thread => false,
        Level::Exception(number) => is_fault(number),
        // After a jump to an even address it is in thread mode, and not in Thumb state: the next instruction is a fault.
        Level::Unknown => {
            let xpsr = cpu.registers.get("xpsr").filter(|xpsr| xpsr & (THUMB | NUMBER) == 0);
            // A source that does not have xpsr may say 0. Handlers run on the main stack.
            xpsr.is_none_or(|xpsr| xpsr == 0 && !is_on_own_stack(cpu, case))
        }
        Level::Mode(_) => true,
    };
    let pc = cpu.registers.pc().filter(|pc| cpu.is_outside_code && !in_fault && *pc < 0xE000_0000)?;
    let way = Way::of(&cpu.registers, cpu.registers.get("psp"), true, case)?;
    let is_data = what(pc, true, case).is_some() && case.look.symbol(MODULES).is_none();
    // What an exception does is not done by the thread below it.
    let thread = thread_of(cpu, case.kernel).filter(|_| cpu.exception.is_none());
    let by_thread = thread.map(|thread| format!("thread {}", thread.label()));
    let who = cpu.exception.clone().or(by_thread).unwrap_or_else(|| "the CPU".to_owned());
    let code = if way.is_call && pc < NULL { Code::NullCall } else { Code::Hang };
    let stack = thread.and_then(stack_of);
    let pointer = way.site.and_then(|site| Pointer::of(site, &cpu.registers, stack, case, graph));
    let finding = Finding::new(
        code,
        case.cap_of_registers(if is_data { Confidence::Likely } else { Confidence::Hint }),
        format!("{who} runs at {}", way.words),
    )
    .against((!is_data).then_some("code that is not in the ELF (a boot loader, ROM, a module) looks the same"))
    .evidence([Evidence::register("pc", pc, "no code of the program".to_owned())])
    .evidence(way.evidence)
    .evidence(place::callers(&cpu.functions, 4))
    .next(way.next)
    .threads(thread.map(|thread| thread.address));
    Some(match pointer {
        Some(pointer) => pointer.added_to(finding, case),
        None => finding,
    })
}
