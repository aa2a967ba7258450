//! What the program's own file lacks, and hints where something is not found.

use std::path::Path;

use super::Identity;
use crate::code::Code;
use crate::elf::Elf;
use crate::error::{Error, ErrorKind};
use crate::kernel;
use crate::trace::Issue;

/// What is wrong with an ELF whose variables are not those of this memory.
const OTHER: &str = "this ELF is of another build";

/// What follows from it, or from a wrong load offset.
const NO_MATCH: &str = "the ELF does not match this memory";

/// What to say of a program's file that ends before what its tables name.
pub fn cut_short(path: &Path, elf: &Elf) -> Option<Issue> {
    let lost = elf.cut_short()?;
    Some(Issue::new(Code::ElfTruncated, format!("{}: {lost}; copy it again", path.display())))
}

/// True for what was concluded from a variable that holds 0: under the ELF of another build another variable is there.
pub(super) fn is_by_zero(error: &Error) -> bool {
    matches!(error.code, Code::NeverEnabled | Code::NoThreads)
}

/// Takes back what was concluded from such a variable where the ELF is, or may be, of another build.
pub(super) fn doubt(identity: &Identity, mut error: Error) -> Error {
    let why = match identity.code {
        _ if !is_by_zero(&error) => return error,
        _ if identity.is_another() => format!("{}{OTHER}", identity.load.or_wrong()),
        Some(code) if code.may_be_another() => {
            format!("{OTHER}, or some of its code was changed in memory ({})", code.describe())
        }
        _ => return error,
    };
    let what = if error.code == Code::NoThreads { "threads" } else { "a trace" };
    error.code = Code::ElfMismatch;
    error.kind = ErrorKind::Failed;
    error.message = format!("{why}: it does not show where {what} would be in this memory");
    "give the ELF of the program that ran (--elf)".clone_into(&mut error.hint);
    error
}

/// Of a symbol that is missing though an ELF was given: why, and what to try.
pub(super) fn with_likely_cause(elf: Option<&Elf>, identity: &Identity, error: Error) -> Error {
    let mut error = doubt(identity, error);
    let (Some(elf), true) = (elf, error.code.name().ends_with("-symbol") || error.code == Code::TraceNotBuiltIn) else {
        return error;
    };
    if elf.cut_short().is_some() {
        error.message.push_str("; the ELF is cut short, and it may be in the part that is missing");
        "copy the ELF again from where it was built; or --symbol NAME=ADDR from the linker's map"
            .clone_into(&mut error.hint);
    } else if error.code == Code::NoKernelSymbol {
        let what = if elf.is_stripped() {
            "the ELF that was given has no symbols: give the unstripped one (--elf)"
        } else {
            "the ELF that was given has no such symbol: give that of the program that ran, linked with ThreadX (--elf)"
        };
        error.hint = format!("{what}, or {}", kernel::head_option());
    }
    error
}

impl Identity {
    /// Puts what is wrong with the ELF before all other issues: it is the likely cause of others. Where it is of another
    /// build, its variables do not show where the trace is, nor that it is left over.
    pub fn put_first(&self, issues: &mut Vec<Issue>) {
        let Some(cause) = self.issue() else { return };
        issues.retain(|issue| issue.code != Code::ElfMismatch);
        issues.insert(0, cause);
        if !self.is_another() {
            return;
        }
        let by_variable = |code| matches!(code, Code::LeftOver | Code::FoundBySearch);
        for issue in issues.iter_mut().filter(|issue| by_variable(issue.code)) {
            issue.code = Code::FoundBySearch;
            issue.message = format!("{NO_MATCH}, and does not show where the trace is: this one was found by a search");
        }
    }
}
