//! Registers that an exception does not push, by the instructions in front of the place where it came.

use super::polling::{Step, Walk, effect, step, target};
use super::{Architecture, Effect, Registers};
use crate::abi::Addr;

/// The registers with those of r4 to r11 that are not known, where the code in front of pc shows them: the last instruction that
/// sets one, with no branch, call or write of memory between it and pc. `from`: the first address of `code`, where an instruction
/// begins. `read`: a word of memory.
pub fn with_those_before(
    registers: &Registers,
    from: Addr,
    code: &[u8],
    read: &mut dyn FnMut(Addr) -> Option<u32>,
) -> Registers {
    let mut found = registers.clone();
    let Some(pc) = registers.pc().filter(|_| registers.architecture() == Architecture::CortexM) else { return found };
    let end = (pc & !1).saturating_sub(2);
    let all: Vec<(Addr, u16, u16)> = Walk { at: from, end, from, code }.collect();
    let targets: Vec<Addr> = all.iter().filter_map(|(at, first, second)| target(*first, *second, *at)).collect();
    let mut written: Vec<u16> = Vec::new();
    // From the last instruction to the first: what is written behind an instruction is not what it read.
    for (at, first, second) in all.into_iter().rev() {
        let Some(step) = step(first, second, at) else { break };
        let (to, value) = match step {
            Step::Branches(_) | Step::Stores => break,
            Step::Literal(to, place) => (to, read(place).map(u64::from)),
            Step::Sets(to, value) => (to, Some(value)),
            Step::Loads(to) => {
                let mut then = found.clone();
                written.iter().chain(&[to]).for_each(|number| then.forget(&format!("r{number}")));
                let at = match effect(&then, first, second) {
                    Some(Effect::Read(at, size)) if size.bytes == 4 => Some(at),
                    _ => None,
                };
                (to, at.and_then(&mut *read).map(u64::from))
            }
            Step::Writes(Some(to)) | Step::SetsTop(to, _) => (to, None),
            Step::Writes(None) => continue,
        };
        if let Some(value) = value.filter(|_| (4..12).contains(&to) && !written.contains(&to)) {
            let name = format!("r{to}");
            if registers.get(&name).is_none() {
                found.put(&name, value);
            }
        }
        written.push(to);
        if targets.contains(&at) {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Endian;

    const CODE: Addr = 0x100;

    /// The value of r5 at the end of the code; memory has 7 at 0x20000014.
    fn r5(code: &[u16], values: &[(&str, u64)]) -> Option<u64> {
        let bytes: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
        let mut registers = Registers::new(Architecture::CortexM);
        let pc = CODE.checked_add(u64::try_from(bytes.len()).ok()?)?;
        assert!(registers.set("pc", pc));
        values.iter().for_each(|(name, value)| assert!(registers.set(name, *value)));
        let mut read = |at: Addr| match at {
            0x2000_0014 => Some(7),
            _ => Endian::Little.u32(&bytes, usize::try_from(at.checked_sub(CODE)?).ok()?),
        };
        with_those_before(&registers, CODE, &bytes, &mut read).get("r5")
    }

    #[test]
    fn what_was_loaded_just_before_is_known() {
        let r0 = [("r0", 0x2000_0014)];
        // push {r4, r5}; ldr r5, [r0]; movs r1, #0
        assert_eq!(r5(&[0xB430, 0x6805, 0x2100], &r0), Some(7));
        assert_eq!(r5(&[0x2500], &[]), Some(0), "movs r5, #0");
        assert_eq!(r5(&[0x6805], &[("r0", 0x2000_0014), ("r5", 3)]), Some(3), "it is known");
    }

    #[test]
    fn what_may_have_changed_since_is_not() {
        let r0 = [("r0", 0x2000_0014), ("r1", 0x2000_0014)];
        assert_eq!(r5(&[0x6805, 0x2014], &r0), None, "movs r0, #20: the address was another");
        assert_eq!(r5(&[0x6805, 0x600A], &r0), None, "str r2, [r1]: memory was another");
        assert_eq!(r5(&[0x6805, 0x3501], &r0), None, "adds r5, #1");
        assert_eq!(r5(&[0x6805, 0xD000], &r0), None, "a branch");
        // beq to the last instruction; ldr r5, [r0]; movs r1, #0
        assert_eq!(r5(&[0xD000, 0x6805, 0x2000], &r0), None, "it may have come from elsewhere");
        assert_eq!(r5(&[0x6805], &[]), None, "the address is not known");
    }
}
