//! Writing an ELF core: header, program headers, notes, and then the memory, piece by piece.

use goblin::elf::header::ET_CORE;
use goblin::elf::program_header::{PF_R, PF_W, PF_X, PT_LOAD, PT_NOTE};

use super::Machine;
use crate::abi::{Addr, Endian, Width};

/// What a core contains before its memory.
#[derive(Debug, Clone)]
pub struct CoreFile {
    /// Width of an address.
    pub width: Width,
    /// Byte order of the data.
    pub endian: Endian,
    /// The instruction set.
    pub machine: Machine,
    /// `e_flags`, as the program has them.
    pub flags: u32,
    /// `EI_OSABI`, as the program has it.
    pub osabi: u8,
    /// Owner, type and description of each note.
    pub notes: Vec<(&'static str, u32, Vec<u8>)>,
}

/// The most pieces of memory: each has a program header, and their count has 16 bits.
pub const MAX_PIECES: usize = 0xFF00;

impl CoreFile {
    /// Everything before the memory; `pieces` are the addresses and lengths of what follows, in their
    /// order, without gaps in the file. `None` where there are too many of them, or one is outside of the addresses.
    pub fn head(&self, pieces: &[(Addr, u64)]) -> Option<Vec<u8>> {
        if pieces.len() > MAX_PIECES {
            return None;
        }
        let (header, entry) = match self.width {
            Width::W4 => (52u64, 32u64),
            Width::W8 => (64, 56),
        };
        let notes = self.note_bytes()?;
        let count = u64::try_from(pieces.len()).ok()?.checked_add(1)?;
        let notes_at = header.checked_add(entry.checked_mul(count)?)?;
        let mut out = Out { bytes: Vec::new(), endian: self.endian, width: self.width };
        let class = if self.width == Width::W4 { 1 } else { 2 };
        let order = if self.endian == Endian::Little { 1 } else { 2 };
        out.bytes.extend_from_slice(&[0x7F, b'E', b'L', b'F', class, order, 1, self.osabi, 0, 0, 0, 0, 0, 0, 0, 0]);
        out.put(ET_CORE.into(), 2);
        out.put(self.machine.0.into(), 2);
        out.put(1, 4);
        out.word(0)?;
        out.word(header)?;
        out.word(0)?;
        out.put(self.flags.into(), 4);
        for n in [header, entry, count, 0, 0, 0] {
            out.put(n, 2);
        }
        let len = u64::try_from(notes.len()).ok()?;
        out.program_header(PT_NOTE, PF_R, notes_at, 0, len, 0)?;
        let mut at = notes_at.checked_add(len)?;
        for (start, len) in pieces {
            out.program_header(PT_LOAD, PF_R | PF_W | PF_X, at, *start, *len, *len)?;
            at = at.checked_add(*len)?;
        }
        out.bytes.extend_from_slice(&notes);
        Some(out.bytes)
    }

    fn note_bytes(&self) -> Option<Vec<u8>> {
        let mut out = Out { bytes: Vec::new(), endian: self.endian, width: self.width };
        for (owner, kind, desc) in &self.notes {
            out.put(u64::try_from(owner.len()).ok()?.checked_add(1)?, 4);
            out.put(u64::from(u32::try_from(desc.len()).ok()?), 4);
            out.put((*kind).into(), 4);
            out.bytes.extend_from_slice(owner.as_bytes());
            out.bytes.push(0);
            out.pad();
            out.bytes.extend_from_slice(desc);
            out.pad();
        }
        Some(out.bytes)
    }
}

struct Out {
    bytes: Vec<u8>,
    endian: Endian,
    width: Width,
}

impl Out {
    /// The lowest `len` bytes of a number.
    fn put(&mut self, value: u64, len: usize) {
        match self.endian {
            Endian::Little => self.bytes.extend(value.to_le_bytes().into_iter().take(len)),
            Endian::Big => self.bytes.extend(value.to_le_bytes().into_iter().take(len).rev()),
        }
    }

    /// A number as wide as an address; `None` where it is wider.
    fn word(&mut self, value: u64) -> Option<()> {
        (value <= self.width.max()).then(|| self.put(value, self.width.bytes()))
    }

    fn pad(&mut self) {
        while !self.bytes.len().is_multiple_of(4) {
            self.bytes.push(0);
        }
    }

    fn program_header(
        &mut self,
        kind: u32,
        flags: u32,
        offset: u64,
        address: Addr,
        filesz: u64,
        memsz: u64,
    ) -> Option<()> {
        self.put(kind.into(), 4);
        if self.width == Width::W8 {
            self.put(flags.into(), 4);
        }
        for n in [offset, address, address, filesz, memsz] {
            self.word(n)?;
        }
        if self.width == Width::W4 {
            self.put(flags.into(), 4);
        }
        self.word(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::{Elf, ElfKind};

    #[test]
    fn what_is_written_is_read_in_each_class_and_order() {
        for (width, endian) in [
            (Width::W4, Endian::Little),
            (Width::W4, Endian::Big),
            (Width::W8, Endian::Little),
            (Width::W8, Endian::Big),
        ] {
            let notes = vec![("CORE", 1, vec![1, 2, 3]), ("TX-TRACE", 7, b"text".to_vec())];
            let core =
                CoreFile { width, endian, machine: Machine(20), flags: 0x80_0000, osabi: 97, notes: notes.clone() };
            let mut bytes = core.head(&[(0x1000, 4), (0xFFFF_FF00, 2)]).unwrap();
            bytes.extend(b"abcdXY");
            let elf = Elf::open(bytes).unwrap();
            assert_eq!((elf.width(), elf.endian(), elf.kind()), (width, endian, ElfKind::Core));
            assert_eq!((elf.machine(), elf.flags(), elf.osabi()), (Machine(20), 0x80_0000, 97));
            let loads: Vec<_> = elf.segments().filter(|s| s.kind == PT_LOAD).collect();
            let of = |i: usize| (loads[i].vaddr, elf.segment_bytes(&loads[i]).to_vec());
            assert_eq!([of(0), of(1)], [(0x1000, b"abcd".to_vec()), (0xFFFF_FF00, b"XY".to_vec())]);
            let read: Vec<_> =
                elf.notes().map(|n| n.map(|n| (n.name.to_vec(), n.kind, n.desc.to_vec())).unwrap()).collect();
            let want: Vec<_> = notes.iter().map(|(o, k, d)| (o.as_bytes().to_vec(), *k, d.clone())).collect();
            assert_eq!(read, want);
        }
    }

    #[test]
    fn what_an_address_cannot_hold_is_not_written() {
        let core = CoreFile {
            width: Width::W4,
            endian: Endian::Little,
            machine: Machine::ARM,
            flags: 0,
            osabi: 0,
            notes: Vec::new(),
        };
        assert_eq!(core.head(&[(1 << 32, 4)]), None);
        assert_eq!(core.head(&vec![(0, 0); MAX_PIECES + 1]), None);
    }
}
