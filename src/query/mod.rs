//! WHICH EVENTS: filters and positions. Pure: a filter is compiled once against a trace and a catalogue into dense
//! sets, so that testing an event costs a look-up or two.

mod arg;
mod glob;
mod position;
mod select;
mod set;

pub use glob::{Glob, is_pattern};
pub use position::{Amount, Bound, Edge, Position};
pub use set::{EventField, EventSet};

use crate::abi::Addr;
use crate::catalogue::{ArgKind, Catalogue, Product};
use crate::code::Code;
use crate::error::Error;
use crate::trace::{Context, ContextKind, DefId, Event, Trace};

/// How far `--around` reaches to both sides by default.
const REACH: u64 = 10;

/// The error for a filter that cannot be meant.
pub fn wrong_filter(message: impl Into<String>) -> Error {
    Error::usage(Code::Filter, message)
}

/// The error for a filter that names what is not in this trace.
fn not_in_trace(message: impl Into<String>) -> Error {
    Error::not_found(Code::NothingMatches, message, "")
}

/// One thing that a filter asks for, or excludes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// True after `!`: what it names is left out.
    pub exclude: bool,
    /// What was typed, without the `!`.
    pub text: String,
}

/// The terms of one option, however often it was given: any of the included, none of the excluded.
pub type Terms = Vec<Term>;

/// Which option a text belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// `--thread`
    Thread,
    /// `--event`
    Event,
    /// `--class`
    Class,
    /// `--object`
    Object,
    /// `--context`
    Context,
    /// `--core-id`
    Core,
    /// `--arg`
    Arg,
}

/// What was asked for: pure data, sound in itself, not yet held against a trace.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filters {
    /// Names, patterns or addresses of who inserted the event.
    pub threads: Terms,
    /// Names, patterns, ids or ranges of ids of events.
    pub events: Terms,
    /// The kernel's categories, or products.
    pub classes: Terms,
    /// Names, patterns or addresses of objects that an argument points to.
    pub objects: Terms,
    /// Kinds of context.
    pub contexts: Terms,
    /// Numbers of cores.
    pub cores: Terms,
    /// Comparisons of arguments.
    pub args: Terms,
    /// The first that is in.
    pub from: Option<Position>,
    /// The last that is in.
    pub to: Option<Position>,
    /// Events around which to look.
    pub around: Vec<Position>,
    /// How far `around` reaches; `None` is 10 events.
    pub reach: Option<u64>,
}

impl Key {
    /// The option that is typed.
    pub const fn option(self) -> &'static str {
        match self {
            Self::Thread => "--thread",
            Self::Event => "--event",
            Self::Class => "--class",
            Self::Object => "--object",
            Self::Context => "--context",
            Self::Core => "--core-id",
            Self::Arg => "--arg",
        }
    }
}

impl Filters {
    /// Adds what an option says: one term or a list with commas (`\,` is a comma that belongs to a name).
    ///
    /// # Errors
    /// Where a term can mean nothing in any trace.
    pub fn add(&mut self, key: Key, text: &str) -> Result<(), Error> {
        for term in terms(text)? {
            match key {
                Key::Context => drop(select::context_kind(&term.text)?),
                Key::Core => drop(select::number_range(&term.text).ok_or_else(|| {
                    wrong_filter("not the number of a core").hint("numbers count from 0: --core-id 0, --core-id 0-1")
                })?),
                Key::Arg => drop(arg::parse(&term.text)?),
                Key::Thread | Key::Event | Key::Class | Key::Object => {}
            }
            match key {
                Key::Thread => &mut self.threads,
                Key::Event => &mut self.events,
                Key::Class => &mut self.classes,
                Key::Object => &mut self.objects,
                Key::Context => &mut self.contexts,
                Key::Core => &mut self.cores,
                Key::Arg => &mut self.args,
            }
            .push(term);
        }
        Ok(())
    }

    /// Adds places to look around: one, or a list with commas.
    ///
    /// # Errors
    /// Where one is no place.
    pub fn add_around(&mut self, text: &str) -> Result<(), Error> {
        for part in text.split(',') {
            self.around.push(Position::parse(part.trim())?);
        }
        Ok(())
    }

    /// True where every event passes.
    pub fn is_empty(&self) -> bool {
        *self == Self { reach: self.reach, ..Self::default() }
    }
}

/// Cuts a list at its commas.
fn terms(text: &str) -> Result<Terms, Error> {
    let mut all = vec![String::new()];
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' if matches!(rest.peek(), Some(',' | '!')) => {
                if let (Some(last), Some(c)) = (all.last_mut(), rest.next()) {
                    // An escaped `!` must not be taken for an exclusion below.
                    if c == '!' && last.is_empty() {
                        last.push('\\');
                    }
                    last.push(c);
                }
            }
            ',' => all.push(String::new()),
            c => {
                if let Some(last) = all.last_mut() {
                    last.push(c);
                }
            }
        }
    }
    all.iter()
        .map(|part| {
            let part = part.trim();
            let (exclude, text) = match part.strip_prefix('!') {
                Some(text) => (true, text),
                None => (false, part.strip_prefix("\\!").map_or(part, |_| part.get(1..).unwrap_or(part))),
            };
            if text.is_empty() {
                return Err(
                    wrong_filter("a name is empty").hint("names are separated by commas; a comma in a name is \\,")
                );
            }
            Ok(Term { exclude, text: text.to_owned() })
        })
        .collect()
}

/// What a context without a name of its own is called; `None` for a thread, which is called by its address.
pub const fn context_word(kind: ContextKind) -> Option<&'static str> {
    match kind {
        ContextKind::Thread => None,
        ContextKind::Isr => Some("ISR"),
        ContextKind::Init => Some("init"),
        ContextKind::Idle => Some("idle"),
        ContextKind::Unknown => Some("?"),
    }
}

/// Included and excluded, as a set over small numbers. A number past its end is decided by `beyond`.
#[derive(Debug, Clone, Default)]
struct Dense {
    keep: Vec<bool>,
}

impl Dense {
    fn has(&self, index: u32) -> Option<bool> {
        self.keep.get(usize::try_from(index).ok()?).copied()
    }
}

/// Filters compiled against one trace and one catalogue.
pub struct Query<'a> {
    trace: &'a Trace,
    catalogue: &'a Catalogue,
    /// `--event` and `--class`, by definition; and again for ids without one.
    defs: Option<Dense>,
    ids: select::Ids,
    /// `--thread` and `--context`, by context.
    contexts: Option<Dense>,
    cores: Option<select::Ranges>,
    objects: Option<select::Objects>,
    args: Option<arg::Args>,
    from: Option<Bound>,
    to: Option<Bound>,
    around: Option<Vec<(u64, u64)>>,
    notes: Vec<String>,
}

/// Which definitions of a catalogue `--event` and `--class` keep, in its order.
///
/// # Errors
/// Where a filter names no event or class.
pub fn definitions(filters: &Filters, catalogue: &Catalogue) -> Result<Vec<bool>, Error> {
    let ids = select::ids(&filters.events, &filters.classes, catalogue)?;
    Ok(catalogue.numbered().map(|(n, d)| ids.keeps_def(n, d)).collect())
}

/// Names of places on the target that the trace itself does not know, such as an ELF's.
pub type AddressOf<'f> = &'f dyn Fn(&str) -> Option<Addr>;

impl<'a> Query<'a> {
    /// Holds filters against a trace.
    ///
    /// # Errors
    /// [`Code::Filter`] where a filter names what cannot be, [`Code::NothingMatches`] where it names what this trace does
    /// not hold.
    pub fn compile(filters: &Filters, trace: &'a Trace, catalogue: &'a Catalogue) -> Result<Self, Error> {
        Self::compile_with(filters, trace, catalogue, &|_| None)
    }

    /// The same, with names from elsewhere for threads and objects that have none in the trace.
    ///
    /// # Errors
    /// As [`Query::compile`].
    pub fn compile_with(
        filters: &Filters,
        trace: &'a Trace,
        catalogue: &'a Catalogue,
        address_of: AddressOf<'_>,
    ) -> Result<Self, Error> {
        let scope = select::Scope { trace, catalogue, address_of };
        let mut notes = Vec::new();
        let ids = select::ids(&filters.events, &filters.classes, catalogue)?;
        let bound = |p: Option<Position>, edge| p.map(|p| p.bound(trace, edge)).transpose();
        Ok(Self {
            trace,
            catalogue,
            defs: ids
                .narrows()
                .then(|| Dense { keep: catalogue.numbered().map(|(n, d)| ids.keeps_def(n, d)).collect() }),
            ids,
            contexts: select::contexts(&filters.threads, &filters.contexts, &scope, &mut notes)?
                .map(|keep| Dense { keep }),
            cores: (!filters.cores.is_empty()).then(|| select::Ranges::of(&filters.cores)),
            objects: select::objects(&filters.objects, &scope, &mut notes)?,
            args: arg::compile(&filters.args, &scope)?,
            from: bound(filters.from, Edge::From)?,
            to: bound(filters.to, Edge::To)?,
            around: around(filters, trace)?,
            notes,
        })
    }

    /// What the user should know: terms that met nothing beside others that did.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// True where every event passes, so that nothing need be counted.
    pub const fn keeps_all(&self) -> bool {
        self.defs.is_none()
            && self.contexts.is_none()
            && self.cores.is_none()
            && self.objects.is_none()
            && self.args.is_none()
            && self.from.is_none()
            && self.to.is_none()
            && self.around.is_none()
    }

    /// True where the event passes every filter.
    pub fn keeps(&self, event: &Event) -> bool {
        self.is_in_range(event)
            && self.defs.as_ref().is_none_or(|set| {
                event.def.and_then(|d| set.has(d.number())).unwrap_or_else(|| self.ids.keeps_unknown(event.id))
            })
            && self.contexts.as_ref().is_none_or(|set| set.has(event.context.0).unwrap_or(false))
            && self.cores.as_ref().is_none_or(|r| r.keeps(u64::from(event.core)))
            && self.objects.as_ref().is_none_or(|o| self.meets(o, event))
            && self.args.as_ref().is_none_or(|a| a.keeps(event.def, self.trace.words(event)))
    }

    /// True where neither this event nor any later one can pass, so that a walk can end.
    pub fn is_past(&self, event: &Event) -> bool {
        matches!(self.to, Some(Bound::Seq(last)) if event.seq > last)
            || self.around.as_ref().is_some_and(|all| all.iter().all(|(_, last)| event.seq > *last))
    }

    /// True where the event is in the range of `--from`, `--to` and `--around`.
    pub fn is_in_range(&self, event: &Event) -> bool {
        let after = match self.from {
            None => true,
            Some(Bound::Seq(n)) => event.seq >= n,
            Some(Bound::Ticks(t)) => event.ticks >= t,
        };
        let before = match self.to {
            None => true,
            Some(Bound::Seq(n)) => event.seq <= n,
            Some(Bound::Ticks(t)) => event.ticks <= t,
        };
        after
            && before
            && self.around.as_ref().is_none_or(|all| all.iter().any(|(a, b)| (*a..=*b).contains(&event.seq)))
    }

    /// True where an argument points to one of these objects (and to none of the excluded).
    fn meets(&self, objects: &select::Objects, event: &Event) -> bool {
        let def = event.def.and_then(|d: DefId| self.catalogue.def(d));
        let mut met = false;
        for (i, word) in self.trace.words(event).iter().enumerate() {
            let points = match def {
                // An event without a description: a word that is an object's address is taken for one.
                None => true,
                Some(def) => def.field(i).map_or(def.product == Product::User, |f| match f.kind {
                    ArgKind::Ptr | ArgKind::ThreadPtr | ArgKind::Process => true,
                    ArgKind::Addr | ArgKind::Code => objects.typed(*word),
                    _ => false,
                }),
            };
            if points {
                if objects.excludes(*word) {
                    return false;
                }
                met |= objects.includes(*word);
            }
        }
        met || !objects.narrows()
    }
}

fn around(filters: &Filters, trace: &Trace) -> Result<Option<Vec<(u64, u64)>>, Error> {
    if filters.around.is_empty() {
        return Ok(None);
    }
    let reach = filters.reach.unwrap_or(REACH);
    let mut ranges = Vec::new();
    for place in &filters.around {
        if let Some(seq) = place.seq(trace)? {
            ranges.push((seq.saturating_sub(reach), seq.saturating_add(reach)));
        }
    }
    if ranges.is_empty() {
        let end = trace.newest().map_or_else(
            || "no event was read".to_owned(),
            |newest| format!("the events that were read end at {}", newest.seq),
        );
        return Err(not_in_trace("there is no such event to look around").hint(end));
    }
    Ok(Some(ranges))
}

/// What a context is called in this trace.
fn context_name(context: &Context) -> String {
    match (&context.name, context_word(context.kind)) {
        (Some(name), _) if !name.is_empty() => name.to_string(),
        (_, Some(word)) => word.to_owned(),
        _ => format!("{:#x}", context.address),
    }
}
