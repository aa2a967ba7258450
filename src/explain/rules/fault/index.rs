//! What the address of an access that failed was computed from: an index that is out of range, of which the word is no pointer.

use super::super::super::address::NULL;
use super::super::super::graph::Graph;
use super::super::super::{Case, Confidence, Evidence, Finding};
use super::super::pointer::{body, stack_at, stack_of, word};
use super::super::pool_memory::block_of;
use super::super::set_by::{self, SetBy};
use super::super::words::place_or_address;
use super::Look;
use crate::abi::{Addr, Endian};
use crate::cpu::{Code, Input, Registers, computed};

/// The most of them that are named.
const MOST: usize = 3;

impl Look<'_, '_> {
    /// Adds it to a fault.
    pub(super) fn with_index(&self, fault: Finding, graph: &Graph) -> Finding {
        let inputs = self.inputs();
        let Some(first) = inputs.first() else { return fault };
        let case = self.case;
        let said: Vec<String> = inputs.iter().take(MOST).map(|input| said(input, case)).collect();
        let sets = |input: &Input| Some((input.place, SetBy::of(input.place, input.value, case)?));
        let said_of = || inputs.iter().take(MOST).filter_map(sets).find(|(_, set_by)| set_by.words.is_some());
        let (set, set_by) = said_of().or_else(|| sets(first)).unzip();
        let brought = self.brought_by_code(first.place);
        let by = set_by.as_ref().and_then(|set_by| set_by.words.as_ref()).map(|words| {
            let name = set.and_then(|place| case.look.place(place)).unwrap_or_else(|| "it".to_owned());
            format!("; {}", words.of(&name))
        });
        let (came, shown) = brought.map(|(words, shown)| (format!("; {words}"), shown)).unzip();
        let is_in_stack = stack_at(Some(first.place), case).is_some();
        let held = if is_in_stack { None } else { block_of(first.place, case, graph) };
        let (in_block, in_block_shown, in_block_next) =
            held.map_or_else(Default::default, |(words, shown, next)| (format!(", {words}"), shown, Some(next)));
        // What is said of the block is of the first.
        let (first_said, others) = said.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
        let others: String = others.iter().map(|said| format!(", {said}")).collect();
        let claim = format!(
            "{}; the address was computed from {first_said}{in_block}{others}{}",
            fault.claim,
            by.or_else(|| came.clone()).unwrap_or_default()
        );
        let by_message = || {
            came.as_ref()
                .map(|_| "look at who sends these messages, and check the range of the index in them".to_owned())
        };
        let next = set_by.as_ref().and_then(|set_by| set_by.next.clone()).or_else(by_message);
        let what = named_place(first.place, case);
        let next = next.or(in_block_next).unwrap_or_else(|| format!("look for who sets {what}, and check its range"));
        let confidence = fault.confidence.min(Confidence::Likely);
        Finding { claim, confidence, ..fault }
            .against(["what the address was computed from is inferred from the code in front of the instruction"])
            .against(set_by.is_some().then_some(set_by::AGAINST))
            .evidence(inputs.iter().take(MOST).map(|input| {
                let name = named_place(input.place, case);
                let name = name.split_once(" (0x").map_or(name.as_str(), |(name, _)| name);
                let text = format!("{name}: the address was computed from it");
                Evidence::memory(input.place, text).holds(input.value)
            }))
            .evidence(set_by.map(|set_by| set_by.evidence))
            .evidence(shown)
            .evidence(in_block_shown)
            .next(next)
    }

    /// The instruction whose data were refused, also where the handler has used the registers of its address since.
    fn refused_data(&self) -> Option<(Addr, Registers)> {
        let is_of_data = self.has("PRECISERR") || self.has("DACCVIOL");
        let place = self.place.filter(|place| is_of_data && self.way.is_none() && !place.is_outside_code)?;
        Some((place.registers.pc()?, place.registers.clone()))
    }

    fn inputs(&self) -> Vec<Input> {
        let find = || {
            // Which bytes of a word are its lowest part.
            self.case.kernel.filter(|kernel| kernel.layout.shape.endian == Endian::Little)?;
            let (at, registers) = self.instruction().or_else(|| self.refused_data())?;
            let failed = self.accessed().filter(|failed| *failed >= NULL)?;
            let of_place = self.place.map(|place| place.callers.as_slice()).filter(|callers| !callers.is_empty());
            let callers = of_place.or_else(|| Some(self.cpu.failed.as_ref()?.callers.as_slice())).unwrap_or_default();
            let of = |registers: &Registers, at: Addr| Some((at & !1, registers.clone(), body(at & !1, self.case)?));
            let called = callers.iter().map(|caller| {
                // Where it goes on may be behind the last instruction of the function.
                let at = caller.pc()?;
                Some((at, caller.clone(), body(at.checked_sub(1)? & !1, self.case)?))
            });
            let all: Vec<(Addr, Registers, (Addr, Vec<u8>))> =
                std::iter::once(of(&registers, at)).chain(called).map_while(|one| one).collect();
            let stack = self.thread.and_then(stack_of);
            let word = |at: Addr| word(at, self.case);
            let frames: Vec<Code<'_>> = all
                .iter()
                .map(|(at, registers, (from, code))| Code { at: *at, registers, from: *from, code, stack, word: &word })
                .collect();
            Some(computed(&frames, failed))
        };
        let mut inputs = find().unwrap_or_default();
        let last = inputs.last().copied();
        inputs.dedup();
        // An index that is negative, or else large, is rather the wrong one.
        inputs.sort_by_key(|input| std::cmp::Reverse((!input.is_pointer, negative(input).is_some(), input.value)));
        let indices = inputs.iter().filter(|input| !input.is_pointer).count();
        // Pointers lead from one to the next: where there is no index, that which was read last.
        if indices == 0 {
            let last = last.and_then(|last| inputs.iter().copied().find(|input| *input == last));
            inputs = last.into_iter().collect();
        } else {
            inputs.truncate(indices);
        }
        inputs
    }
}

/// How far below 0 it is as a signed number; `None` for one that is not.
fn negative(input: &Input) -> Option<u64> {
    if input.is_pointer {
        return None;
    }
    let bits = u32::from(input.bytes).saturating_mul(8);
    let sign = 1_u64.checked_shl(bits.saturating_sub(1))?;
    (input.value & sign != 0).then(|| 1_u64.checked_shl(bits).unwrap_or_default().wrapping_sub(input.value))
}

/// `255 (-1) in cfg.active[9].slot (0x200002b4)`.
fn said(input: &Input, case: &Case<'_>) -> String {
    let negative = negative(input).map(|below| format!(" (-{below} as a signed number)"));
    let value = if input.is_pointer { format!("{:#x}", input.value) } else { input.value.to_string() };
    format!("{value}{} in {}", negative.unwrap_or_default(), named_place(input.place, case))
}

/// A variable with its address, or a local one.
fn named_place(place: Addr, case: &Case<'_>) -> String {
    let threads = || case.kernel.into_iter().flat_map(|kernel| &kernel.threads);
    match threads().find(|thread| thread.holds(place)) {
        Some(thread) => format!("a local variable of {} ({place:#x})", thread.label()),
        None => place_or_address(place, case),
    }
}
