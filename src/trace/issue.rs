//! What went wrong is data, printed beside the result.

use crate::abi::Addr;
use crate::code::Code;
pub use crate::code::Severity;

/// Where an issue is; each part may be absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Address on the target.
    pub address: Option<Addr>,
    /// Offset in the file or block.
    pub offset: Option<u64>,
    /// Sequence number of an event.
    pub seq: Option<u64>,
}

impl Place {
    /// At an address on the target.
    #[must_use]
    pub const fn address(address: Addr) -> Self {
        Self { address: Some(address), offset: None, seq: None }
    }

    /// At an event.
    #[must_use]
    pub const fn seq(seq: u64) -> Self {
        Self { address: None, offset: None, seq: Some(seq) }
    }
}

/// One kind of trouble, counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// Its stable code.
    pub code: Code,
    /// How much it matters.
    pub severity: Severity,
    /// How often it occurred.
    pub count: u64,
    /// One sentence.
    pub message: String,
    /// Where it first occurred.
    pub place: Place,
}

impl Issue {
    /// An issue that occurred once, at no particular place, with the usual severity of its code.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, severity: code.severity(), count: 1, message: message.into(), place: Place::default() }
    }

    /// The same, with another severity that `docs/issues.md` lists for its code.
    #[must_use]
    pub const fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// True for a note about the files that were read, which changes nothing of what is shown. A file that is cut short may
    /// lack what would be shown.
    #[must_use]
    pub fn is_about_source(&self) -> bool {
        let is_cut = matches!(self.code, Code::ElfTruncated | Code::CoreTruncated);
        self.severity == Severity::Note && self.code.is_about_files() && !is_cut
    }

    /// True for what is the likely cause of other issues: with the wrong ELF much looks damaged.
    #[must_use]
    pub fn is_cause(&self) -> bool {
        matches!(self.code, Code::ElfMismatch | Code::DifferentRuns)
    }

    /// The same, at a place.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    /// The same, `count` times.
    #[must_use]
    pub fn times(mut self, count: u64) -> Self {
        self.count = count;
        self
    }
}

/// So many of something, with the words that go with one or with more: `1 slot was`, `2 slots were`.
#[must_use]
pub fn many(n: u64, one: &str, more: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { more })
}
