//! A fault that only the trace shows: the program inserts the beginnings and ends of its handlers with the numbers of exceptions, and the
//! last one that begins is that of a fault, which does not end. It is likely where the handler also inserts an event of the application
//! with a word that is `cfsr` of such a fault, as programs do to keep it; else a hint.
//!
//! Against it: an application may number its interrupts as it likes. So the other numbers of the trace must be those of exceptions that
//! are no faults, and end; this one must have begun once, and not ended. A word may be `cfsr` by chance: small numbers are not likely to be
//! it.

use super::super::events::{Inserted, Open};
use super::super::graph::Graph;
use super::super::state::Does;
use super::super::{Case, Code, Confidence, Evidence, FIRST_NAMED, Finding};
use crate::cpu::{Architecture, FaultBit, FaultKind, as_cfsr, is_fault};

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    finding(case, graph).into_iter().collect()
}

/// The beginning of the handler of a fault, and the number of its exception.
fn begun(case: &Case<'_>) -> Option<(Open, u32)> {
    if case.cpus.is_some_and(|cpus| cpus.all.iter().any(|cpu| cpu.registers.pc().is_some())) {
        return None;
    }
    let processor = case.kernel.and_then(|kernel| kernel.processor);
    if processor.is_some_and(|processor| processor != Architecture::CortexM) {
        return None;
    }
    let events = case.events.filter(|events| events.cores <= 1)?;
    let open = *events.interrupts.open.last().filter(|open| open.above == 0)?;
    let number = u32::try_from(open.number).ok().filter(|number| is_fault(*number))?;
    let others = || events.interrupts.by_number.iter().filter(|(other, _)| **other != open.number);
    let are_exceptions = others().count() > 0 && others().all(|(other, _)| *other >= FIRST_NAMED);
    // A program may insert beginnings alone.
    let others_end = others().any(|(_, one)| one.times > 0);
    let is_first = events.interrupts.by_number.get(&open.number).is_some_and(|one| one.begun == 1 && one.times == 0);
    let is_it = are_exceptions && others_end && is_first && events.last_of_threads < Some(open.seq);
    is_it.then_some((open, number))
}

/// What the handler kept: the word, and what it says as `cfsr`.
fn kept(inserted: &Inserted, number: u32) -> Option<(u64, Vec<FaultBit>)> {
    let mut all = inserted.words.iter().filter_map(|word| Some((*word, as_cfsr(*word, number)?)));
    let (first, None) = (all.next()?, all.next()) else { return None };
    Some(first)
}

/// True for a word that is hardly a count or a size: of a UsageFault, or with an address that is valid.
const fn is_telling(word: u64, number: u32) -> bool {
    let is_usage = word >= 1 << 17 || number == 6;
    is_usage || word & 0x8200 == 0x8200 || word & 0x82 == 0x82
}

/// What the processor calls the exception, and what it is where no register says more.
const fn exception(number: u32) -> (&'static str, Code) {
    match number {
        4 => ("MemManage", Code::MemFault),
        5 => ("BusFault", Code::BusFault),
        6 => ("UsageFault", Code::UsageFault),
        7 => ("SecureFault", Code::SecureFault),
        _ => ("HardFault", Code::Fault),
    }
}

fn finding(case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let (open, number) = begun(case)?;
    let (name, code) = exception(number);
    // It may have come within another handler.
    let within = case.events.and_then(|events| events.interrupts.open.iter().rev().nth(1)).map(|below| below.number);
    let thread = graph.tasks.list.iter().find(|task| task.does == Does::Runs && within.is_none());
    let kept = open.inserted.and_then(|inserted| Some((inserted, kept(&inserted, number)?)));
    let kind = kept.iter().flat_map(|(_, (_, bits))| bits).find_map(|bit| Some((bit, bit.kind?)));
    let code = match kind {
        Some((_, FaultKind::Bus)) => Code::BusFault,
        Some((_, FaultKind::Memory)) => Code::MemFault,
        Some((_, FaultKind::Usage)) => Code::UsageFault,
        _ => code,
    };
    let said = kind.map_or_else(String::new, |(bit, _)| format!(": {} ({})", bit.words, bit.name));
    let of = match (within, thread) {
        (Some(below), _) => format!(", within {}", case.interrupt(Some(below))),
        (None, Some(task)) => format!(", in {}", case.label(task.address)),
        (None, None) => String::new(),
    };
    let is_likely = kept.as_ref().is_some_and(|(_, (word, _))| is_telling(*word, number));
    let claimed = if is_likely { Confidence::Likely } else { Confidence::Hint };
    let words = |inserted: &Inserted| inserted.words.map(|word| format!("{word:#x}")).join(" ");
    let inserted = open.inserted.map(|inserted| {
        let is = kept.as_ref().map_or_else(String::new, |(_, (word, _))| format!("; {word:#x} is taken for cfsr"));
        Evidence::event(inserted.seq, format!("user event {} of its handler: {}{is}", inserted.id, words(&inserted)))
    });
    let last = thread.and_then(|task| Some((task, case.events?.activity(task.address)?.last)));
    let last = last.map(|(task, seq)| Evidence::event(seq, format!("the last event of {}", case.label(task.address))));
    Some(
        Finding::new(code, case.cap(claimed), format!("{name}{of}{said}; its handler has not ended"))
            .against(["the numbers of interrupts are taken for those of the exceptions of a Cortex-M"])
            .evidence([Evidence::event(open.seq, format!("interrupt {number} begins, which is {name}"))])
            .evidence(inserted)
            .evidence(last)
            .next("read the registers, or give those that the crash log printed: --reg pc=N --reg cfsr=N")
            .threads(thread.map(|task| task.address)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The handler of an infusion pump inserted pc, cfsr, lr and the address of the frame.
    #[test]
    fn a_word_that_a_handler_kept_is_cfsr_of_its_fault() {
        let of = |words, number| {
            let kept = kept(&Inserted { seq: 9, id: 4200, words }, number);
            kept.map(|(word, bits)| (word, bits.into_iter().map(|bit| bit.name).collect::<Vec<_>>()))
        };
        let pump = [0x226, 0x200_0000, 0x20F, 0x2000_9278];
        assert_eq!(of(pump, 6), Some((0x200_0000, vec!["DIVBYZERO".to_owned()])));
        assert_eq!(of(pump, 3), Some((0x200_0000, vec!["DIVBYZERO".to_owned()])));
        assert_eq!(of(pump, 5), None, "it is of another fault");
        assert_eq!(of([0x226, 0x8200, 0x20F, 0], 5).map(|(word, _)| word), Some(0x8200));
        assert_eq!(of([1, 2, 3, 4], 3), None, "small numbers");
        assert_eq!(of([0x100, 0x200, 0, 0], 5), None, "either may be it");
        assert_eq!(of([0, 0, 0, 0], 6), None);
        assert!(is_telling(0x200_0000, 3) && is_telling(0x8200, 5) && is_telling(0x1_0000, 6));
        assert!(!is_telling(1, 4) && !is_telling(0x100, 5) && !is_telling(0x1_0000, 3), "a count or a size");
    }
}
