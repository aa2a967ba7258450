//! Event ids: which are known, and which slots hold events.

use std::collections::HashMap;

use super::entry::{Entry, PRIORITY_UNUSED, id, is_user, kind_of};
use crate::catalogue::Catalogue;
use crate::trace::{ContextKind, DefId};

/// Ids below this are found by indexing; kernels store no others.
const DENSE: u32 = 1 << 16;

/// What is known of an id.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    pub def: Option<DefId>,
    /// Bit n set: the kernel fills word n in after the insertion.
    pub late: u8,
    /// True where an event of this id says something about the kernel's own time.
    pub timed: bool,
    /// True where it has a definition, or is one that applications choose.
    pub means: bool,
}

/// The ids of a catalogue, by number.
pub(super) struct Ids {
    dense: Vec<Known>,
    sparse: HashMap<u32, Known>,
}

impl Ids {
    pub fn of(catalogue: &Catalogue) -> Self {
        let highest = catalogue.iter().map(|def| def.id).filter(|id| *id < DENSE).max().unwrap_or(0);
        let undefined = |id| Known { means: is_user(id), ..Known::default() };
        let mut this = Self { dense: (0..=highest).map(undefined).collect(), sparse: HashMap::new() };
        for def in catalogue.iter() {
            let timed = matches!(
                def.id,
                id::RESUME | id::SUSPEND | id::SLEEP | id::WAIT_ABORT | id::TIME_GET | id::TIME_SET | id::ISR_ENTER
            );
            let known = Known { def: catalogue.find(def.id), late: def.late, timed, means: true };
            match usize::try_from(def.id).ok().and_then(|id| this.dense.get_mut(id)) {
                Some(place) => *place = known,
                None => drop(this.sparse.insert(def.id, known)),
            }
        }
        this
    }

    #[inline]
    pub fn known(&self, id: u32) -> Known {
        match usize::try_from(id).ok().and_then(|id| self.dense.get(id)) {
            Some(known) => *known,
            None if id < DENSE => Known { means: is_user(id), ..Known::default() },
            None => self.sparse.get(&id).copied().unwrap_or_default(),
        }
    }

    /// True where an id is known, or one that applications choose.
    #[inline]
    pub fn has_meaning(&self, id: u32) -> bool {
        self.known(id).means
    }

    /// False for memory that something else overwrote.
    #[inline]
    pub fn is_entry(&self, entry: &Entry, cores: u16) -> bool {
        self.known(entry.id).is_entry(entry, cores)
    }
}

impl Known {
    /// False for memory that something else overwrote: no kernel stores such an entry. Kernels check no id, so an odd
    /// id alone is no damage, and what else is in doubt is shown.
    #[inline]
    pub fn is_entry(&self, entry: &Entry, cores: u16) -> bool {
        entry.core < cores.max(1) && (self.means || is_plausible(entry))
    }
}

/// Whether an entry with an unknown id may be one.
#[cold]
fn is_plausible(entry: &Entry) -> bool {
    let filled = u64::from(entry.id) == entry.context && entry.info.iter().all(|w| *w == entry.context);
    let thread = matches!(kind_of(entry.context), ContextKind::Thread);
    !(filled || thread && entry.priority & PRIORITY_UNUSED != 0)
}
