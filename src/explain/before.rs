//! The events of the run before the last start, which are left in a trace buffer whose RAM outlived a reset.

use crate::abi::Addr;
use crate::catalogue::Catalogue;
use crate::trace::{ContextKind, Event, Trace};

/// The last events that are named.
const MOST: u64 = 3;

/// The fewest events that are taken for those of a run.
const LEAST: u64 = 16;

/// What is left of the run before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Before {
    /// Where the trace is.
    pub buffer: Addr,
    /// How many of its events.
    pub events: u64,
    /// Its last events, the newest last: `tx_mutex_get mutex=door_lock, perhaps by control?`. Hostile text: escape before printing.
    pub last: Vec<String>,
}

impl Before {
    /// True where a trace may be that of a run that began over the RAM of another one: nothing has been overwritten yet, and
    /// initialisation enabled it, which it does once in a run. One that a thread enables may have been disabled before.
    #[must_use]
    pub fn may_be_in(trace: &Trace) -> bool {
        let first = trace.events().advance().map(|first| first.context);
        let kind = first.and_then(|id| trace.contexts.get(id)).map(|context| context.kind);
        trace.about.format == "threadx" && !trace.about.wrapped && kind == Some(ContextKind::Init)
    }

    /// Of the events of that run, which were decoded as such.
    #[must_use]
    pub fn of(trace: &Trace, catalogue: &Catalogue) -> Option<Self> {
        let buffer = trace.about.base?;
        let events = trace.len();
        let mut last = Vec::new();
        let from = events.saturating_sub(MOST);
        let mut all = trace.events();
        let mut index = 0_u64;
        while let Some(event) = all.advance() {
            if index >= from {
                last.push(said(event, trace, catalogue));
            }
            index = index.saturating_add(1);
        }
        (events >= LEAST).then_some(Self { buffer, events, last })
    }
}

/// An event with the objects that it names, and who may have inserted it.
fn said(event: &Event, trace: &Trace, catalogue: &Catalogue) -> String {
    let def = event.def.and_then(|def| catalogue.def(def));
    let name = def.map_or_else(|| format!("event {}", event.id), |def| def.name.clone());
    let fields = def.map(|def| def.fields.as_slice()).unwrap_or_default();
    let named = fields.iter().zip(trace.words(event)).filter_map(|(field, word)| {
        let object = trace.objects.at(*word).filter(|object| !object.name.is_empty())?;
        Some(format!(" {}={}", field.as_ref()?.label, object.name))
    });
    let by = trace.contexts.get(event.context).and_then(|context| context.name.as_ref());
    let by = by.map_or_else(String::new, |by| format!(", perhaps by {by}"));
    format!("{name}{}{by}", named.collect::<String>())
}
