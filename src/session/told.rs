//! What the files of a dead target told beside its memory: it goes with the memory to whoever reads that later.

use std::sync::Arc;

use super::code::Compared;
use super::stop::CoreNotes;
use super::{LoadOffset, Session};
use crate::format::Hints;
use crate::mem::Memory;
use crate::sym::Noted;

/// What is known of a memory that is lent. A name alone is one: `"ram".into()`.
#[derive(Clone, Default)]
pub struct Told {
    /// What people call it.
    pub name: String,
    pub(super) hints: Hints,
    pub(super) header_in_file: bool,
    pub(super) load_offset: LoadOffset,
    pub(super) core: Box<CoreNotes>,
    pub(super) noted: Option<Arc<Noted>>,
    pub(super) code: Box<Compared>,
}

impl From<String> for Told {
    fn from(name: String) -> Self {
        Self { name, ..Self::default() }
    }
}

impl From<&str> for Told {
    fn from(name: &str) -> Self {
        name.to_owned().into()
    }
}

impl<'m> Session<'m> {
    /// Takes the memory of files out, to be read by somebody else, with what the files told of it; `None` of a stub.
    #[must_use]
    pub fn into_memory(self) -> Option<(Box<dyn Memory + 'm>, Told)> {
        let super::Source::Files(memory) = self.memory else { return None };
        let told = Told {
            name: self.name,
            hints: self.hints,
            header_in_file: self.header_in_file,
            load_offset: self.load_offset,
            core: Box::new(self.core),
            noted: self.noted,
            code: Box::new(self.code),
        };
        Some((memory, told))
    }
}
