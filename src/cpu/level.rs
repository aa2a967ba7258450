//! What a CPU was doing when it stopped, by its status register.

use super::{Architecture, Origin, Registers, arm, is_exc_return, is_fault};
use crate::abi::Addr;

/// Thread or exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// No exception: thread mode of a Cortex-M, or a mode of other ARMs in which threads run.
    Thread,
    /// The Cortex-M exception of this number.
    Exception(u32),
    /// A mode of other ARMs that only an exception enters.
    Mode(&'static str),
    /// The registers do not show it.
    Unknown,
}

/// `xpsr`: the number of the exception.
const NUMBER: u64 = 0x1FF;
/// `xpsr`: Thumb state, without which a Cortex-M runs nothing. In a CPSR it has been 0 since Jazelle.
pub(super) const THUMB: u64 = 1 << 24;
/// The last exception: 16 of the architecture, 480 interrupts.
const LAST: u64 = 495;

impl Level {
    /// By the status register of a Cortex-M. `pushed`: an exception of one pushed it.
    fn of_xpsr(word: u64, pushed: bool) -> Self {
        let number = word & NUMBER;
        let thumb = word & THUMB != 0;
        match u32::try_from(number) {
            // QEMU writes a CPSR into the cores of its Cortex-M; a core cannot say that a register is not known, and has 0. What
            // an exception pushed is no CPSR: without Thumb state a call of a wrong address was its fault.
            _ if !thumb && (!pushed && arm::is_cpsr(word) || number == 0) => Self::Unknown,
            _ if number > LAST => Self::Unknown,
            Ok(0) => Self::Thread,
            Ok(number) => Self::Exception(number),
            Err(_) => Self::Unknown,
        }
    }

    /// By the status register of an ARM of the A or R profile.
    const fn of_cpsr(word: u64) -> Self {
        match word & 0x1F {
            0x10 | 0x13 | 0x1F => Self::Thread,
            0x11 => Self::Mode("FIQ"),
            0x12 => Self::Mode("IRQ"),
            0x16 => Self::Mode("monitor"),
            0x17 => Self::Mode("abort"),
            0x1A => Self::Mode("hypervisor"),
            0x1B => Self::Mode("undefined"),
            _ => Self::Unknown,
        }
    }
}

impl Registers {
    /// What this CPU was doing.
    pub fn level(&self) -> Level {
        match self.architecture() {
            Architecture::CortexM => {
                let xpsr = self.value("xpsr").map(|(xpsr, origin)| Level::of_xpsr(xpsr, origin == Origin::Frame));
                // A core of QEMU has a CPSR there.
                let shown = xpsr.filter(|level| *level != Level::Unknown);
                shown.or_else(|| self.level_by_number()).unwrap_or(Level::Unknown)
            }
            Architecture::Arm => self.get("cpsr").map_or(Level::Unknown, Level::of_cpsr),
            _ => Level::Unknown,
        }
    }

    /// By the registers that have the number of the exception alone: IPSR, a part of xPSR, and ICSR (VECTACTIVE).
    fn level_by_number(&self) -> Option<Level> {
        let number = self.get("ipsr").or_else(|| self.get("icsr").filter(|_| self.get("xpsr").is_none()))?;
        Some(Level::of_xpsr(number & NUMBER | THUMB, false))
    }

    /// True where the exception of a Cortex-M is known by its handler alone: see [`Registers::infer_exception`].
    pub fn has_inferred_exception(&self) -> bool {
        self.value("ipsr").is_some_and(|(_, origin)| origin == Origin::Inferred)
    }

    /// True where no register shows the exception, and lr is what the processor put there as it began: the handler has called nothing.
    /// Nothing is inferred of registers that the user typed (`--reg`): the user can type xpsr, too.
    pub fn may_infer_exception(&self) -> bool {
        let is_typed = self.value("pc").is_some_and(|(_, origin)| origin == Origin::Given);
        let is_entered = self.lr().is_some_and(is_exc_return);
        self.architecture() == Architecture::CortexM && is_entered && !is_typed && self.level() == Level::Unknown
    }

    /// Takes the exception from its handler, where no other exception has that, or only faults have it: then the first of them stands for
    /// all. `handlers` has the vectors.
    pub fn infer_exception(&mut self, handlers: &[(u32, Addr)], handler: Addr) {
        let numbers = handlers.iter().filter(|(_, at)| at & !1 == handler & !1).map(|(number, _)| *number);
        let numbers: Vec<u32> = numbers.collect();
        let is_one = numbers.len() == 1 || numbers.iter().all(|number| is_fault(*number));
        if let Some(number) = numbers.into_iter().min().filter(|_| is_one && self.may_infer_exception()) {
            _ = self.set_from(Origin::Inferred, "ipsr", number.into());
        }
    }
}

/// Which ARM a status word is of: an xPSR, or a CPSR in ARM state. `None` for a CPSR in Thumb state, which QEMU also
/// writes for a Cortex-M, and for what is neither.
pub fn profile(status: u64) -> Option<Architecture> {
    /// `cpsr`: Thumb state.
    const STATE: u64 = 1 << 5;
    if status & THUMB != 0 {
        return (status & NUMBER <= LAST).then_some(Architecture::CortexM);
    }
    (arm::is_cpsr(status) && status & STATE == 0).then_some(Architecture::Arm)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(word: u64) -> Level {
        let mut registers = Registers::new(Architecture::CortexM);
        assert!(registers.set("xpsr", word));
        registers.level()
    }

    /// QEMU writes a CPSR into the core of a Cortex-M: 0x1f3 was "exception 499", which no processor has.
    #[test]
    fn exception_499_was_believed() {
        for cpsr in [0x6000_01F3, 0x4000_0173, 0x0000_0033, 0x2000_01D3] {
            assert_eq!(level(cpsr), Level::Unknown, "{cpsr:#x}");
        }
        assert_eq!(level(0x0100_01F0), Level::Unknown, "496");
        assert_eq!(level(0x0100_01EF), Level::Exception(495));
        assert_eq!(level(0x6100_0003), Level::Exception(3));
        assert_eq!(level(0x0100_0024), Level::Exception(36));
        assert_eq!(level(0x8100_0000), Level::Thread);
        // A fault in a handler without its Thumb bit is one still; a word that is not known is written as 0.
        assert_eq!((level(3), level(0)), (Level::Exception(3), Level::Unknown));
    }

    /// Of interrupt 10, whose handler had called address 0, the thread below it was said to have done that: 0x1a is a mode of
    /// other ARMs.
    #[test]
    fn what_an_exception_pushed_was_taken_for_a_cpsr() {
        for (xpsr, number) in [(0x1A, 26), (0x10, 16), (0x6000_001F, 31), (0x0100_001A, 26)] {
            let mut registers = Registers::of(Architecture::CortexM, Origin::Frame);
            assert!(registers.set("xpsr", xpsr));
            assert_eq!(registers.level(), Level::Exception(number), "{xpsr:#x}");
        }
        assert_eq!(level(0x1A), Level::Unknown, "a core may hold a CPSR");
    }

    #[test]
    fn the_interrupt_control_register_shows_the_exception() {
        let mut registers = Registers::new(Architecture::CortexM);
        assert!(registers.set("icsr", 0x0041_E803));
        assert_eq!(registers.level(), Level::Exception(3));
        assert!(registers.set("xpsr", 0x0100_0000));
        assert_eq!(registers.level(), Level::Thread);
    }

    /// In a core of QEMU, which has a CPSR in place of xPSR, the handler of a fault was some endless loop.
    #[test]
    fn the_vector_of_a_handler_did_not_show_the_exception() {
        let handlers = [(2, 0x81), (3, 0x85), (4, 0x89), (5, 0x8D), (6, 0x8D), (16, 0x81), (17, 0x95)];
        let level = |lr, xpsr: Option<u64>, function| {
            let mut registers = Registers::new(Architecture::CortexM);
            assert!(registers.set("lr", lr) && xpsr.is_none_or(|xpsr| registers.set("xpsr", xpsr)));
            registers.infer_exception(&handlers, function);
            (registers.level(), registers.has_inferred_exception())
        };
        let of_fault = (Level::Exception(4), true);
        assert_eq!(level(0xFFFF_FFFD, Some(0x1F3), 0x88), of_fault);
        let unknown = (Level::Unknown, false);
        let cpsr = Some(0x1F3);
        assert_eq!(level(0xFFFF_FFFD, cpsr, 0x94), (Level::Exception(17), true), "an interrupt");
        assert_eq!(level(0xFFFF_FFFD, cpsr, 0x80), unknown, "two exceptions have that handler");
        assert_eq!(level(0xFFFF_FFFD, cpsr, 0x90), unknown, "no handler");
        assert_eq!(level(0xFFFF_FFFD, cpsr, 0x8C), (Level::Exception(5), true), "two faults have that handler");
        assert_eq!(level(0x0000_1235, cpsr, 0x88), unknown, "a function has been called, or it was called itself");
        assert_eq!(level(0xFFFF_FFFD, Some(0x0100_000F), 0x88), (Level::Exception(15), false), "xpsr is known");
    }

    /// IPSR is a part of xPSR.
    #[test]
    fn ipsr_shows_the_exception() {
        let mut registers = Registers::new(Architecture::CortexM);
        assert!(registers.set("ipsr", 3));
        assert_eq!((registers.level(), registers.has_inferred_exception()), (Level::Exception(3), false));
        assert!(registers.set("ipsr", 0));
        assert_eq!(registers.level(), Level::Thread);
    }

    #[test]
    fn which_profile_a_status_word_is_of() {
        assert_eq!(profile(0x6100_0003), Some(Architecture::CortexM));
        assert_eq!(profile(0x6000_01D3), Some(Architecture::Arm), "ARM state");
        assert_eq!([profile(0x6000_01F3), profile(0x0000_0004), profile(0x0100_01FF)], [None; 3]);
    }

    #[test]
    fn modes_of_other_arms() {
        let level = |word| {
            let mut registers = Registers::new(Architecture::Arm);
            registers.set("cpsr", word);
            registers.level()
        };
        assert_eq!([level(0x13), level(0x1F), level(0x10)], [Level::Thread; 3]);
        assert_eq!([level(0x12), level(0x17)], [Level::Mode("IRQ"), Level::Mode("abort")]);
        assert_eq!(level(0x14), Level::Unknown);
    }
}
