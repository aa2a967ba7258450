//! What the program's own file lacks, and what follows where something is looked for in vain.

use std::path::Path;

use crate::elf::Elf;
use crate::format::Absence;
use crate::trace::{Issue, Severity};

/// What is wrong with an ELF whose variables are not those of this memory.
const OTHER: &str = "this ELF is of another build";

/// What to say of a program's file that ends before what its tables name.
#[must_use]
pub fn cut_short(path: &Path, elf: &Elf) -> Option<Issue> {
    let lost = elf.cut_short()?;
    Some(Issue::new("elf-truncated", Severity::Note, format!("{}: {lost}; copy it anew", path.display())))
}

/// Of a symbol that is missing though an ELF was given: why, and what to try.
/// `another`: the ELF is known to be of another build.
pub(super) fn blame(elf: Option<&Elf>, another: bool, mut absence: Absence) -> Absence {
    if another && matches!(absence.code, "never-enabled" | "no-threads") {
        let what = if absence.code == "no-threads" { "threads" } else { "a trace" };
        absence.code = "elf-mismatch";
        absence.looked = false;
        absence.message = format!("{OTHER}: it does not show where {what} would be in this memory");
        "give the ELF of the program that ran (--elf)".clone_into(&mut absence.hint);
        return absence;
    }
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

/// Takes back what was concluded from a variable of an ELF of another build: that a trace that was found by a search is left
/// over.
pub(super) fn doubt_left_over(issues: &mut [Issue]) {
    for issue in issues.iter_mut().filter(|issue| issue.code == "left-over") {
        issue.code = "found-by-search";
        issue.message = format!("{OTHER}, and does not show where the trace is: this one was found by a search");
    }
}
