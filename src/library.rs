//! What other programs do with a target: read its trace, name what happened, make reports.

use crate::analysis::{self, ReportRequest};
use crate::catalogue::Names;
use crate::error::Error;
use crate::format::{DecodeOptions, Extent};
use crate::query::{Filters, Query};
use crate::report::Report;
use crate::session::{Loaded, Target};
use crate::trace::{ContextKind, Event};

impl Target<'_> {
    /// Reads the whole trace.
    ///
    /// # Errors
    /// [`Error`] when there is no trace, or it cannot be read.
    pub fn trace(&mut self) -> Result<Loaded, Error> {
        self.load(Extent::All, Names::default(), &DecodeOptions::default())
    }

    /// Reads the newest events, as many as `count`: over a slow link much less than the whole trace.
    ///
    /// # Errors
    /// As [`Target::trace`].
    pub fn last(&mut self, count: u64) -> Result<Loaded, Error> {
        self.load(Extent::Newest(count), Names::default(), &DecodeOptions::default())
    }

    /// Leaves a live target as it was found. Returns what the user should know of its state. Dropping the target
    /// leaves it as well.
    pub fn leave(mut self) -> Option<String> {
        self.disconnect()?.leave().message
    }
}

impl Loaded {
    /// The events, oldest first.
    pub fn events(&self) -> impl Iterator<Item = Event> + '_ {
        self.trace.events()
    }

    /// The name of what happened: `queue_send`. Names of the application are hostile text: escape before printing.
    #[must_use]
    pub fn event_name(&self, event: &Event) -> String {
        let def = event.def.and_then(|def| self.catalogue.def(def));
        def.map_or_else(|| self.catalogue.made_up_name(event.id), |def| def.name.clone())
    }

    /// The name of the thread or other context that inserted an event, else its kind or its address. Hostile text:
    /// escape before printing.
    #[must_use]
    pub fn context_name(&self, event: &Event) -> String {
        let Some(context) = self.trace.contexts.get(event.context) else { return "?".to_owned() };
        match (&context.name, context.kind) {
            (Some(name), _) if !name.is_empty() => name.to_string(),
            (_, ContextKind::Thread) => format!("{:#x}", context.address),
            (_, kind) => kind.name().to_owned(),
        }
    }

    /// Makes a report over all events.
    ///
    /// # Errors
    /// [`Error`] where the trace does not hold what the report needs.
    pub fn report(&self, name: analysis::Name) -> Result<Vec<Report>, Error> {
        let query = Query::compile(&Filters::default(), &self.trace, &self.catalogue)?;
        analysis::reports(
            &self.trace,
            &self.catalogue,
            &query,
            &ReportRequest { names: vec![name], ..ReportRequest::default() },
        )
    }
}
