//! Places of the program in words.

use super::super::Evidence;
use crate::session::{CpuState, Function, is_of_kernel};

/// The function that is meant: of a call of a wrong address, that which called it.
fn meant(functions: &[Function]) -> Option<(&Function, bool)> {
    let first = functions.first()?;
    let caller = functions.get(1).filter(|caller| caller.is_inferred() && first.name.is_none());
    caller.map(|caller| (caller, true)).or(Some((first, false)))
}

/// `parse_field (crashes.c:121)`, `0x0, called by call (crashes.c:174)`. Hostile text: escape before printing.
pub(in super::super) fn of(functions: &[Function]) -> Option<String> {
    let (function, called) = meant(functions)?;
    let text = one(function);
    let first = functions.first().filter(|_| called);
    Some(first.map_or(text.clone(), |first| format!("{:#x}, called by {text}", first.pc)))
}

/// The functions from the one of the application on that called the kernel; all where it called none. The kernel may itself be in
/// a function of the application: the clock of its trace. Of return addresses that were found further up the stack the nearest counts:
/// others may be of older calls.
fn of_application(functions: &[Function]) -> &[Function] {
    let is_kernel = |function: &Function| function.name.as_deref().is_some_and(is_of_kernel);
    let calls = |pair: &[Function]| matches!(pair, [callee, caller] if is_kernel(callee) && !is_kernel(caller));
    let known = functions.iter().take_while(|function| !function.is_inferred()).count();
    let last = functions.get(..known).and_then(|known| known.windows(2).rposition(calls));
    let first = last.or_else(|| functions.windows(2).position(calls)).map_or(0, |at| at.saturating_add(1));
    functions.get(first..).unwrap_or(functions)
}

/// The same as [`of`] for the function of the application: where the kernel runs, the one that called it.
pub(super) fn in_application(functions: &[Function]) -> Option<String> {
    of(of_application(functions))
}

/// ` in modexp (crypto.c:5)`: where the thread is that runs, or that an exception interrupted. Nothing where that is not certain.
pub(super) fn of_thread(cpu: &CpuState) -> Option<String> {
    if cpu.exception.is_none() && cpu.interrupted.is_none() {
        return in_application(&cpu.functions).map(|at| format!(" in {at}"));
    }
    let found = cpu.interrupted.as_ref().filter(|found| found.is_certain)?;
    let place = found.all.first().filter(|place| place.within.is_none())?;
    in_application(&place.functions).map(|at| format!(", interrupted in {at},"))
}

/// `parse_field (crashes.c:121)`.
pub(super) fn one(function: &Function) -> String {
    let name = function.name.clone().unwrap_or_else(|| format!("{:#x}", function.pc));
    let file = function.file.as_deref().map(|file| file.rsplit(['/', '\\']).next().unwrap_or(file));
    match (file, function.line) {
        (Some(file), Some(line)) => format!("{name} ({file}:{line})"),
        _ => name,
    }
}

/// Where a return address further up the stack leads, behind a function that has no name.
pub(super) fn above(functions: &[Function]) -> Option<Evidence> {
    let caller = functions.get(1).filter(|caller| caller.is_inferred() && caller.name.is_some())?;
    let text = format!("a return address, in lr or on the stack, leads to {}", one(caller));
    Some(Evidence::symbol(caller.pc, caller.name.as_deref().unwrap_or_default(), text))
}

/// Who called whom, up to so many, as evidence.
pub(super) fn callers(functions: &[Function], most: usize) -> Option<Evidence> {
    let (function, _) = meant(functions)?;
    // Of a call of a wrong address the caller is inferred, and the others are found from it.
    let is_shown = |(at, f): &(usize, &Function)| !f.is_inferred() || *at == 1 && std::ptr::eq(*f, function);
    let names: Vec<String> = functions.iter().enumerate().filter(is_shown).take(most).map(|(_, f)| one(f)).collect();
    let text = if names.len() > 1 { names.join(" < ") } else { one(function) };
    // An address alone says nothing of itself.
    if names.len() <= 1 && function.name.is_none() {
        return None;
    }
    let evidence = Evidence::symbol(function.pc, function.name.as_deref().unwrap_or_default(), text);
    Some(Evidence { symbol: evidence.symbol.clone().filter(|name| !name.is_empty()), ..evidence })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{Architecture, Registers};
    use crate::session::{Place, Places};
    use crate::unwind::Origin;

    fn function(name: &str) -> Vec<Function> {
        let name = Some(name.to_owned());
        let origin = Origin::Registers;
        vec![Function { pc: 0x100, name, offset: None, file: None, line: None, is_inlined: false, origin }]
    }

    /// A CPU in `wdg_bark`, in an exception that interrupted `modexp`.
    fn interrupted(within: Option<&str>, is_certain: bool) -> CpuState {
        let registers = Registers::new(Architecture::CortexM);
        let place = Place {
            frame: 0,
            registers: registers.clone(),
            within: within.map(str::to_owned),
            functions: function("modexp"),
            callers: Vec::new(),
            effect: None,
            is_outside_code: false,
        };
        let found =
            Places { exception: Some(26), by: String::new(), all: vec![place], is_certain, remarks: Vec::new() };
        CpuState {
            core: 0,
            registers,
            under: None,
            exception: Some("exception 26 (IRQ 10)".to_owned()),
            functions: function("wdg_bark"),
            effect: None,
            in_loop: None,
            polling: None,
            is_outside_code: false,
            interrupted: Some(found),
            failed: None,
            interrupts: None,
            stored_faults: Vec::new(),
        }
    }

    /// "sender runs in clerk_entry": a return address of an older call, above the first function of the thread.
    #[test]
    fn a_return_address_of_an_older_call_was_the_place_of_a_thread() {
        let inferred = |name: &str| Function { origin: Origin::Found, ..function(name).remove(0) };
        let own = ["_tx_queue_send", "sender_entry", "_tx_thread_shell_entry"].map(|name| function(name).remove(0));
        let old = ["_tx_queue_receive", "clerk_entry"].map(inferred);
        let all: Vec<Function> = own.into_iter().chain(old).collect();
        assert_eq!(in_application(&all).as_deref(), Some("sender_entry"));
    }

    /// A thread was said to run in a function of the interrupt above it.
    #[test]
    fn a_thread_is_where_the_interrupt_came_and_not_in_its_handler() {
        let at = |within, is_certain| of_thread(&interrupted(within, is_certain));
        assert_eq!(at(None, true).as_deref(), Some(", interrupted in modexp,"));
        assert_eq!(at(None, false), None, "another place may be it");
        assert_eq!(at(Some("exception 14 (PendSV)"), true), None, "that is another exception");
        assert_eq!(of_thread(&CpuState { interrupted: None, ..interrupted(None, true) }), None);
        let running = CpuState { interrupted: None, exception: None, ..interrupted(None, true) };
        assert_eq!(of_thread(&running).as_deref(), Some(" in wdg_bark"));
    }
}
