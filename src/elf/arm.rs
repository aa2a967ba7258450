//! The processor that an ARM program was built for: `.ARM.attributes`, by the ABI's "Addenda".
//!
//! ```text
//! 'A'  { u32 length, vendor NUL, { tag 1 (file), u32 length, { tag, value }... }... }...
//! ```
//! Tags and numbers are ULEB128; the tags 4, 5, 65, 67 and odd ones from 33 on have a string, 32 has a number and a
//! string, all others a number.

use super::{Elf, ElfKind, Machine, PF_X, PT_LOAD, Segment};
use crate::abi::Addr;

/// `sh_type` of `.ARM.attributes`.
const SHT_ARM_ATTRIBUTES: u32 = 0x7000_0003;
const TAG_FILE: u64 = 1;
const TAG_CPU_ARCH: u64 = 6;
const TAG_CPU_ARCH_PROFILE: u64 = 7;
const TAG_COMPATIBILITY: u64 = 32;

/// The exceptions whose vectors are looked at: reset, NMI and HardFault. Every Cortex-M has them, behind the first stack pointer.
const VECTORS: usize = 3;
/// So many segments are looked at.
const MOST_SEGMENTS: usize = 16;

impl Elf {
    /// True for a program whose attributes name ARM's M profile (Cortex-M). Where they name none, as in a file that is cut short, its
    /// vector table shows it.
    pub fn is_m_profile(&self) -> bool {
        self.has_m_attributes().unwrap_or_else(|| self.has_m_vectors())
    }

    /// True where only the vector table shows that the program is for a Cortex-M.
    pub fn is_m_profile_by_vectors(&self) -> bool {
        self.has_m_attributes().is_none() && self.has_m_vectors()
    }

    /// Whether the attributes name the M profile; `None` where they name no processor.
    fn has_m_attributes(&self) -> Option<bool> {
        let mut m = None;
        self.arm_attributes(|tag, value| {
            let is_m = match tag {
                TAG_CPU_ARCH_PROFILE => value == u64::from(b'M'),
                // v6-M, v6S-M, v7E-M, v8-M (baseline, mainline), v8.1-M: architectures that have no other profile.
                TAG_CPU_ARCH => matches!(value, 11..=13 | 16 | 17 | 21),
                _ => return,
            };
            m = Some(m.unwrap_or(false) || is_m);
        });
        m
    }

    /// True where a segment begins with a vector table of a Cortex-M: a stack pointer, and addresses of Thumb code. Those of other ARMs
    /// begin with instructions.
    fn has_m_vectors(&self) -> bool {
        if self.machine() != Machine::ARM || self.kind() != ElfKind::Exec {
            return false;
        }
        let loads = self.segments().filter(|s| s.kind == PT_LOAD && s.filesz > 0).take(MOST_SEGMENTS);
        let loads: Vec<Segment> = loads.collect();
        let holds = |s: &Segment, at: Addr| at.checked_sub(s.vaddr).is_some_and(|into| into < s.filesz);
        let is_code = |at: Addr| at & 1 == 1 && loads.iter().any(|s| s.flags & PF_X != 0 && holds(s, at));
        loads.iter().any(|segment| {
            let bytes = self.segment_bytes(segment);
            let word = |n: usize| self.endian().u32(&bytes, n.checked_mul(4)?).map(u64::from);
            let has_stack = word(0).is_some_and(|at| at != 0 && at & 3 == 0);
            has_stack && (1..=VECTORS).all(|n| word(n).is_some_and(is_code))
        })
    }

    /// True for a program whose attributes name ARM's A or R profile; false where they name none.
    pub fn is_a_or_r_profile(&self) -> bool {
        let mut other = false;
        self.arm_attributes(|tag, value| {
            other |= tag == TAG_CPU_ARCH_PROFILE && [b'A', b'R'].map(u64::from).contains(&value);
        });
        other
    }

    /// True for a program whose attributes name the small instruction set of the M profile: ARMv6-M, ARMv8-M baseline.
    pub fn is_arm_baseline(&self) -> bool {
        let mut baseline = false;
        self.arm_attributes(|tag, value| baseline |= tag == TAG_CPU_ARCH && matches!(value, 11 | 12 | 16));
        baseline
    }

    fn arm_attributes(&self, each: impl FnMut(u64, u64)) {
        if self.machine() != Machine::ARM {
            return;
        }
        let Some(section) = self.sections().find(|s| s.kind == SHT_ARM_ATTRIBUTES) else { return };
        attributes(&self.section_bytes(&section), |from| self.endian().u32(from, 0), each);
    }
}

/// Cuts `len` bytes off, or all where there are fewer.
fn cut<'b>(rest: &mut &'b [u8], len: usize) -> &'b [u8] {
    let (head, tail) = rest.split_at_checked(len).unwrap_or((rest, &[]));
    *rest = tail;
    head
}

/// A number in ULEB128; `None` at the end, or where it does not fit.
fn uleb(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..63).step_by(7) {
        let byte = *cut(rest, 1).first()?;
        value |= u64::from(byte & 0x7F).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn string(rest: &mut &[u8]) {
    let len = rest.split_inclusive(|b| *b == 0).next().map_or(0, <[u8]>::len);
    cut(rest, len);
}

/// Calls `each` for every attribute of the file that is a number. Ends at damage.
fn attributes(section: &[u8], u32_of: impl Fn(&[u8]) -> Option<u32>, mut each: impl FnMut(u64, u64)) {
    let Some((b'A', mut rest)) = section.split_first().map(|(v, r)| (*v, r)) else { return };
    while let Some(len) = u32_of(rest).and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 4) {
        let mut vendor = cut(&mut rest, len);
        cut(&mut vendor, 4);
        let ours = vendor.starts_with(b"aeabi\0");
        string(&mut vendor);
        while ours && !vendor.is_empty() {
            let start = vendor;
            let Some(tag) = uleb(&mut vendor) else { return };
            let Some(len) = u32_of(vendor).and_then(|n| usize::try_from(n).ok()) else { return };
            // The length counts the tag too.
            let body = len.checked_add(vendor.len()).and_then(|n| n.checked_sub(start.len()));
            let Some(body) = body.filter(|n| *n >= 4) else { return };
            let mut body = cut(&mut vendor, body);
            cut(&mut body, 4);
            while tag == TAG_FILE && !body.is_empty() {
                let Some(tag) = uleb(&mut body) else { return };
                if tag == TAG_COMPATIBILITY {
                    let _ = uleb(&mut body);
                    string(&mut body);
                } else if matches!(tag, 4 | 5 | 65 | 67) || (tag > 32 && tag & 1 == 1) {
                    string(&mut body);
                } else {
                    let Some(value) = uleb(&mut body) else { return };
                    each(tag, value);
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::*;
    use crate::elf::tests::writer::{Writer, load, sect};

    /// As an assembler writes it for a Cortex-M3.
    fn section(attributes: &[u8], big: bool) -> Vec<u8> {
        let word = |n: usize| if big { (n as u32).to_be_bytes() } else { (n as u32).to_le_bytes() };
        let mut file = vec![1];
        file.extend(word(attributes.len() + 5));
        file.extend(attributes);
        let mut all = b"A".to_vec();
        all.extend(word(file.len() + 10));
        all.extend(b"aeabi\0");
        all.extend(file);
        all
    }

    #[test]
    fn the_small_instruction_set_is_recognized() {
        let of = |bytes: &[u8]| {
            let mut w = Writer::new(false, false, 2, 40);
            w.sects = vec![sect(".ARM.attributes", 0x7000_0003, 0, 0, section(bytes, false))];
            Elf::open(w.build()).unwrap().is_arm_baseline()
        };
        let (m0, m3, m23, m33) = (b"\x06\x0b", b"\x06\x0a\x07M", b"\x06\x10\x07M", b"\x06\x11\x07M");
        assert_eq!([of(m0), of(m3), of(m23), of(m33)], [true, false, true, false]);
    }

    fn is_m(machine: u16, big: bool, bytes: Vec<u8>) -> bool {
        let mut w = Writer::new(false, big, 2, machine);
        w.sects = vec![sect(".ARM.attributes", 0x7000_0003, 0, 0, bytes)];
        Elf::open(w.build()).unwrap().is_m_profile()
    }

    #[test]
    fn profiles_are_distinguished() {
        let m3 = b"\x057-M\0\x06\x0a\x07M\x09\x02";
        let m0 = b"\x05Cortex-M0\0\x06\x0b";
        let a15 = b"\x057-A\0\x06\x0a\x07A\x08\x01";
        let r5 = b"\x20\x01armcc\0\x06\x0a\x07R";
        for big in [false, true] {
            let test = |bytes: &[u8]| is_m(40, big, section(bytes, big));
            assert_eq!([test(m3), test(m0), test(a15), test(r5)], [true, true, false, false]);
        }
        assert!(!is_m(183, false, section(m3, false)), "only EM_ARM has these attributes");
    }

    /// A program that was cut short has no attributes: a fault of its core was that of an ARM of another profile, and not found.
    #[test]
    fn a_vector_table_is_that_of_a_cortex_m() {
        let of = |words: [u32; 5], kind: u16, attributes: &[u8]| {
            let mut w = Writer::new(false, false, kind, 40);
            w.segs = vec![load(0x800_0000, 5, words.iter().flat_map(|word| word.to_le_bytes()).collect())];
            w.sects = vec![sect(".ARM.attributes", 0x7000_0003, 0, 0, section(attributes, false))];
            let elf = Elf::open(w.build()).unwrap();
            (elf.is_m_profile(), elf.is_m_profile_by_vectors())
        };
        let vectors = [0x2000_8000, 0x800_0011, 0x800_0013, 0x800_0013, 0];
        assert_eq!(of(vectors, 2, b""), (true, true));
        assert_eq!(of(vectors, 2, b"\x06\x0a\x07M"), (true, false));
        assert_eq!(of(vectors, 2, b"\x06\x0a\x07A"), (false, false));
        assert_eq!(of(vectors, 4, b""), (false, false), "a core");
        assert_eq!(of([0x2000_8000, 0x800_0011, 0x800_0013, 0x800_0012, 0], 2, b""), (false, false));
        assert_eq!(of([0x2000_8000, 0x800_0011, 0x800_0013, 0x800_0023, 0], 2, b""), (false, false));
        assert_eq!(of([0xEA00_0006, 0xEA00_0001, 0xEA00_0003, 0xEA00_0005, 0], 2, b""), (false, false), "branches");
    }

    #[test]
    fn damage_is_no_profile_and_no_panic() {
        let whole = section(b"\x057-M\0\x06\x0a\x07M", false);
        for len in 0..whole.len() {
            assert!(!is_m(40, false, whole[..len].to_vec()), "{len}");
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 0x7F, 0xFF] {
                let mut bytes = whole.clone();
                bytes[at] = byte;
                is_m(40, false, bytes);
            }
        }
        assert!(!is_m(40, false, Vec::new()));
    }
}
