//! The contexts that insert events: threads, interrupts, the system before its scheduler runs.

use std::sync::Arc;

use super::Interner;
use crate::abi::Addr;

/// Dense number of a context in [`Contexts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ContextId(pub u32);

/// What kind of context inserted an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ContextKind {
    /// A thread.
    Thread,
    /// An interrupt service routine.
    Isr,
    /// The system before its scheduler ran.
    Init,
    /// Nothing: the processor waited.
    Idle,
    /// Not recorded, or no longer; a name that it has is inferred.
    Unknown,
}

impl ContextKind {
    /// How many there are.
    pub const COUNT: usize = 5;

    /// Its name in JSON and in `--context`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Isr => "isr",
            Self::Init => "init",
            Self::Idle => "idle",
            Self::Unknown => "unknown",
        }
    }
}

/// One context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// What kind of context it is.
    pub kind: ContextKind,
    /// The word that the trace stores for it.
    pub address: Addr,
    /// Its name where one is known. Hostile text: escape before printing.
    pub name: Option<Box<str>>,
    /// True for a thread of a process: the lower half of its address is the process's number and address in the registry.
    pub has_process: bool,
}

/// Every context of a trace, interned once: events carry dense numbers.
#[derive(Debug, Clone, Default)]
pub struct Contexts {
    list: Vec<Context>,
    index: Arc<ContextIndex>,
}

/// The numbers of contexts, by kind and address.
#[derive(Debug, Clone, Default)]
pub struct ContextIndex {
    kinds: [(Interner, Vec<ContextId>); ContextKind::COUNT],
}

impl ContextIndex {
    /// The number of a context.
    #[inline]
    pub fn find(&self, kind: ContextKind, address: Addr) -> Option<ContextId> {
        let (addresses, ids) = self.kinds.get(kind as usize)?;
        ids.get(usize::try_from(addresses.find(address)?).ok()?).copied()
    }
}

impl Contexts {
    /// The number of this context, which is added where it is new.
    pub fn intern(&mut self, kind: ContextKind, address: Addr) -> ContextId {
        if let Some(id) = self.find(kind, address) {
            return id;
        }
        let id = ContextId(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        self.list.push(Context { kind, address, name: None, has_process: false });
        if let Some((addresses, ids)) = Arc::make_mut(&mut self.index).kinds.get_mut(kind as usize) {
            addresses.intern(address);
            ids.push(id);
        }
        id
    }

    /// The number of a context that was interned before.
    pub fn find(&self, kind: ContextKind, address: Addr) -> Option<ContextId> {
        self.index.find(kind, address)
    }

    /// The numbers of all contexts so far, for many look-ups.
    pub fn index(&self) -> Arc<ContextIndex> {
        Arc::clone(&self.index)
    }

    /// The context of this number.
    #[inline]
    pub fn get(&self, id: ContextId) -> Option<&Context> {
        self.list.get(usize::try_from(id.0).ok()?)
    }

    /// The same, to give it a name.
    pub fn get_mut(&mut self, id: ContextId) -> Option<&mut Context> {
        self.list.get_mut(usize::try_from(id.0).ok()?)
    }

    /// All of them, to give them names.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Context> {
        self.list.iter_mut()
    }

    /// All of them, in the order in which they were first seen.
    pub fn iter(&self) -> impl Iterator<Item = (ContextId, &Context)> + Clone {
        self.list.iter().enumerate().map(|(i, c)| (ContextId(u32::try_from(i).unwrap_or(u32::MAX)), c))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// True where there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}
