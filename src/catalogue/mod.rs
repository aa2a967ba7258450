//! WHAT AN ID MEANS: event definitions as data, with the kinds of their fields and what they do.
//!
//! Reports, timelines and explanations ask a definition for its effects, never for its id, so that they serve every
//! system whose events are listed here.

mod classes;
mod counters;
mod effect;
mod field;
mod interrupts;
mod objects;
mod qnx;
mod role;
mod table;
mod uia;
mod usage;
pub mod user;

pub use classes::{classes, mask_names, mask_text, short_class};
pub use counters::{Adds, Counter, counters};
pub use effect::{Effect, Effects};
pub use field::{ArgKind, Enumeration, FieldDef, Takes};
pub use objects::{ObjectType, Show, capacity, registered_stack, threadx_object, threadx_object_named};
pub use qnx::{QnxEvents, looks_like_text, qnx_events};
pub use role::{Role, Roles, Word};
pub use table::{Catalogue, Names, Ways};
pub use uia::{Declared, FIRST_DECLARED, uia_events};
pub use usage::{Level, ObjectUse};

use crate::trace::DefId;

/// Which of the products that share a trace buffer inserts an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Product {
    /// ThreadX itself.
    Tx,
    /// FileX.
    Fx,
    /// NetX or NetX Duo.
    Nx,
    /// USBX.
    Ux,
    /// The kernel of another system.
    Kernel,
    /// The application.
    User,
}

impl Product {
    /// Its short name, as `--class` takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tx => "tx",
            Self::Fx => "fx",
            Self::Nx => "nx",
            Self::Ux => "ux",
            Self::Kernel => "kernel",
            Self::User => "user",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Tx, Self::Fx, Self::Nx, Self::Ux, Self::Kernel, Self::User].into_iter().find(|p| p.name() == text)
    }
}

/// What one event id means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventDef {
    /// The id as the trace stores it.
    pub id: u32,
    /// Its name: unique, stable, what `--event` takes.
    pub name: String,
    /// The macro that the target's headers define for it; empty where there is none.
    pub macro_name: String,
    /// Who inserts it.
    pub product: Product,
    /// The kernel's category for it: the bit of the enable mask, or the class of another system.
    pub class: String,
    /// Its payload, word by word; `None` where a word means nothing.
    pub fields: Vec<Option<FieldDef>>,
    /// What it does.
    pub effects: Effects,
    /// Bit n set: the kernel fills word n (from 0) in after the insertion.
    pub late: u8,
    /// True where no current source inserts it.
    pub unused: bool,
    /// What the vendor's viewer calls it; empty where it has no such event.
    pub label: String,
}

impl EventDef {
    /// A definition that says no more than this.
    pub fn new(id: u32, name: String, product: Product, class: String) -> Self {
        Self {
            id,
            name,
            macro_name: String::new(),
            product,
            class,
            fields: Vec::new(),
            effects: Effects::default(),
            late: 0,
            unused: false,
            label: String::new(),
        }
    }

    /// The field that describes payload word `index` (from 0).
    pub fn field(&self, index: usize) -> Option<&FieldDef> {
        self.fields.get(index)?.as_ref()
    }
}

impl std::ops::Index<DefId> for Catalogue {
    type Output = EventDef;
    /// Never panics: a number of another catalogue gives the unknown definition.
    fn index(&self, id: DefId) -> &EventDef {
        self.def(id).unwrap_or_else(|| table::unknown())
    }
}
