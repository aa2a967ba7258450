//! What is said of a fault: what it is called, where it was, what shows it, and what to look at next.

use super::super::{arrays, callback, place};
use super::sure::Sure;
use super::{CALLERS, Look, STACK, possible, possible_place};
use crate::cpu::{Effect, Level, is_fault};
use crate::explain::{Code, Evidence};
use crate::sym::{ArrayMember, Exceptions};

impl Look<'_, '_> {
    /// `HardFault`, `abort`.
    pub(super) fn name(&self) -> String {
        let number = match self.cpu.registers.level() {
            Level::Exception(number) if is_fault(number) => Some(number),
            _ => self.cpu.interrupted.as_ref().and_then(|found| found.exception).filter(|number| is_fault(*number)),
        };
        let read = self.fault.as_ref().filter(|fault| !fault.bits.is_empty()).and_then(|fault| fault.name);
        let first = read.filter(|_| self.cpu.registers.has_inferred_exception());
        // One that was inferred may be another with the same handler.
        let is_known = !self.cpu.registers.has_inferred_exception()
            || number.is_some_and(|number| self.case.look.others_with_handler(number).is_empty());
        let own = number.filter(|_| is_known).and_then(Exceptions::own);
        let name = first.or(own).or(read).map(str::to_owned);
        // The trap of a RISC-V that is recorded is no interrupt.
        let is_trap = self.fault.is_some() && self.cpu.registers.get("mcause").is_some() || self.sure == Sure::Stored;
        let name = name.or_else(|| is_trap.then(|| "an exception".to_owned()));
        let by = self.cpu.interrupted.as_ref().map(|found| found.by.clone());
        name.or(by).or_else(|| self.cpu.exception.clone()).unwrap_or_else(|| "a fault".to_owned())
    }

    /// ` in parse_field (crashes.c:121), thread victim`. `passed`: the function that passed the pointer.
    pub(super) fn whereabouts(&self, within: Option<&str>, with_place: bool, passed: Option<String>) -> String {
        let functions = self.functions();
        let by = passed.map_or_else(String::new, |by| format!(", called by {by}"));
        let at = place::of(functions).filter(|_| with_place).map_or_else(String::new, |at| format!(" in {at}{by}"));
        match (within, self.thread) {
            (Some(exception), _) => format!("{at}, within {exception}"),
            (None, Some(thread)) if self.outer().is_some() => {
                let first = self.outer().and_then(|outer| place::of(&outer.functions));
                let first = first.map_or_else(String::new, |first| format!(" in {first}"));
                format!(
                    "{at}, within the handler of an earlier trap or interrupt, which came{first}, thread {}",
                    thread.label()
                )
            }
            (None, Some(thread)) => {
                format!("{at}, thread {}{}", thread.label(), callback::of(functions, Some(thread), self.case))
            }
            (None, None) => at,
        }
    }

    /// With the address that failed, where that is not said yet.
    pub(super) fn with_address(&self, claim: String) -> String {
        let read = self.address().map(|(at, _)| at);
        let at = read.or_else(|| self.accessed().filter(|_| self.kind().is_some()));
        let Some(at) = at.filter(|at| !claim.contains(&format!("{at:#x}"))) else { return claim };
        match self.before() {
            Some(bit) => format!("{claim}; before it {} ({}), at address {}", bit.words, bit.name, self.named(at)),
            None => format!("{claim}, at address {}", self.named(at)),
        }
    }

    /// What shows it.
    pub(super) fn evidence(&self) -> Vec<Evidence> {
        let mut all = Vec::new();
        let (register, of) = if self.sure == Sure::Handler { ("pc", "the handler of ") } else { ("xpsr", "") };
        if let (Some(value), Some(exception)) = (self.cpu.registers.get(register), &self.cpu.exception) {
            all.push(Evidence::register(register, value, format!("the CPU is in {of}{exception}")));
        }
        for bit in self.bits() {
            let value = self.fault.iter().flat_map(|fault| &fault.registers).find(|(name, _)| *name == bit.register);
            let value = value.map_or(0, |(_, value)| *value);
            all.push(Evidence::register(bit.register, value, format!("{}: {}", bit.name, bit.words)));
        }
        if let Some((at, register)) = self.address() {
            let what = self.what(at).map_or_else(String::new, |what| format!(": {what}"));
            all.push(Evidence::register(register, at, format!("the address of the access that failed{what}")));
        }
        if let Some(place) = self.place {
            let pc = place.registers.pc().unwrap_or_default();
            let text = format!("the exception pushed its registers here: pc {pc:#x}");
            all.push(Evidence::stack(place.frame, text).holds(pc));
            all.extend(self.held.filter(|_| self.saved.is_none()).map(|name| {
                let text = "the address of these registers, as a handler passes it on".to_owned();
                Evidence::register(name, place.frame, text)
            }));
            all.extend(self.saved.map(|at| possible::saved(at, place.frame, self.case)));
            if let Some(effect) = place.effect {
                all.push(Evidence::memory(pc, format!("the instruction there: {}", self.access(effect))));
            }
            match &self.way {
                Some(way) => {
                    all.extend(way.evidence.iter().cloned());
                    all.extend(place::above(&place.functions).filter(|_| !way.is_call));
                }
                None => all.extend(place::callers(&place.functions, CALLERS)),
            }
        }
        if self.place.is_none() {
            all.extend(self.way.iter().flat_map(|way| way.evidence.iter().cloned()));
            all.extend(self.cpu.interrupted.iter().flat_map(|found| &found.all).map(possible_place));
        }
        if let Some(failed) = &self.cpu.failed {
            let pc = failed.function.pc;
            let text = format!("the handler stored the registers of the thread here: pc {pc:#x}");
            all.extend(failed.stored.map(|frame| Evidence::stack(frame, text).holds(pc)));
            let effect =
                failed.effect.filter(|effect| self.sure == Sure::Stored || effect.address() == self.accessed());
            all.extend(effect.map(|e| Evidence::memory(pc, format!("the instruction there: {}", self.access(e)))));
            all.extend(place::callers(self.functions(), CALLERS));
        }
        if let Some(outer) = self.outer() {
            let pc = outer.registers.pc().unwrap_or_default();
            all.push(Evidence::stack(outer.frame, format!("the earlier one stored its registers here: pc {pc:#x}")));
            all.extend(
                outer.effect.map(|e| Evidence::memory(pc, format!("the instruction there: {}", self.access(e)))),
            );
            all.extend(place::callers(&outer.functions, CALLERS));
        }
        all
    }

    /// What to look at next.
    pub(super) fn next(&self, code: Code, arrays: &[ArrayMember]) -> String {
        match code {
            _ if !arrays.is_empty() => {
                let names: Vec<&str> = arrays.iter().map(|array| array.name.as_str()).collect();
                let names = names.join(" or ");
                format!("find out whether an index of {names} is one too large: the source line, and `threads --bt`")
            }
            Code::NullCall => "find out who sets the function pointer that is called there".to_owned(),
            Code::Fault => {
                let missing = ["cfsr", "hfsr", "psp"].into_iter().filter(|name| self.cpu.registers.get(name).is_none());
                let options: String = missing.map(|name| format!(" --reg {name}=N")).collect();
                let registers = format!("the registers that the crash log printed:{options}");
                match (&self.case.trust.without_lines, options.is_empty()) {
                    (Some(_), true) => "give the ELF with debug information".to_owned(),
                    (Some(_), false) => format!("give the ELF with debug information, or {registers}"),
                    (None, true) => "look at the instruction there: threads --bt".to_owned(),
                    (None, false) => format!("give {registers}"),
                }
            }
            Code::Assert => "look at the condition in front of it".to_owned(),
            _ => {
                format!("{}: the source line, and `threads --bt` for its callers", self.what_to_look_at(code))
            }
        }
    }

    fn what_to_look_at(&self, code: Code) -> &'static str {
        let has_pointer = || {
            let accessed = self.place.and_then(|place| place.effect).and_then(Effect::address);
            self.address().is_some() || accessed.is_some()
        };
        match code {
            Code::UsageFault => "look at the operands of this instruction",
            _ if self.has("IMPRECISERR") => "look at what is written in front of this place",
            _ if STACK.into_iter().any(|bit| self.has(bit)) => "look at how the stack pointer came there",
            _ if has_pointer() => "find out where this pointer comes from",
            _ => "look at this instruction",
        }
    }
}

/// A claim, with the arrays that end in front of its address.
pub(super) fn behind(claim: String, arrays: &[ArrayMember]) -> String {
    match arrays::named(arrays) {
        Some(named) => format!("{claim}; that is the first element behind {named}"),
        None => claim,
    }
}
