//! Of a RISC-V: who called an address that is no code. The trap that is recorded has stored the registers of its thread where the
//! thread's control block says, if its handler begins as those of the kernel do (`_tx_thread_context_save`).

use super::super::super::Case;
use super::super::jump::NULL;
use crate::abi::Addr;
use crate::cpu::Registers;
use crate::kernel::Thread;

/// Traps at the fetch of an instruction: an access fault, an illegal instruction, a page fault.
const FETCHES: [u64; 3] = [1, 2, 12];
/// Words of the frame: ra and mepc.
const RA: usize = 28;
const MEPC: usize = 30;

/// True where the trap came from near address 0, where no code is.
pub(super) fn is_null_call(registers: &Registers) -> bool {
    let is_fetch = registers.get("mcause").is_some_and(|cause| FETCHES.contains(&cause));
    is_fetch && registers.get("mepc").is_some_and(|mepc| mepc < NULL)
}

/// The return address that the thread had where the trap came.
pub(super) fn return_address(registers: &Registers, thread: &Thread, case: &Case<'_>) -> Option<Addr> {
    let width = case.width();
    let member = case.kernel?.layout.thread.offset("tx_thread_stack_ptr")?;
    let saved = case.look.bytes(thread.address.checked_add(member)?, width)?;
    let frame = *case.words(&saved, true).first().filter(|frame| thread.holds(**frame))?;
    let bytes = case.look.bytes(frame, width.checked_mul(32)?)?;
    of_frame(&case.words(&bytes, true), registers.get("mepc")?)
}

/// ra of a frame that a trap from this address stored.
fn of_frame(words: &[u64], mepc: u64) -> Option<Addr> {
    let is_its = words.get(MEPC) == Some(&mepc);
    words.get(RA).copied().filter(|ra| is_its && *ra >= NULL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Architecture;

    #[test]
    fn a_frame_of_another_trap_has_not_the_return_address() {
        let mut words = [0_u64; 32];
        (words[RA], words[MEPC]) = (0x8000_0100, 0x10);
        assert_eq!(of_frame(&words, 0x10), Some(0x8000_0100));
        assert_eq!(of_frame(&words, 0x14), None, "an older one");
        words[RA] = 0;
        assert_eq!(of_frame(&words, 0x10), None, "no return address");
        assert_eq!(of_frame(&words[..30], 0x10), None);
    }

    #[test]
    fn a_fetch_near_address_0_is_a_null_call() {
        let of = |mcause, mepc| {
            let mut registers = Registers::new(Architecture::Riscv64);
            assert!(registers.set("mcause", mcause) && registers.set("mepc", mepc));
            is_null_call(&registers)
        };
        assert!(of(1, 0) && of(2, 0x10) && of(12, 0));
        assert!(!of(1, 0x4000_0000) && !of(7, 0) && !of(8, 0));
    }
}
