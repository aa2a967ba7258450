//! Where a program that can be loaded anywhere was loaded.

use super::LoadOffset;
use crate::code::Code;
use crate::elf::{Elf, ElfKind};
use crate::mem::core::AT_ENTRY;
use crate::mem::remote::Remote;
use crate::trace::Issue;

/// As the stub says; 0 for a program that does not move.
pub(super) fn ask(elf: Option<&Elf>, remote: Option<&mut Remote>, issues: &mut Vec<Issue>) -> LoadOffset {
    let Some(elf) = elf.filter(|e| e.kind() == ElfKind::Dyn) else {
        return LoadOffset::default();
    };
    remote.and_then(|remote| of_stub(remote, elf)).unwrap_or_else(|| {
        issues.push(unknown());
        LoadOffset::default()
    })
}

/// It is not known.
pub(super) fn unknown() -> Issue {
    Issue::new(
        Code::LoadOffsetUnknown,
        "the ELF is position-independent and its load address is not known: 0 is assumed (--load-offset N)",
    )
}

/// From what the stub knows of the process.
fn of_stub(remote: &mut Remote, elf: &Elf) -> Option<LoadOffset> {
    if let Some(auxv) = remote.client_mut().auxv().ok().flatten() {
        let word = elf.width();
        let size = word.bytes();
        for pair in auxv.chunks_exact(size << 1) {
            let (kind, value) = elf.endian().word(word, pair, 0).zip(elf.endian().word(word, pair, size))?;
            if kind == AT_ENTRY {
                return Some(LoadOffset { value: value.wrapping_sub(elf.entry()), how: "AT_ENTRY from the stub" });
            }
        }
    }
    let offsets = remote.client_mut().offsets().ok().flatten()?;
    Some(LoadOffset { value: offsets.text, how: "qOffsets of the stub" })
}
