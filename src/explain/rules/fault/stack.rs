//! A fault that is the end of a stack that was used up, or that comes from what was written into a stack.

use super::super::super::{Code, Confidence, Evidence, Finding, Source};
use super::super::{stacks, static_pointers, words};
use super::{GUARD, Look, STACK, Sure, lowered};
use crate::abi::Addr;
use crate::kernel::High;

impl Look<'_, '_> {
    /// With the variables that point into the stack of a thread whose pushed registers were damaged: an exception could not return to
    /// them. A buffer on the stack that a device or an interrupt fills after its function has returned damages them so.
    pub(super) fn with_writers_of_frame(&self, finding: Finding) -> Finding {
        let thread = self.thread.filter(|_| self.within.is_none() && self.place.is_none() && self.has("INVPC"));
        let all = thread.map(|thread| static_pointers::into_stack(thread, None, self.case)).unwrap_or_default();
        if all.is_empty() {
            return finding;
        }
        let claim = static_pointers::said(&finding.claim, &all, "points into its stack", "point into its stack");
        Finding { claim, confidence: finding.confidence.min(Confidence::Likely), ..finding }
            .against(["who damaged it is inferred: these variables may be of something else"])
            .evidence(all.into_iter().map(|one| one.evidence))
    }

    /// Why the fault is that of a stack that was used up, in words.
    pub(super) fn stack(&self) -> Option<(Confidence, String)> {
        let thread = self.thread.filter(|_| self.within.is_none())?;
        let (start, name) = (thread.stack.start?, thread.label());
        let psp = self.cpu.registers.get("psp");
        let sp = self.place.filter(|_| self.is_placed()).and_then(|place| place.registers.sp()).or(psp);
        let near = |at: Addr| at < start.saturating_add(GUARD) && at >= start.saturating_sub(GUARD);
        if let Some(text) = self.lowers() {
            let is_proven = self.is_placed() && STACK.into_iter().any(|bit| self.has(bit));
            return Some((if is_proven { Confidence::Proven } else { Confidence::Likely }, text));
        }
        if let Some(bit) = STACK.into_iter().find(|bit| self.has(bit)) {
            return match psp {
                Some(psp) if near(psp) => Some((
                    Confidence::Proven,
                    format!("{bit}, with psp {psp:#x} at the lowest end {start:#x} of the stack of {name}"),
                )),
                None => Some((Confidence::Likely, format!("{bit}: the stack of {name} could not be written"))),
                Some(_) => None,
            };
        }
        let at = self.address().map(|(at, _)| at).or_else(|| self.place?.effect?.address());
        let guarded = at.filter(|at| near(*at) && self.has("DACCVIOL"));
        if let Some(at) = guarded {
            let text = format!("the access to {at:#x} was refused at the lowest end {start:#x} of the stack of {name}");
            return Some((Confidence::Proven, text));
        }
        if let Some(sp) = sp.filter(|sp| *sp < start && start.saturating_sub(*sp) < start.min(1 << 16)) {
            let below = start.saturating_sub(sp);
            return Some((Confidence::Proven, format!("sp {sp:#x} is {below} bytes below the stack of {name}")));
        }
        let filled = |kernel: &crate::kernel::Kernel| {
            kernel.threads.iter().any(|other| matches!(other.stack.high, High::Bytes(_)))
        };
        let is_used_up = thread.stack.high == High::Full && !stacks::is_written_at_end(thread, self.case);
        (is_used_up && self.case.kernel.is_some_and(filled)).then(|| {
            (Confidence::Likely, format!("the lowest bytes of the stack of {name} hold no fill (0xEF) any more"))
        })
    }

    /// That the instruction makes room on the stack, or pushes, below the end of the stack, where nothing says that another fault
    /// came. An Armv8-M checks this (Architecture Reference Manual, B3.21); others go on until something is hit.
    pub(super) fn lowers(&self) -> Option<String> {
        let (place, thread) = self.place.zip(self.thread).filter(|_| self.within.is_none())?;
        let (start, sp) = (thread.stack.start?, place.registers.sp()?);
        let to = lowered(place.effect?, sp, &thread.stack, self.knows_bits())?;
        let is_other = self.bits().any(|bit| bit.kind.is_some() && !STACK.contains(&bit.name.as_str()));
        (!is_other).then(|| {
            let below = start.saturating_sub(to);
            let pc = place.registers.pc().unwrap_or_default();
            format!(
                "the instruction at {pc:#x} lowers sp from {sp:#x} to {to:#x}, {below} bytes below the stack of {}",
                thread.label()
            )
        })
    }

    /// The same fault as the end of a stack that was used up.
    pub(super) fn overflow(&self, fault: Finding, confidence: Confidence, why: String) -> Finding {
        let Some(thread) = self.thread else { return fault };
        let (start, name) = (thread.stack.start.unwrap_or_default(), thread.label());
        let size = thread.stack.size.map_or_else(String::new, |size| format!(" ({size} bytes)"));
        // What looks like the frame is an older one: on a stack that was used up nothing could be pushed.
        let is_placed = self.is_placed() || self.lowers().is_some();
        let keeps = |one: &Evidence| is_placed || matches!(one.kind, Source::Register);
        let symptom = if is_placed {
            fault.claim
        } else {
            format!("{} in thread {name}, at a place that is not known", self.name())
        };
        let other = "a stack pointer that was damaged gives the same";
        let against = if confidence == Confidence::Proven { Vec::new() } else { vec![other.to_owned()] };
        Finding::new(
            Code::StackOverflow,
            (if self.sure == Sure::Runs { confidence } else { confidence.min(Confidence::Likely) }, against),
            format!("the stack of {name}{size} overflowed"),
        )
        .evidence([Evidence::stack(start, why)])
        .evidence(fault.evidence.into_iter().filter(keeps))
        .explains([symptom])
        .next(format!(
            "{}, or find the function with the large frame: `threads --bt={:#x}`",
            words::larger_stack(thread, self.case),
            thread.address
        ))
        .threads(fault.threads)
    }
}
