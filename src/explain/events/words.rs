//! Payload words that say what is asked for and given: event flags, and the memory of pools.

use crate::abi::Addr;
use crate::catalogue::{ArgKind, Catalogue};
use crate::kernel::Wanted;
use crate::trace::Event;

/// Where one definition has them: indices of words.
#[derive(Debug, Clone, Copy, Default)]
struct Places {
    memory: Option<usize>,
    flags: Option<usize>,
    option: Option<usize>,
    size: Option<usize>,
    suspended: Option<usize>,
}

/// By definition.
#[derive(Debug, Default)]
pub struct Fields(Vec<Places>);

impl Fields {
    /// Of a catalogue.
    pub fn of(catalogue: &Catalogue) -> Self {
        let places = |def: &crate::catalogue::EventDef| {
            let find = |is: &dyn Fn(&crate::catalogue::FieldDef) -> bool| {
                def.fields.iter().position(|field| field.as_ref().is_some_and(is))
            };
            Places {
                memory: find(&|field| field.name == "memory_ptr"),
                size: find(&|field| field.name == "size_requested"),
                suspended: find(&|field| field.name == "suspended"),
                flags: find(&|field| field.kind == ArgKind::Flags),
                option: find(&|field| field.name == "get_option" || field.name == "set_option"),
            }
        };
        Self(catalogue.iter().map(places).collect())
    }

    fn places(&self, event: &Event) -> Option<Places> {
        self.0.get(usize::try_from(event.def?.0).ok()?).copied()
    }

    /// The memory that is allocated or released, 0 where none was; `None` where the event does not say.
    pub fn memory(&self, event: &Event, words: &[u64]) -> Option<Addr> {
        let word = self.places(event)?.memory?;
        let is_doubtful =
            u32::try_from(word).ok().and_then(|n| event.doubtful.checked_shr(n)).is_none_or(|b| b & 1 != 0);
        words.get(word).copied().filter(|_| !is_doubtful)
    }

    /// The bytes that are asked for.
    pub fn size(&self, event: &Event, words: &[u64]) -> Option<u64> {
        words.get(self.places(event)?.size?).copied()
    }

    /// True where memory that is released goes to a thread that waits for it.
    pub fn is_handed_over(&self, event: &Event, words: &[u64]) -> bool {
        let suspended = self.places(event).and_then(|places| words.get(places.suspended?));
        suspended.is_some_and(|threads| *threads != 0)
    }

    /// The event flags that a thread asks for.
    pub fn wanted(&self, event: &Event, words: &[u64]) -> Option<Wanted> {
        let places = self.places(event)?;
        let (flags, option) = (*words.get(places.flags?)?, *words.get(places.option?)?);
        Some(Wanted { flags, all: option & 2 != 0 })
    }

    /// The event flags that are set; `None` for a call that clears some.
    pub fn flags(&self, event: &Event, words: &[u64]) -> Option<u64> {
        let places = self.places(event)?;
        let option = *words.get(places.option?)?;
        words.get(places.flags?).copied().filter(|_| option & 2 == 0)
    }
}
