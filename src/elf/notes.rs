//! Notes: small named records in a core (registers, auxiliary vector, mapped files) or a program (build id).
//!
//! Three words (name size, descriptor size, type), then both texts, each padded to the alignment: 4 bytes,
//! whatever the class, except where the segment says 8 (gABI; GNU property notes).
//!
//! Read here and not by goblin, whose notes end at the first name that is not UTF-8: one wrong bit in a name would lose all
//! registers of a core. It also does not say where the damage is.

use crate::abi::Endian;

/// One note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note<'a> {
    /// Who defined it, without the closing NUL: `CORE`, `GNU`, `LINUX`.
    pub name: &'a [u8],
    /// Its type, which means something only together with the name.
    pub kind: u32,
    /// Its data.
    pub desc: &'a [u8],
}

impl Note<'_> {
    /// True for `NT_GNU_BUILD_ID`.
    pub(super) fn is_build_id(&self) -> bool {
        self.name == b"GNU" && self.kind == goblin::elf::note::NT_GNU_BUILD_ID
    }
}

/// Notes that end before they should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// A record that does not end.
    #[error("the notes end within a record, after {at} bytes; {lost} bytes of them are not in the file")]
    Cut {
        /// Where in the notes the broken record begins.
        at: usize,
        /// How many bytes of the notes are past the end of the file; 0 where the sizes in the record are wrong.
        lost: u64,
    },
    /// Segments that hold the same notes again and again.
    #[error("the note segments overlap: together they are larger than the file, and the rest of them is not read")]
    Overlap,
}

/// Iterates over notes; ends after an error.
#[derive(Debug, Clone)]
pub struct Notes<'a> {
    bytes: &'a [u8],
    endian: Endian,
    align: usize,
    /// Where the next record begins; `None` at the end.
    at: Option<usize>,
    lost: u64,
}

impl<'a> Notes<'a> {
    /// Over the bytes of one note segment or section. `align` is the segment's own: anything but 8 means 4.
    /// `lost` is how many bytes of the segment the file does not have.
    pub const fn new(bytes: &'a [u8], endian: Endian, align: u64, lost: u64) -> Self {
        let align = if align == 8 { 8 } else { 4 };
        Self { bytes, endian, align, at: Some(0), lost }
    }

    /// The note at `at`, and where the next one begins.
    fn parse(&self, at: usize) -> Option<(Note<'a>, usize)> {
        let word = |n: usize| self.endian.u32(self.bytes, at.checked_add(n)?);
        let (name_len, desc_len) = (usize::try_from(word(0)?).ok()?, usize::try_from(word(4)?).ok()?);
        let kind = word(8)?;
        let name_at = at.checked_add(12)?;
        let name_end = name_at.checked_add(name_len)?;
        let name = self.bytes.get(name_at..name_end)?;
        let name = name.split(|&b| b == 0).next().unwrap_or(&[]);
        let desc_at = name_end.checked_next_multiple_of(self.align)?;
        let desc_end = desc_at.checked_add(desc_len)?;
        let desc = self.bytes.get(desc_at..desc_end)?;
        // The padding of the last record may be missing.
        Some((Note { name, kind, desc }, desc_end.checked_next_multiple_of(self.align)?))
    }
}

impl<'a> Iterator for Notes<'a> {
    type Item = Result<Note<'a>, NoteError>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at.take()?;
        let rest = self.bytes.get(at..).unwrap_or(&[]);
        // Some writers pad the segment with zeros: no record is all zero.
        if self.lost == 0 && (rest.is_empty() || (rest.len() < 12 && rest.iter().all(|&b| b == 0))) {
            return None;
        }
        let Some((note, next)) = self.parse(at) else { return Some(Err(NoteError::Cut { at, lost: self.lost })) };
        self.at = Some(next);
        Some(Ok(note))
    }
}
