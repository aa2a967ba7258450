//! Faults: what the fault registers of a processor say, in words. One file an architecture.

use super::{Architecture, Registers};
use crate::abi::Addr;

/// `cfsr`: pushing registers as an exception came failed: MSTKERR, STKERR, STKOF.
const NOT_WRITTEN: [(u64, &str); 3] = [(1 << 4, "MSTKERR"), (1 << 12, "STKERR"), (1 << 20, "STKOF")];
/// `cfsr`: storing the floating-point registers into a frame failed later on: MLSPERR, LSPERR.
const FLOATS_NOT_WRITTEN: [(u64, &str); 2] = [(1 << 5, "MLSPERR"), (1 << 13, "LSPERR")];
/// `fpccr`: room for s0 to s15 is in a frame, and they are still in the registers.
const LSPACT: u64 = 1;
/// From the start of a frame to its s0.
const FLOATS_AT: u64 = 32;

/// What the fault registers say against a frame that an exception of a Cortex-M pushed.
///
/// The bits stay set until a program clears them: they may be those of an earlier exception.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrameDoubt {
    /// The bits that say that the frame may not have been written: MSTKERR, STKERR, STKOF.
    pub not_written: Vec<&'static str>,
    /// The bits that say that s0 to s15 in it may not have been written: MLSPERR, LSPERR, LSPACT.
    pub floats_stale: Vec<&'static str>,
}

impl FrameDoubt {
    /// True where nothing is said against it.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.not_written.is_empty() && self.floats_stale.is_empty()
    }

    /// In words, without a full stop: `STKERR: the exception frame may not have been written`.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let said = [
            (&self.not_written, "the exception frame may not have been written"),
            (&self.floats_stale, "s0 to s15 in the exception frame are stale"),
        ];
        let said = said.into_iter().filter(|(bits, _)| !bits.is_empty());
        said.map(|(bits, words)| format!("{}: {words}", bits.join(", "))).collect()
    }
}

impl Registers {
    /// What the fault registers of this CPU say against the exception frame whose r0 is at `at`. Nothing where they are not
    /// known. LSPACT is about one frame only: that whose s0 is at `fpcar`.
    #[must_use]
    pub fn frame_doubt(&self, at: Addr) -> FrameDoubt {
        if self.architecture() != Architecture::CortexM {
            return FrameDoubt::default();
        }
        let cfsr = self.get("cfsr").unwrap_or_default();
        let set = |bits: &[(u64, &'static str)]| bits.iter().filter(|(b, _)| cfsr & b != 0).map(|(_, n)| *n).collect();
        let mut floats_stale: Vec<&'static str> = set(&FLOATS_NOT_WRITTEN);
        let lazy = self.get("fpccr").unwrap_or_default() & LSPACT != 0;
        let floats = self.get("fpcar").map(|at| at & !7);
        if lazy && floats.is_none_or(|floats| at.checked_add(FLOATS_AT).is_some_and(|own| own & !7 == floats)) {
            floats_stale.push("LSPACT");
        }
        FrameDoubt { not_written: set(&NOT_WRITTEN), floats_stale }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubt(values: &[(&str, u64)]) -> FrameDoubt {
        let mut registers = Registers::new(Architecture::CortexM);
        assert!(values.iter().all(|(name, value)| registers.set(name, *value)));
        registers.frame_doubt(0x2000_0100)
    }

    #[test]
    fn what_is_said_against_a_frame() {
        assert!(doubt(&[]).is_none() && doubt(&[("cfsr", 0x8200), ("fpccr", 0xC000_0000)]).is_none());
        assert_eq!(doubt(&[("cfsr", 0x1000)]).words(), ["STKERR: the exception frame may not have been written"]);
        assert_eq!(doubt(&[("cfsr", 0x10_0010)]).not_written, ["MSTKERR", "STKOF"]);
        assert_eq!(doubt(&[("cfsr", 0x2000)]).floats_stale, ["LSPERR"]);
        let stale = ["LSPACT: s0 to s15 in the exception frame are stale"];
        assert_eq!(doubt(&[("fpccr", 1)]).words(), stale);
        assert_eq!(doubt(&[("fpccr", 1), ("fpcar", 0x2000_0120)]).words(), stale);
        assert!(doubt(&[("fpccr", 1), ("fpcar", 0x2000_0220)]).is_none(), "another frame");
    }
}
