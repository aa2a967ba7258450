//! A fault, or the stop, came within a service of the kernel that an interrupt must not call, and the functions below it lead to the
//! handler of an interrupt. Such a service acts for the current thread: for the one that was interrupted, or, where none runs, for
//! what a null pointer leads to.
//!
//! Against it: nothing, where the registers show which functions called it. Where the fault came may be inferred: then it is likely.

use super::super::cpus::thread_of;
use super::super::graph::Graph;
use super::super::usage::User;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::interrupts::SYSTICK;
use super::jump::NULL;
use super::words::waits;
use super::{fault, place, vector, wrong_context};
use crate::abi::Addr;
use crate::cpu::{Effect, Level};
use crate::kernel::Under;
use crate::kernel::api::{self, Forbidden};
use crate::session::{CpuState, Function, Place, is_of_kernel};
use crate::sym::Exceptions;

/// The functions of a backtrace that are named.
const CALLERS: usize = 6;
/// The most events that are named.
const EVENTS: usize = 3;
/// A call instruction has at most so many bytes, and a compiler may put its last step in front of the call.
const CALL: u64 = 8;
/// What suspends the current thread.
const SUSPENDS: [&str; 2] = ["_tx_thread_system_suspend", "_tx_thread_system_ni_suspend"];

/// Services that act for the current thread.
const FOR_CURRENT: [&str; 5] =
    ["tx_byte_allocate", "tx_mutex_get", "tx_mutex_put", "tx_thread_relinquish", "tx_thread_sleep"];

/// One such call.
pub(super) struct Call<'c> {
    /// `tx_mutex_get`.
    pub service: String,
    forbidden: Forbidden,
    /// The exception whose handler makes it.
    number: u32,
    /// Where it returns to.
    at: Addr,
    cpu: &'c CpuState,
    /// Where a fault came.
    place: Option<&'c Place>,
    /// From the innermost to the handler.
    functions: &'c [Function],
    /// The functions of the kernel among them.
    kernel: usize,
    object: Option<Addr>,
}

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    all(case).iter().map(|call| call.finding(case, graph)).collect()
}

/// Those that the CPUs are in.
pub(super) fn all<'c>(case: &'c Case<'_>) -> Vec<Call<'c>> {
    let cpus = case.cpus.into_iter().flat_map(|cpus| &cpus.all);
    cpus.filter_map(|cpu| Call::of(cpu, case)).collect()
}

/// Functions from the innermost to the handler that begins at an address, and how many of the first are of the kernel. `None` where
/// one of them is not certain to be there, or none called the kernel.
fn called<'f>(
    functions: &'f [Function],
    handler: Addr,
    start: &dyn Fn(Addr) -> Option<Addr>,
) -> Option<(&'f [Function], usize)> {
    let end = functions.iter().position(|function| start(function.pc & !1) == Some(handler))?;
    let all = functions.get(..=end).filter(|all| !all.iter().any(Function::is_inferred))?;
    let is_kernel = |function: &&Function| function.name.as_deref().is_some_and(is_of_kernel);
    let kernel = all.iter().take_while(is_kernel).count();
    (kernel > 0 && kernel < all.len()).then_some((all, kernel))
}

impl<'c> Call<'c> {
    fn of(cpu: &'c CpuState, case: &Case<'_>) -> Option<Self> {
        let place = if fault::is_in(cpu) { Some(fault::chosen_place(cpu, case)?) } else { None };
        let (registers, functions) = place
            .map_or((&cpu.registers, cpu.functions.as_slice()), |place| (&place.registers, place.functions.as_slice()));
        let Level::Exception(number) = registers.level() else { return None };
        let handler = handler(number, case).filter(|_| u64::from(number) >= SYSTICK)?;
        let start = |at: Addr| case.look.function(at).map(|function| function.address & !1);
        let (functions, kernel) = called(functions, handler, &start)?;
        let service = api::service(functions.get(kernel.checked_sub(1)?)?.name.as_deref()?)?;
        let forbidden = api::in_interrupt(&service)?;
        let at = functions.get(kernel)?.pc;
        let mut call = Self { service, forbidden, number, at, cpu, place, functions, kernel, object: None };
        let made = case
            .usage()
            .and_then(|usage| usage.calls_of(User::Handler(number)).into_iter().find(|made| call.is_at(made.at)));
        let waits = || made.as_ref().and_then(|made| made.wait).is_some_and(|wait| wait != 0);
        if forbidden == Forbidden::WithWait && !call.suspends() && !waits() {
            return None;
        }
        call.object = made.and_then(|made| made.object).or_else(|| call.by_events(case));
        Some(call)
    }

    /// True for the call at an address.
    pub fn is_at(&self, at: Addr) -> bool {
        (self.at & !1).checked_sub(at).is_some_and(|apart| (1..=CALL).contains(&apart))
    }

    /// The object by the newest event of such a call.
    fn by_events(&self, case: &Case<'_>) -> Option<Addr> {
        case.events?.wrong.iter().rev().find(|wrong| wrong.call == self.service)?.object
    }

    /// True where the kernel is about to suspend the current thread.
    fn suspends(&self) -> bool {
        let names = self.functions.iter().take(self.kernel).filter_map(|function| function.name.as_deref());
        names.into_iter().any(|name| SUSPENDS.contains(&name))
    }

    /// True where the kernel acts for the current thread, and none runs: it uses what a null pointer leads to.
    fn is_without_thread(&self) -> bool {
        let none_runs = matches!(self.cpu.under, Some(Under::Idle | Under::Scheduler(_)));
        self.place.is_some() && self.is_for_current() && none_runs
    }

    /// The address near 0 that the fault was about, where no thread runs.
    fn null(&self) -> Option<Addr> {
        let fault = self.cpu.registers.fault().and_then(|fault| fault.address).map(|(at, _)| at);
        let at = fault.or_else(|| self.place?.effect?.address())?;
        (at < NULL && self.is_without_thread()).then_some(at)
    }

    /// True where the kernel acts for the current thread. A null pointer to an object would lead near address 0, too: so the object has
    /// to be known.
    fn is_for_current(&self) -> bool {
        let acts = self.forbidden == Forbidden::WithWait || FOR_CURRENT.contains(&self.service.as_str());
        acts && (self.object.is_some_and(|object| object != 0) || self.service.starts_with("tx_thread_"))
    }

    /// What the kernel did then.
    fn effect(&self, case: &Case<'_>) -> String {
        let name = match self.cpu.registers.level() {
            Level::Exception(number) => Exceptions::own(number).map(str::to_owned),
            _ => None,
        };
        let name = name.or_else(|| self.cpu.exception.clone()).unwrap_or_else(|| "a fault".to_owned());
        let did = match self.place.and_then(|place| place.effect) {
            Some(Effect::Read(..)) => "read",
            Some(Effect::Write(..)) => "wrote",
            _ => "accessed memory",
        };
        match (self.null(), self.place, thread_of(self.cpu, case.kernel)) {
            (Some(_), ..) => {
                format!(
                    "; the kernel used the current thread, of which there is none, and {did} near address 0 ({name})"
                )
            }
            (None, Some(_), _) if self.is_without_thread() => {
                format!("; the kernel used the current thread, of which there is none, and {name} came within it")
            }
            (None, Some(_), _) => format!("; {name} came within it"),
            (None, None, Some(thread)) => format!("; it interrupted {}", thread.label()),
            (None, None, None) => String::new(),
        }
    }

    fn claim(&self, case: &Case<'_>) -> String {
        let callers = self.functions.get(self.kernel..).unwrap_or_default();
        let is_own = callers.len() == 1;
        let at = place::of(callers)
            .map_or_else(String::new, |at| if is_own { format!(" in {at}") } else { format!(" through {at}") });
        let on = self.object.map_or_else(String::new, |object| format!(" of {}", case.object(object)));
        let must = match self.forbidden {
            Forbidden::Always => "an interrupt must not call it",
            Forbidden::WithWait => "an interrupt must not call it with a time to wait",
        };
        let (who, service) = (case.exception(self.number.into()), &self.service);
        format!("{who} calls {service}{on}{at}: {must}{}", self.effect(case))
    }

    fn evidence(&self, case: &Case<'_>) -> Vec<Evidence> {
        let mut all: Vec<Evidence> = place::callers(self.functions, CALLERS).into_iter().collect();
        if let Some(place) = self.place {
            let pc = place.registers.pc().unwrap_or_default();
            let text = format!("the exception pushed its registers here: pc {pc:#x}");
            all.push(Evidence::stack(place.frame, text).holds(pc));
        }
        let fault = self.cpu.registers.fault().filter(|_| self.place.is_some()).and_then(|fault| fault.address);
        all.extend(fault.map(|(at, register)| {
            let what = case.cpus.and_then(|cpus| cpus.at(at)).map_or_else(String::new, |what| format!(": {what}"));
            Evidence::register(register, at, format!("the address of the access that failed{what}"))
        }));
        let wrong = case.events.into_iter().flat_map(|events| &events.wrong);
        let wrong = wrong.filter(|wrong| wrong.call == self.service).take(EVENTS);
        all.extend(wrong.map(|wrong| Evidence::event(wrong.seq, format!("{} in an interrupt", wrong.call))));
        all.extend(self.object.and_then(|object| wrong_context::owner_by_interrupt(object, case)));
        all
    }

    fn finding(&self, case: &Case<'_>, graph: &Graph) -> Finding {
        let waiters: Vec<Addr> =
            self.object.map_or_else(Vec::new, |object| graph.tasks.waiting(object).map(|task| task.address).collect());
        let next = match self.forbidden {
            Forbidden::Always => wrong_context::NEXT.to_owned(),
            Forbidden::WithWait => format!("call {} with TX_NO_WAIT there, and look at what it returns", self.service),
        };
        let is_certain = self.place.is_none() || self.cpu.interrupted.as_ref().is_some_and(|found| found.is_certain);
        let claimed = if is_certain { Confidence::Proven } else { Confidence::Likely };
        Finding::new(Code::WrongContext, case.cap_of_registers(claimed), self.claim(case))
            .against((!is_certain).then_some("where the fault came is inferred from bytes on a stack"))
            .evidence(self.evidence(case))
            .explains(waiters.iter().filter_map(|at| waits(*at, case, graph)))
            .damaging_memory(self.is_without_thread())
            .next(next)
            .affected(waiters.iter().copied().chain(self.object))
    }
}

/// Where the handler of an exception begins: by the table that the CPU uses, else by that of the program.
fn handler(number: u32, case: &Case<'_>) -> Option<Addr> {
    let used = vector::vector(number.into(), case).map(|(_, vector)| vector);
    let own = || case.look.handlers().into_iter().find(|(of, _)| *of == number).map(|(_, at)| at);
    used.or_else(own).map(|at| at & !1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unwind::Origin;

    fn function(pc: Addr, name: &str, origin: Origin) -> Function {
        let name = Some(name.to_owned());
        Function { pc, name, offset: None, file: None, line: None, is_inlined: false, origin }
    }

    /// Functions of 256 bytes each.
    fn kernel_of(functions: &[Function]) -> Option<usize> {
        called(functions, 0x300, &|at| Some(at & !0xFF)).map(|(_, kernel)| kernel)
    }

    /// "A null pointer in _tx_mutex_get", where an interrupt called it.
    #[test]
    fn a_call_that_an_interrupt_must_not_make_was_a_null_pointer() {
        let get = function(0x110, "_tx_mutex_get", Origin::Registers);
        let log = function(0x210, "event_log", Origin::Cfi);
        let handler = function(0x310, "TIMER0_Handler", Origin::Cfi);
        let thread = function(0x410, "_tx_queue_send", Origin::Exception);
        assert_eq!(kernel_of(&[get.clone(), log.clone(), handler.clone(), thread.clone()]), Some(1));
        assert_eq!(kernel_of(&[log.clone(), handler.clone(), thread]), None, "the thread called the kernel");
        let found = function(0x210, "event_log", Origin::Found);
        assert_eq!(kernel_of(&[get.clone(), found, handler]), None, "it is not certain who called it");
        assert_eq!(kernel_of(&[get, log]), None, "no interrupt");
    }
}
