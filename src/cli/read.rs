//! Questions about the trace of a target: what has to be read for each, and no more.

use super::monitor::Program;
use super::request::{self, Clock, Reads, With};
use super::sink::Sink;
use super::{Outcome, info, print, report, reports, threads};
use crate::analysis::ReportRequest;
use crate::catalogue::Names;
use crate::error::Error;
use crate::format::{DecodeOptions, Extent};
use crate::output;
use crate::query::{Amount, Bound, Edge, Filters, Position, Query};
use crate::session::{Inputs, Interrupted, Loaded, Target};

/// A question about a target's trace.
pub struct Question {
    /// What is asked.
    pub ask: Ask,
    /// Where the bytes come from.
    pub inputs: Inputs,
    /// Which events.
    pub filters: Filters,
    /// What stamps mean.
    pub clock: Clock,
    /// Whose names.
    pub names: Names,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// The newest events.
    Last(Amount),
    /// All events, or the first so many that the filters keep.
    List {
        /// How many.
        most: Option<u64>,
    },
    /// These events in full.
    Show(Vec<Position>),
    /// What is known of the source and the trace.
    Info,
    /// The registry.
    Objects,
    /// Reports.
    Reports(ReportRequest),
    /// All of them, and the state of the kernel: for people in one document.
    Document(ReportRequest),
}

/// What was read for a question.
pub struct Answer {
    /// The trace.
    pub loaded: Loaded,
    /// What `info` reads beside it.
    pub info: Option<info::Info>,
    /// What a report in a file says of its source.
    pub origin: Option<reports::Origin>,
    /// What a document has beside the trace.
    pub document: Option<report::Found>,
    /// The objects' current states.
    pub states: Vec<output::InMemory>,
    /// Where the running thread is.
    pub stopped: Option<Interrupted>,
}

impl From<Loaded> for Answer {
    fn from(loaded: Loaded) -> Self {
        Self { loaded, info: None, origin: None, document: None, states: Vec::new(), stopped: None }
    }
}

impl Reads for Question {
    type Found = Answer;

    fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    fn check(&self) -> Result<(), Error> {
        if matches!(self.ask, Ask::Last(_)) { request::refuse_neither(&self.inputs.files) } else { Ok(()) }
    }

    fn adopt(&mut self, program: &Program) {
        program.adopted(&mut self.clock, &mut self.names);
    }

    fn read(&self, target: &mut Target<'_>, with: With<'_>) -> Result<Answer, Error> {
        target.ask_events(self.filters.events.iter().map(|t| t.text.clone()).collect());
        let options = self.clock.options(target)?;
        let reader = with.output.format.reader();
        let mut answer =
            Reader { target, filters: &self.filters, names: self.names, options, reader }.answer(&self.ask)?;
        if with.is_monitor {
            return Ok(answer);
        }
        let is_page = reader == output::Reader::Page;
        if let Some(document) = &mut answer.document {
            document.date(report::date(&self.inputs, target));
            if is_page {
                document.digest(target);
            }
        }
        answer.origin = (matches!(self.ask, Ask::Reports(_)) && is_page).then(|| reports::Origin::of(target));
        Ok(answer)
    }

    fn print(&self, found: Answer, target: &Target<'_>, sink: Sink<'_>, with: With<'_>) -> Result<Outcome, Error> {
        print::answer(&found, self, target, sink, with)
    }
}

/// So many of the newest slots are read at least: fewer may all have one time stamp though the clock runs.
const FEWEST: u64 = 16;

struct Reader<'a, 'm> {
    target: &'a mut Target<'m>,
    filters: &'a Filters,
    names: Names,
    options: DecodeOptions,
    reader: output::Reader,
}

impl Reader<'_, '_> {
    fn load(&mut self, extent: Extent) -> Result<Loaded, Error> {
        self.target.load(extent, self.names, &self.options)
    }

    fn answer(&mut self, ask: &Ask) -> Result<Answer, Error> {
        Ok(match ask {
            Ask::List { .. } | Ask::Reports(_) => self.load(Extent::All)?.into(),
            Ask::Document(request) => {
                let mut loaded = self.load(Extent::All)?;
                let asked = report::Asked { request, filters: self.filters, reader: self.reader };
                let document = Some(report::read(self.target, &mut loaded, asked)?);
                Answer { document, stopped: self.target.interrupted(&loaded)?, ..loaded.into() }
            }
            Ask::Last(amount) => {
                self.target.want_interrupted();
                let loaded = self.newest(*amount)?;
                let stopped = self.target.interrupted_as_read(&loaded)?;
                Answer { stopped, ..loaded.into() }
            }
            Ask::Show(positions) => self.positions(positions)?.into(),
            Ask::Objects => {
                let mut loaded = self.load(Extent::Nothing)?;
                let states = threads::in_memory(self.target, &mut loaded.trace)?;
                Answer { states, ..loaded.into() }
            }
            Ask::Info => {
                // A live target is halted while it is read, and a part of the ring is enough.
                let extent = if self.target.is_live() { Extent::Newest(info::SAMPLE) } else { Extent::All };
                let mut loaded = self.load(extent)?;
                let info = info::read(self.target, &loaded)?;
                info.identity().put_first(&mut loaded.trace.issues);
                Answer { info: Some(info), ..loaded.into() }
            }
        })
    }

    /// The newest events that the filters keep, and one before them, which gives the first its delta: read backwards, each
    /// time twice as many.
    fn newest(&mut self, amount: Amount) -> Result<Loaded, Error> {
        let wanted = match amount {
            Amount::Events(n) => Some(n),
            Amount::Ticks(_) | Amount::Time(_) => None,
        };
        let counted = |p: Option<Position>| matches!(p, Some(Position::Ticks(_) | Position::Time(_)));
        if counted(self.filters.from) || counted(self.filters.to) {
            // These count from the oldest event of all.
            return self.load(Extent::All);
        }
        let mut slots = match wanted {
            Some(n) if self.filters.is_empty() => n.saturating_add(1).max(FEWEST),
            _ => wanted.unwrap_or(0).clamp(32, 1 << 20).saturating_mul(2),
        };
        loop {
            let loaded = self.load(Extent::Newest(slots))?;
            if loaded.trace.about.held <= slots || self.holds(&loaded, wanted, amount)? {
                return Ok(loaded);
            }
            slots = slots.saturating_mul(2);
        }
    }

    /// True where so much of what the filters keep is among what was read, after another event.
    fn holds(&self, loaded: &Loaded, wanted: Option<u64>, amount: Amount) -> Result<bool, Error> {
        let Some(wanted) = wanted else {
            let start = start_of(amount, loaded)?;
            return Ok(loaded.trace.events().next().is_none_or(|oldest| oldest.ticks < start));
        };
        let query = match Query::compile(self.filters, &loaded.trace, &loaded.catalogue) {
            Ok(query) => query,
            // The name may be of a thread that ran longer ago.
            Err(e) if e.is_not_found() => return Ok(false),
            Err(e) => return Err(e),
        };
        let kept = loaded.trace.events().skip(1).filter(|e| query.keeps(e)).count();
        Ok(kept as u64 >= wanted)
    }

    /// From the oldest event that is to be shown to the newest, and the one before it for its delta.
    fn positions(&mut self, positions: &[Position]) -> Result<Loaded, Error> {
        let mut back = 0u64;
        let mut held = None;
        for position in positions {
            let needed = match position {
                Position::Newest(n) => *n,
                Position::Seq(seq) => {
                    let total = match held {
                        Some(total) => total,
                        None => self.load(Extent::Nothing)?.trace.about.held,
                    };
                    held = Some(total);
                    total.saturating_sub(*seq)
                }
                _ => return self.load(Extent::All),
            };
            back = back.max(needed);
        }
        self.load(Extent::Newest(back.saturating_add(1)))
    }
}

/// The ticks at which the newest so much begins.
pub(super) fn start_of(amount: Amount, loaded: &Loaded) -> Result<i64, Error> {
    let Some(position) = amount.start() else { return Ok(i64::MIN) };
    Ok(match position.bound(&loaded.trace, Edge::From)? {
        Bound::Ticks(ticks) => ticks,
        Bound::Seq(_) => i64::MIN,
    })
}
