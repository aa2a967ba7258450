//! The CPU stopped itself, or is where nothing leaves it: in the lockup state, in an assertion that failed, in a handler
//! without code of its own, in a loop that its own code never leaves while interrupts are disabled.
//!
//! A loop that waits for a word to change is a hint: where threads that could run wait behind it.
//!
//! Idle is not such a place: on a Cortex-M the idle loop is within PendSV, in the kernel. A thread in an endless loop with
//! interrupts enabled may be idle on purpose: it is a hint. Faults have a rule of their own.

use super::super::cpus::thread_of;
use super::super::events::SetBack;
use super::super::graph::Graph;
use super::super::{Behind, Case, Code, Confidence, Cpus, Evidence, Finding};
use super::interrupts::{self, Mask};
use super::refused::Refused;
use super::shared::Shared;
use super::{
    below_handler, callback, fault, inversion, isr_stuck, jump, masked_riscv, masking_code, message, place, recorded,
    vector, words,
};
use crate::abi::Addr;
use crate::cpu::{Architecture, Effect, Level, Loop, Registers};
use crate::kernel::{State, Thread, Under};
use crate::session::{CpuState, Function, is_of_kernel};
use crate::unwind::Origin;

/// What pc reads as in the lockup state (Armv7-M Architecture Reference Manual, B1.5.15; Armv8-M, B3.33).
const LOCKUP: [Addr; 2] = [0xFFFF_FFFE, 0xEFFF_FFFE];
/// Functions of C libraries and of start-up files of chip makers that are called where an assertion fails.
const ASSERTS: [&str; 8] = [
    "__assert_func",
    "__assert",
    "__assert_fail",
    "__aeabi_assert",
    "assert_failed",
    "__assertion_failed",
    "abort",
    "__stack_chk_fail",
];
/// Registers in which file and line may be: as they were passed, and where compilers keep them.
const ARGUMENTS: [(&str, &str); 14] = [
    ("r0", "r1"),
    ("r1", "r0"),
    ("r1", "r2"),
    ("r2", "r1"),
    ("r3", "r2"),
    ("r2", "r3"),
    ("r4", "r5"),
    ("r5", "r4"),
    ("r5", "r6"),
    ("r6", "r5"),
    ("r6", "r7"),
    ("a0", "a1"),
    ("s0", "s1"),
    ("x0", "x1"),
];
/// The most bytes of a file's name.
const NAME: u64 = 128;
/// The most bytes of the stack in which a handler may keep its arguments.
const STACK: u64 = 96;
/// How names of source files end.
const SOURCES: [&str; 7] = [".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".s"];
/// What is not known of an NMI, and what to look at.
const BY_NMI: &str = "what raises NMI is not known: a watchdog, a clock that failed, or an error of memory";
const NEXT_OF_NMI: &str = "find out what raises NMI on this chip";
/// So many functions above it may be the one that was called where it failed.
const NEAR: usize = 4;
/// The vectors that are looked at: the exceptions of the architecture, and some interrupts.
const VECTORS: u64 = 48;
/// The functions of a backtrace that are named.
const CALLERS: usize = 6;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(cpus) = case.cpus else { return Vec::new() };
    cpus.all.iter().filter_map(|cpu| finding(cpu, cpus, case, graph)).collect()
}

fn finding(cpu: &CpuState, cpus: &Cpus, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let is_m_profile = cpu.registers.architecture() == Architecture::CortexM;
    if is_m_profile && cpu.registers.pc().is_some_and(|pc| LOCKUP.contains(&(pc & !1))) {
        return Some(lockup(cpu, case));
    }
    let waits =
        matches!(cpu.under, Some(Under::Idle | Under::Scheduler(_) | Under::StartUp)) && cpu.exception.is_none();
    let in_kernel = is_in_kernel(cpu);
    // A stop in a handler of stack errors is a rule of its own.
    let handles = |function: &Function| cpus.stack_handlers.iter().any(|region| region.contains(function.pc & !1));
    if fault::is_in(cpu) || waits || in_kernel || cpu.functions.iter().take(NEAR).any(handles) {
        return None;
    }
    if let Some(assert) = assert(cpu) {
        return Some(failed(cpu, assert, case, graph));
    }
    let of = cpu.in_loop?;
    by_nmi(cpu, of, case, graph).or_else(|| endless(cpu, of, case))
}

/// Threads that wait in a loop for a word to change.
pub(super) fn polling(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let all = case.cpus.into_iter().flat_map(|cpus| &cpus.all);
    let waits = |cpu: &&CpuState| cpu.in_loop.is_none() && assert(cpu).is_none() && !is_in_kernel(cpu);
    all.filter(waits).filter_map(|cpu| polls(cpu, case, graph)).collect()
}

/// The same of a CPU that may be there, for a source without registers.
pub(super) fn at(cpu: &CpuState, cpus: &Cpus, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let waits = || polls(cpu, case, graph).filter(|_| cpu.in_loop.is_none() && !is_in_kernel(cpu));
    finding(cpu, cpus, case, graph).or_else(waits)
}

fn is_in_kernel(cpu: &CpuState) -> bool {
    cpu.functions.first().and_then(|function| function.name.as_deref()).is_some_and(is_of_kernel)
}

fn lockup(cpu: &CpuState, case: &Case<'_>) -> Finding {
    let pc = cpu.registers.pc().unwrap_or_default();
    let name =
        thread_of(cpu, case.kernel).map_or_else(String::new, |thread| format!(", over thread {}", thread.label()));
    Finding::new(
        Code::Lockup,
        case.cap_of_registers(Confidence::Proven),
        format!("the CPU is locked up: a fault came within the handler of a fault{name}"),
    )
    .evidence([Evidence::register("pc", pc, "what pc reads as in the lockup state".to_owned())])
    .next(
        "look at the main stack pointer and the vector table: the handler of the first fault could not run".to_owned(),
    )
}

/// The function that was called where an assertion failed, among the innermost; its place among the callers.
fn assert(cpu: &CpuState) -> Option<usize> {
    let names = cpu.functions.iter().take(NEAR).map(|function| function.name.as_deref().unwrap_or_default());
    names.enumerate().filter(|(_, name)| ASSERTS.contains(name)).map(|(at, _)| at).next_back()
}

fn failed(cpu: &CpuState, assert: usize, case: &Case<'_>, graph: &Graph) -> Finding {
    let own = cpu.functions.get(assert..).unwrap_or_default();
    let handler = own.first().and_then(|function| function.name.clone()).unwrap_or_default();
    let caller = own.get(1..).filter(|rest| !rest.is_empty()).and_then(place::of);
    let at = caller.or_else(|| place::of(own)).unwrap_or_default();
    let mut evidence = vec![Evidence::symbol(
        own.first().map_or(0, |function| function.pc),
        &handler,
        format!("the CPU is in {handler}, which is called where an assertion fails"),
    )];
    evidence.extend(place::callers(&cpu.functions, CALLERS));
    evidence.extend(cpu.in_loop.map(loop_evidence));
    let said = arguments(cpu, case);
    evidence.extend(said.iter().cloned());
    evidence.extend(recorded::of(cpu, case));
    let said = said.map_or_else(String::new, |said| format!(" ({})", said.text));
    let thread = thread_of(cpu, case.kernel);
    let shared = thread.and_then(|thread| Shared::without_mutex(own.get(1..)?, thread.address, case));
    let refused = thread.and_then(|thread| Refused::of(own.get(1)?.pc, thread.address, case, graph));
    let freed = thread
        .filter(|_| cpu.exception.is_none())
        .and_then(|thread| message::of_free_block(thread.address, case, graph));
    let (freed, shown) = freed.map_or_else(Default::default, |(words, shown)| (format!("; {words}"), shown));
    let is_explained = !freed.is_empty();
    let mut finding = Finding::new(
        Code::Assert,
        case.cap_of_registers(Confidence::Proven),
        format!("{handler} was called in {at}{}: the program stopped itself{said}{freed}", over(cpu, thread, case)),
    );
    if is_explained {
        finding.behind = None;
    }
    finding
        .against(is_explained.then_some(message::AGAINST))
        .evidence(evidence)
        .evidence(shown)
        .next(format!("look at the condition that is checked there; the arguments of {handler} may name file and line"))
        .threads(thread.map(|thread| thread.address))
        .with_refused(refused)
        .with_shared(shared)
        .otherwise_terminated(thread, case)
}

/// File and line of an assertion, where registers or the stack still hold the address of a file's name and, beside it, a number.
fn arguments(cpu: &CpuState, case: &Case<'_>) -> Option<Evidence> {
    let by_registers = ARGUMENTS.iter().find_map(|(name, line)| {
        let (at, line) = (cpu.registers.get(name)?, cpu.registers.get(line)?);
        Some(Evidence::register(name, at, format!("{}:{line}", source(at, line, cpu, case)?)))
    });
    by_registers.or_else(|| on_stack(cpu, case))
}

/// The same on the stack, where the handler keeps its arguments.
fn on_stack(cpu: &CpuState, case: &Case<'_>) -> Option<Evidence> {
    let sp = cpu.registers.sp()?;
    let bytes = [STACK, 64, 32].into_iter().find_map(|len| case.look.bytes(sp, len))?;
    let words = case.words(&bytes, true);
    let step = case.kernel?.layout.shape.pointer.bytes();
    let pairs = words.iter().zip(words.iter().skip(1)).enumerate();
    pairs.into_iter().find_map(|(index, (first, second))| {
        let place = sp.checked_add(u64::try_from(index.checked_mul(step)?).ok()?)?;
        let said = |at: u64, line: u64| Some(format!("{}:{line}", source(at, line, cpu, case)?));
        Some(Evidence::stack(place, said(*first, *second).or_else(|| said(*second, *first))?))
    })
}

/// The name of a source file whose text begins at an address, if a number can be a line of it.
fn source(at: Addr, line: u64, cpu: &CpuState, case: &Case<'_>) -> Option<String> {
    let bytes = Some(line)
        .filter(|line| (1..100_000).contains(line))
        .and_then(|_| [NAME, 32, 16].into_iter().find_map(|len| case.look.bytes(at, len)))?;
    let text = bytes.split(|byte| *byte == 0).next().filter(|text| text.len() < bytes.len() && text.len() > 2)?;
    let text = std::str::from_utf8(text).ok().filter(|text| text.chars().all(|c| c.is_ascii_graphic()))?;
    let is_it = is_source(text) && recorded::may_be_line(line, text, &cpu.functions, case);
    is_it.then(|| text.rsplit(['/', '\\']).next().unwrap_or(text).to_owned())
}

/// True for what ends as names of source files do.
pub(super) fn is_source(text: &str) -> bool {
    SOURCES.iter().any(|ending| text.ends_with(ending))
}

/// `, thread victim`, `, in exception 36 (IRQ 20)`.
fn over(cpu: &CpuState, thread: Option<&Thread>, case: &Case<'_>) -> String {
    let exception = cpu.exception.as_ref().map_or_else(String::new, |exception| format!(", in {exception}"));
    let callback = callback::of(&cpu.functions, thread, case);
    let thread = thread.map_or_else(String::new, |thread| format!(", thread {}", thread.label()));
    format!("{exception}{thread}{callback}")
}

fn loop_evidence(of: Loop) -> Evidence {
    let masked = if of.is_masked { ", and the code in front of it disables interrupts" } else { "" };
    Evidence::memory(of.start, format!("the code there is a loop without an exit{masked}"))
}

/// The handler of NMI in a loop that it never leaves, where the program has one of its own: it stops the system on purpose.
fn by_nmi(cpu: &CpuState, of: Loop, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let below = below_handler::of(cpu, case, graph).filter(|below| !below.ready.is_empty() || below.is_nested)?;
    if !below_handler::is_own_nmi(cpu, case) {
        return None;
    }
    let (exception, at) = (cpu.exception.as_ref()?, place::of(&cpu.functions)?);
    Some(
        Finding::new(
            Code::Hang,
            case.cap_of_registers(Confidence::Likely),
            format!("{}; then {exception} stopped the system: its handler {at} is an endless loop", below.words),
        )
        .against(below.doubt)
        .against([BY_NMI])
        .evidence([loop_evidence(of)])
        .evidence(below.evidence)
        .evidence(place::callers(&cpu.functions, CALLERS))
        .next(format!("{NEXT_OF_NMI}, and why the thread did not give the processor up before"))
        .threads([below.thread])
        .affected(below.ready),
    )
}

/// That the time of the kernel was set back, where a thread has just read it since: it may have counted on a greater time.
fn set_back(thread: &Thread, case: &Case<'_>) -> Option<(String, Evidence)> {
    let events = case.events?;
    let set = events.set_back.as_ref().filter(|set| set.was_just_read(events.stored(thread.address)))?;
    let (by, SetBack { seq, from, to, .. }) = (case.label(set.by), set);
    let words = format!(
        "before, {by} set the kernel's time back from {from} to {to} (event {seq}); {} has read the new time since",
        thread.label()
    );
    Some((words, Evidence::event(*seq, format!("{by} calls tx_time_set({to}); the time was {from} or more before"))))
}

/// A loop that its own code never leaves.
fn endless(cpu: &CpuState, of: Loop, case: &Case<'_>) -> Option<Finding> {
    let is_own = |number: u32| isr_stuck::has_own_handler(u64::from(number), case);
    if matches!(cpu.registers.level(), Level::Exception(number) if is_own(number)) {
        return None;
    }
    let thread = thread_of(cpu, case.kernel);
    if let Some(finding) = called(cpu, of, case) {
        return Some(finding);
    }
    let primask = cpu.registers.get("primask");
    // A trap of a RISC-V comes with interrupts disabled: only of a thread that shows a loop on purpose.
    let by_call = if cpu.exception.is_none() && !of.is_masked { masking_code::of(case, cpu) } else { None };
    let is_on_purpose = (of.is_masked || by_call.is_some()) && may_be_assert(cpu, thread.is_some(), case);
    let is_masked = primask.is_some_and(|mask| mask & 1 != 0) || primask.is_none() && is_on_purpose;
    let at = place::of(&cpu.functions)?;
    let breakpoint = cpu.effect == Some(Effect::Breakpoint);
    let said = arguments(cpu, case).filter(|_| cpu.exception.is_none() && is_masked);
    let line = said.as_ref().map_or_else(String::new, |said| format!(" at {},", said.text));
    let is_own_nmi = below_handler::is_own_nmi(cpu, case);
    let (code, claimed, claim) = match (&cpu.exception, is_masked) {
        (Some(exception), _) if is_own_nmi => (
            Code::Hang,
            Confidence::Proven,
            format!("{exception} stopped the system: its handler {at} is an endless loop"),
        ),
        (Some(exception), _) => (
            Code::Hang,
            Confidence::Proven,
            format!("{exception} does not return: its handler {at} is an endless loop"),
        ),
        (None, true) => (
            Code::Assert,
            Confidence::Likely,
            format!(
                "the program stopped itself{line} in {at}{}{}: an endless loop with interrupts disabled",
                caller(&cpu.functions),
                over(cpu, thread, case)
            ),
        ),
        (None, false) if breakpoint => return None,
        (None, false) if is_for_failures(&cpu.functions, case) => (
            Code::Assert,
            if is_of_one_instruction(of, cpu, case)
                && (is_shared(cpu, case) || has_starved(thread, case) || recorded::is_so(cpu, case))
            {
                Confidence::Likely
            } else {
                Confidence::Hint
            },
            format!(
                "the program stopped itself in {at}{}{}: an endless loop, into which one of its paths leads",
                caller(&cpu.functions),
                over(cpu, thread, case)
            ),
        ),
        (None, false) => (Code::Hang, Confidence::Hint, format!("an endless loop in {at}{}", over(cpu, thread, case))),
    };
    let mut evidence = vec![loop_evidence(of)];
    evidence.extend(said);
    evidence.extend(
        by_call.map(|by| {
            Evidence::symbol(by.at, &words::place_at(by.at, case), "interrupts are disabled here".to_owned())
        }),
    );
    let disabled = primask.filter(|mask| mask & 1 == 1);
    evidence.extend(disabled.map(|mask| Evidence::register("primask", mask, "interrupts are disabled".to_owned())));
    evidence.extend(place::callers(&cpu.functions, CALLERS));
    let set_back = if code == Code::Assert { thread.and_then(|thread| set_back(thread, case)) } else { None };
    if code == Code::Assert {
        evidence.extend(recorded::of(cpu, case));
    }
    let claim = match &set_back {
        Some((words, _)) => format!("{claim}; {words}"),
        None => claim,
    };
    evidence.extend(set_back.map(|(_, evidence)| evidence));
    // What came is not known of a RISC-V without its registers.
    let is_unknown =
        cpu.exception.is_some() && cpu.registers.get("xpsr").is_none() && cpu.registers.get("mcause").is_none();
    let over =
        thread_of(cpu, case.kernel).filter(|_| is_unknown).and_then(|thread| message::over_return_of(thread, case));
    let (confidence, mut detractors) = case.cap_of_registers(claimed);
    match claimed {
        Confidence::Hint if code == Code::Hang => {
            detractors.push("a thread of low priority may be idle in this way on purpose".to_owned())
        }
        Confidence::Hint | Confidence::Likely => {
            detractors.push("that it is an assertion is inferred: it is a loop on purpose".to_owned())
        }
        Confidence::Proven => {}
    }
    Some(
        Finding::new(code, (confidence, detractors), claim)
            .evidence(evidence)
            .next(match code {
                Code::Assert => "look at who called it, and at the condition that is checked there".to_owned(),
                _ if is_own_nmi => NEXT_OF_NMI.to_owned(),
                _ if cpu.exception.is_some() => next_of_exception(&cpu.registers).to_owned(),
                _ => "look at what the loop waits for".to_owned(),
            })
            .against(is_own_nmi.then_some(BY_NMI))
            .behind(is_own_nmi.then_some(Behind::OtherThreads))
            .threads(thread.map(|thread| thread.address))
            .otherwise_terminated(thread.filter(|_| code == Code::Assert), case)
            .otherwise_message(over),
    )
}

/// True where the function of the loop was called by one that goes on where it does not call it.
fn is_for_failures(functions: &[Function], case: &Case<'_>) -> bool {
    let is_own = |function: &&Function| !function.is_inlined;
    let mut own = functions.iter().filter(is_own);
    let start =
        |function: &Function| case.look.function(function.pc.saturating_sub(1) & !1).map(|symbol| symbol.address);
    let (Some(callee), Some(caller)) = (own.next(), own.next().filter(|caller| !caller.is_inferred())) else {
        return false;
    };
    let callee = case.look.function(callee.pc & !1).map(|symbol| symbol.address);
    let (Some(callee), Some(caller)) = (callee, start(caller)) else { return false };
    case.usage().is_some_and(|usage| usage.calls_on_a_path(caller, callee))
}

/// True for a jump to itself: a loop that waits for interrupts, or does something, may be there on purpose.
fn is_of_one_instruction(of: Loop, cpu: &CpuState, case: &Case<'_>) -> bool {
    let code = case.look.bytes(of.start, 4).unwrap_or_default();
    match cpu.registers.architecture() {
        // B of Thumb, also behind a NOP.
        Architecture::CortexM => code.starts_with(&[0xFE, 0xE7]) || code == [0x00, 0xBF, 0xFD, 0xE7],
        // C.J and JAL.
        Architecture::Riscv32 | Architecture::Riscv64 => {
            code.starts_with(&[0x01, 0xA0]) || code.starts_with(&[0x6F, 0, 0, 0])
        }
        _ => false,
    }
}

/// True where the function of the loop is called in several places, as one that all checks share.
fn is_shared(cpu: &CpuState, case: &Case<'_>) -> bool {
    let own = cpu.functions.iter().find(|function| !function.is_inlined);
    let own = own.and_then(|function| case.look.function(function.pc & !1));
    own.zip(case.usage()).is_some_and(|(own, usage)| usage.sites_of(own.address) > 1)
}

/// True where a thread that is not more urgent is ready, and cannot run.
fn has_starved(thread: Option<&Thread>, case: &Case<'_>) -> bool {
    let Some(own) = thread else { return false };
    let threads = case.kernel.into_iter().flat_map(|kernel| &kernel.threads);
    let mut ready = threads.filter(|other| other.state == Some(State::READY) && other.address != own.address);
    ready.any(|other| other.priority.zip(own.priority).is_some_and(|(other, own)| other >= own))
}

impl Finding {
    /// The same with who terminated the thread before, where nothing else is behind it: what it was doing then it had not ended.
    fn otherwise_terminated(mut self, thread: Option<&Thread>, case: &Case<'_>) -> Self {
        let found = thread.and_then(|thread| Some((thread.label(), case.events?.terminated(thread.address)?)));
        if let Some((name, (by, seq))) = found {
            let by = case.label(by);
            let words =
                format!("{by} terminated {name} before, maybe in the middle of something, and it was started again");
            self.otherwise = Some((words, vec![Evidence::event(seq, format!("{by} terminates {name}"))]));
        }
        self
    }
}

/// `, called by segment_append (store.c:148)`: the function that checked what failed. Nothing where that is not certain, or the thread
/// itself stopped.
fn caller(functions: &[Function]) -> String {
    let caller = functions.iter().find(|function| !function.is_inlined).and_then(|own| {
        let at = functions.iter().position(|function| std::ptr::eq(function, own))?;
        functions.get(at.checked_add(1)?)
    });
    let is_certain = |function: &&Function| !function.is_inferred() && function.origin != Origin::Exception;
    let is_own = |function: &&Function| function.name.as_deref().is_some_and(|name| !is_of_kernel(name));
    let caller = caller.filter(is_certain).filter(is_own);
    caller.map_or_else(String::new, |caller| format!(", called by {}", place::one(caller)))
}

/// True where a loop behind code that disables interrupts may be an assertion. Of a RISC-V `mcause` has to be known: a loop after
/// an exception is a rule of its own.
fn may_be_assert(cpu: &CpuState, is_in_thread: bool, case: &Case<'_>) -> bool {
    let is_enabled = cpu.registers.get("mstatus").is_some_and(|status| status & masked_riscv::MIE != 0);
    let is_known = cpu.registers.get("mcause").is_some() && !masked_riscv::is_in_handler(cpu, case);
    cpu.registers.architecture() == Architecture::CortexM || is_in_thread && !is_enabled && is_known
}

/// What to do about an exception without a handler: only interrupts can be disabled.
fn next_of_exception(registers: &Registers) -> &'static str {
    let is_riscv = matches!(registers.architecture(), Architecture::Riscv32 | Architecture::Riscv64);
    if is_riscv && registers.get("mcause").is_none() {
        return "give `--reg mcause=N --reg mepc=N`: they say which exception it is, and where it came";
    }
    let is_interrupt = match (registers.architecture(), registers.get("mcause")) {
        (Architecture::Riscv32, Some(cause)) => cause >> 31 & 1 == 1,
        (_, Some(cause)) => cause >> 63 & 1 == 1,
        (_, None) => !matches!(registers.level(), Level::Exception(number) if u64::from(number) < interrupts::SYSTICK),
    };
    if is_interrupt {
        "give this exception a handler of its own, or do not enable it"
    } else {
        "give this exception a handler of its own, which says where it came and why"
    }
}

/// An endless loop in thread mode that is the handler of an exception: none came, so that a call led there. As a rule a pointer to
/// a function was read at a small address, where the vector table is, through a null pointer.
fn called(cpu: &CpuState, of: Loop, case: &Case<'_>) -> Option<Finding> {
    let pc = cpu.registers.pc().filter(|_| cpu.registers.level() == Level::Thread)? & !1;
    let start = case.look.function(pc)?.address & !1;
    let leads = |number: &u64| vector::vector(*number, case).is_some_and(|(_, vector)| vector & !1 == start);
    let numbers: Vec<u64> = (interrupts::NMI..VECTORS).filter(leads).collect();
    let first = numbers.first()?;
    let at = place::of(&cpu.functions)?;
    let thread = thread_of(cpu, case.kernel);
    let through = cpu.registers.lr().and_then(|lr| jump::through_register(lr, case));
    let by = cpu.functions.get(1..).filter(|rest| !rest.is_empty()).and_then(place::of);
    let by = through.map(|at| words::place_at(at, case)).or(by).map_or_else(String::new, |by| format!(", by {by}"));
    let how = if through.is_some() { "a call through a pointer led there" } else { "it was called" };
    let over = over(cpu, thread, case);
    let name = case.look.interrupt(*first).map_or_else(String::new, |name| format!(" ({name})"));
    let claim = format!("{at} runs in thread mode{over}, and is a handler of exceptions, an endless loop: {how}{by}");
    let next = "find out who sets the pointer that is called there: a structure of functions whose own pointer is null \
                has the vector table for its functions";
    Some(
        Finding::new(Code::Hang, case.cap_of_registers(Confidence::Likely), claim)
            .evidence([loop_evidence(of)])
            .evidence([Evidence::memory(
                vector::vector(*first, case)?.0,
                format!("the vector of exception {first}{name} leads to the same function, and no exception has come"),
            )])
            .evidence(place::callers(&cpu.functions, CALLERS))
            .next(next)
            .threads(thread.map(|thread| thread.address)),
    )
}

/// A loop that waits for a word to change, while others could run.
fn polls(cpu: &CpuState, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let thread = thread_of(cpu, case.kernel).filter(|_| cpu.registers.level() == Level::Thread)?;
    let what = interrupts::polled(case, cpu)
        .filter(|_| Mask::of(&cpu.registers).is_none() && masking_code::of(case, cpu).is_none())?;
    let is_behind = |other: &&Thread| {
        let ready = other.state == Some(State::READY) && other.core.is_none();
        ready && other.priority.zip(thread.priority).is_some_and(|(other, own)| other >= own)
    };
    // Where the kernel's timers do not go on, no time-out ends.
    let sleeps = |other: &&Thread| other.timed == Some(true) && other.address != thread.address;
    let runs_timers = callback::is_timer_thread(thread, case);
    let is_kept = |other: &&Thread| is_behind(other) || runs_timers && sleeps(other);
    let behind: Vec<&Thread> = case.kernel?.threads.iter().filter(is_kept).collect();
    let first = behind.first().filter(|_| !inversion::keeps_owner(thread.address, graph))?;
    let callback = callback::of(&cpu.functions, Some(thread), case);
    let at = place::of(&cpu.functions)?;
    let kept = if is_behind(first) { "is ready and does not run" } else { "waits for a time to pass" };
    Some(
        Finding::new(
            Code::Hang,
            case.cap_of_registers(Confidence::Hint),
            format!("thread {} waits in a loop in {at}{callback} for {what} to change", thread.label()),
        )
        .against(["a driver that waits for its device for a moment looks the same"])
        .evidence(interrupts::polls(case, cpu))
        .evidence(place::callers(&cpu.functions, CALLERS))
        .evidence([Evidence::memory(first.address, format!("{} {kept}", first.label()))])
        .next("find out who should change it, and whether that can run")
        .threads([thread.address]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "In assert_fail": each assertion of a program ends there.
    #[test]
    fn an_assertion_was_named_by_its_handler_alone() {
        let of = |pc, name: &str, is_inlined, origin| Function {
            pc,
            name: Some(name.to_owned()),
            offset: None,
            file: Some("store.c".to_owned()),
            line: Some(148),
            is_inlined,
            origin,
        };
        let stop = || of(0x100, "assert_fail", false, Origin::Registers);
        let append = |origin| of(0x200, "segment_append", false, origin);
        assert_eq!(caller(&[stop(), append(Origin::Cfi)]), ", called by segment_append (store.c:148)");
        let inlined = of(0x100, "halt", true, Origin::Registers);
        assert_eq!(caller(&[inlined, stop(), append(Origin::Cfi)]), ", called by segment_append (store.c:148)");
        assert_eq!(caller(&[stop(), append(Origin::Found)]), "", "it is inferred");
        assert_eq!(caller(&[stop(), append(Origin::Exception)]), "", "it was interrupted");
        assert_eq!(caller(&[stop(), of(0x200, "_tx_thread_shell_entry", false, Origin::Cfi)]), "");
        assert_eq!(caller(&[stop()]), "");
    }

    #[test]
    fn a_trap_of_a_riscv_was_not_to_be_enabled() {
        let next = |architecture, name, value| {
            let mut registers = Registers::new(architecture);
            assert!(registers.set(name, value));
            next_of_exception(&registers).contains("enable")
        };
        assert!(!next(Architecture::Riscv32, "mcause", 2), "an illegal instruction");
        assert!(next(Architecture::Riscv32, "mcause", 0x8000_000B));
        assert!(next(Architecture::Riscv64, "mcause", 1 << 63 | 11));
        assert!(next(Architecture::CortexM, "xpsr", 0x0100_001A), "interrupt 10");
        assert!(!next(Architecture::CortexM, "xpsr", 0x0100_000B), "SVCall");
        assert!(!next(Architecture::Riscv32, "pc", 0x8000_0782), "it is not known which");
    }
}
