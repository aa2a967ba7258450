//! What the program's own file lacks, and what follows where something is looked for in vain.

use std::path::Path;

use crate::elf::Elf;
use crate::format::Absence;
use crate::trace::{Issue, Severity};

/// What to say of a program's file that ends before what its tables name.
#[must_use]
pub fn cut_short(path: &Path, elf: &Elf) -> Option<Issue> {
    let lost = elf.cut_short()?;
    Some(Issue::new("elf-truncated", Severity::Note, format!("{}: {lost}; copy it anew", path.display())))
}

/// Of a symbol that is missing though an ELF was given: why, and what to try.
pub(super) fn blame(elf: Option<&Elf>, mut absence: Absence) -> Absence {
    let (Some(elf), true) = (elf, absence.code.ends_with("-symbol") || absence.code == "trace-not-built-in") else {
        return absence;
    };
    if elf.cut_short().is_some() {
        absence.message.push_str("; the ELF is cut short, and it may lie in the part that is missing");
        "copy the ELF anew from where it was built; or --symbol NAME=ADDR from the linker's map"
            .clone_into(&mut absence.hint);
    } else if absence.code == "no-kernel-symbol" {
        let what = if elf.is_stripped() {
            "the ELF that was given has no symbols: give the unstripped one (--elf)"
        } else {
            "the ELF that was given has no such symbol: give that of the program that ran, linked with ThreadX (--elf)"
        };
        absence.hint = format!("{what}, or --symbol _tx_thread_created_ptr=ADDR from the linker's map");
    }
    absence
}
