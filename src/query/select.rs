//! Filters by who, what and which object, compiled.

use std::ops::RangeInclusive;

use super::glob::{Glob, is_pattern};
use super::{AddressOf, Term, Terms, context_name};
use super::{not_in_trace, wrong_filter};
use crate::abi::Addr;
use crate::catalogue::{Catalogue, EventDef, Product, short_class};
use crate::error::Error;
use crate::near::{did_you_mean, nearest};
use crate::trace::{ContextKind, DefId, Trace};

/// What filters are held against.
pub(super) struct Scope<'a> {
    pub trace: &'a Trace,
    pub catalogue: &'a Catalogue,
    pub address_of: AddressOf<'a>,
}

/// A number as people type it: decimal, or hexadecimal after `0x`.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    }
}

/// `5`, `60-70`, `60..70` or `60..=70`; both ends are in.
pub(super) fn number_range(text: &str) -> Option<(u64, u64)> {
    if let Some(n) = number(text) {
        return Some((n, n));
    }
    let (a, b) = text.split_once("..").or_else(|| text.split_once('-'))?;
    let (a, b) = (number(a.trim())?, number(b.trim_start_matches('=').trim())?);
    (a <= b).then_some((a, b))
}

/// The kind of context that a word names.
pub(super) fn context_kind(text: &str) -> Result<ContextKind, Error> {
    [ContextKind::Thread, ContextKind::Isr, ContextKind::Init, ContextKind::Idle, ContextKind::Unknown]
        .into_iter()
        .find(|k| k.name().eq_ignore_ascii_case(text))
        .ok_or_else(|| {
            let hint = match text.to_ascii_lowercase().as_str() {
                "irq" | "interrupt" | "int" | "exception" | "handler" => {
                    "did you mean isr? Kinds are thread, isr, init, idle"
                }
                "task" | "tasks" | "threads" => "did you mean thread? Kinds are thread, isr, init, idle",
                _ => "kinds are thread, isr, init, idle",
            };
            wrong_filter("not a kind of context").hint(hint)
        })
}

/// Numbers that pass.
#[derive(Debug, Clone)]
pub(super) struct Ranges(Vec<(bool, u64, u64)>);

impl Ranges {
    /// Of terms that were checked when they were added.
    pub fn of(terms: &Terms) -> Self {
        Self(terms.iter().filter_map(|t| number_range(&t.text).map(|(a, b)| (t.exclude, a, b))).collect())
    }

    pub(super) fn keeps(&self, n: u64) -> bool {
        passes(self.0.iter().map(|(exclude, a, b)| (*exclude, (*a..=*b).contains(&n))))
    }
}

/// Any of the included (or there is none), none of the excluded.
pub(super) fn passes(terms: impl Iterator<Item = (bool, bool)>) -> bool {
    let (mut asks, mut met) = (false, false);
    for (exclude, hit) in terms {
        if exclude && hit {
            return false;
        }
        if !exclude {
            asks = true;
            met |= hit;
        }
    }
    met || !asks
}

/// What an `--event` or `--class` term means.
#[derive(Debug, Clone)]
enum What {
    /// These ids, defined or not.
    Ids(u32, u32),
    /// Ids that no definition has: in the range of applications, or outside it.
    Unknown { user: bool },
    /// Every id in the range of applications.
    User,
    /// These definitions, by their number: several may share an id.
    Defs(Vec<DefId>),
}

/// `--event` and `--class`, compiled.
#[derive(Debug, Clone)]
pub(super) struct Ids {
    user: Option<RangeInclusive<u32>>,
    events: Vec<(bool, Vec<What>)>,
    classes: Vec<(bool, Vec<What>)>,
}

impl Ids {
    /// True where some event may fail to pass.
    pub(super) fn narrows(&self) -> bool {
        !self.events.is_empty() || !self.classes.is_empty()
    }

    /// For the definition of this number.
    pub(super) fn keeps_def(&self, number: DefId, def: &EventDef) -> bool {
        self.keeps(def.id, Some(number))
    }

    /// For ids that the catalogue does not define.
    pub(super) fn keeps_unknown(&self, id: u32) -> bool {
        self.keeps(id, None)
    }

    fn keeps(&self, id: u32, def: Option<DefId>) -> bool {
        let user = || self.user.as_ref().is_some_and(|ids| ids.contains(&id));
        let hit = |what: &What| match what {
            What::Ids(a, b) => (*a..=*b).contains(&id),
            What::Unknown { user: wanted } => def.is_none() && user() == *wanted,
            What::User => user(),
            What::Defs(defs) => def.is_some_and(|d| defs.contains(&d)),
        };
        let all = |list: &[(bool, Vec<What>)]| passes(list.iter().map(|(ex, w)| (*ex, w.iter().any(hit))));
        all(&self.events) && all(&self.classes)
    }
}

pub(super) fn ids(events: &Terms, classes: &Terms, catalogue: &Catalogue) -> Result<Ids, Error> {
    let each = |terms: &Terms, what: &dyn Fn(&str) -> Result<Vec<What>, Error>| {
        terms.iter().map(|t| Ok((t.exclude, what(&t.text)?))).collect::<Result<Vec<_>, Error>>()
    };
    Ok(Ids {
        user: catalogue.user_ids(),
        events: each(events, &|text| event(text, catalogue))?,
        classes: each(classes, &|text| class(text, catalogue))?,
    })
}

fn event(text: &str, catalogue: &Catalogue) -> Result<Vec<What>, Error> {
    if let Some((a, b)) = number_range(text) {
        let id = |n| u32::try_from(n).map_err(|_| wrong_filter(format!("'{text}' is past the largest event id")));
        return Ok(vec![What::Ids(id(a)?, id(b)?)]);
    }
    let of = |keep: &dyn Fn(&EventDef) -> bool| -> Vec<DefId> {
        catalogue.numbered().filter(|(_, d)| keep(d)).map(|(n, _)| n).collect()
    };
    let mut found = of(&|d| d.name.eq_ignore_ascii_case(text) || is_word(&d.macro_name, text));
    if found.is_empty() {
        found = of(&|d| is_word(&d.label, text));
    }
    if !found.is_empty() {
        return Ok(vec![What::Defs(found)]);
    }
    // What an event without a definition is called in a table.
    let low = text.to_ascii_lowercase();
    if let Some(id) = low.strip_prefix("user_").or_else(|| low.strip_prefix("event_")).and_then(|n| n.parse().ok()) {
        return Ok(vec![What::Ids(id, id)]);
    }
    if is_pattern(text) {
        let glob = Glob::new(text, true);
        let found = of(&|d| glob.fits(&d.name) || glob.fits(&d.macro_name) || glob.fits(&d.label));
        // A pattern of numbers matches all numbers here: the user who types `user_*` wants every event of the application.
        let mut all = vec![What::Defs(found.clone())];
        all.extend(
            [("user_1", true), ("event_1", false)]
                .iter()
                .filter(|(n, _)| glob.fits(n))
                .map(|(_, user)| What::Unknown { user: *user }),
        );
        if low.starts_with("user_") && glob.fits("user_1") {
            all.push(What::User);
        }
        if found.is_empty() && all.len() == 1 {
            return Err(wrong_filter(format!("no event in the catalogue matches '{text}'"))
                .hint("`tx-trace events` lists them"));
        }
        return Ok(all);
    }
    let near = nearest(text, catalogue.iter().map(|d| d.name.as_str()));
    Err(wrong_filter(format!("no catalogue has an event '{text}'")).hint(if near.is_empty() {
        "`tx-trace events` lists the names; your application's: `tx-trace help events`".to_owned()
    } else {
        did_you_mean(&near, "")
    }))
}

fn is_word(own: &str, text: &str) -> bool {
    !own.is_empty() && own.eq_ignore_ascii_case(text)
}

/// `queue` of `tx_queue`.
fn bare(class: &str) -> &str {
    class.split_once('_').map_or(class, |(_, bare)| bare)
}

fn class(text: &str, catalogue: &Catalogue) -> Result<Vec<What>, Error> {
    let asked = short_class(text);
    let glob = Glob::new(&asked, true);
    let fits = |d: &EventDef| {
        let short = short_class(&d.class);
        let product = d.product.name();
        let bare = short.strip_prefix(product).and_then(|s| s.strip_prefix('_')).unwrap_or(&short);
        product == asked || glob.fits(&short) || glob.fits(bare)
    };
    let found: Vec<DefId> = catalogue.numbered().filter(|(_, d)| fits(d)).map(|(n, _)| n).collect();
    let user = asked == Product::User.name() || asked == "tx_user";
    if found.is_empty() && !user {
        let mut names: Vec<String> = catalogue.iter().map(|d| short_class(&d.class)).collect();
        names.sort();
        names.dedup();
        names.push("user".to_owned());
        let near = nearest(&asked, names.iter().flat_map(|name| [name.as_str(), bare(name)]));
        let hint = match near.is_empty() {
            true => format!("classes are tx, fx, nx, ux, and {}", names.join(", ")),
            false => did_you_mean(&near, ""),
        };
        return Err(wrong_filter(format!("there is no class '{text}'")).hint(hint));
    }
    let mut all = vec![What::Defs(found)];
    if user {
        all.push(What::User);
    }
    Ok(all)
}

/// A name as typed: the name itself, or a pattern for it.
pub(super) struct Named {
    text: String,
    glob: Option<Glob>,
}

impl Named {
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), glob: is_pattern(text).then(|| Glob::new(text, false)) }
    }

    pub(super) fn fits(&self, name: &str) -> bool {
        name == self.text || self.glob.as_ref().is_some_and(|g| g.fits(name))
    }
}

/// `--thread` and `--context`: which contexts pass, by their number.
pub(super) fn contexts(
    threads: &Terms,
    kinds: &Terms,
    scope: &Scope<'_>,
    notes: &mut Vec<String>,
) -> Result<Option<Vec<bool>>, Error> {
    if threads.is_empty() && kinds.is_empty() {
        return Ok(None);
    }
    let kinds: Vec<(bool, ContextKind)> =
        kinds.iter().filter_map(|t| context_kind(&t.text).ok().map(|k| (t.exclude, k))).collect();
    let mut terms: Vec<(bool, Vec<bool>)> = Vec::new();
    for term in threads {
        terms.push((term.exclude, one_thread(&term.text, scope)));
    }
    let missing: Vec<&Term> =
        threads.iter().zip(&terms).filter(|(_, (_, set))| !set.contains(&true)).map(|(t, _)| t).collect();
    let asked = threads.iter().filter(|t| !t.exclude).count();
    if asked > 0 && missing.iter().filter(|t| !t.exclude).count() == asked {
        let text = missing.iter().find(|t| !t.exclude).map_or("", |t| t.text.as_str());
        return Err(no_thread(text, scope));
    }
    notes.extend(missing.iter().filter_map(|t| missing_thread(&t.text, scope)));
    let keep = scope.trace.contexts.iter().enumerate().map(|(i, (_, context))| {
        passes(terms.iter().map(|(ex, set)| (*ex, set.get(i).copied().unwrap_or(false))))
            && passes(kinds.iter().map(|(ex, kind)| (*ex, *kind == context.kind)))
    });
    Ok(Some(keep.collect()))
}

/// Which contexts a `--thread` term names. Besides threads those that the table shows under such a name (`ISR`,
/// an exception's name), so that what is printed can be typed; but a pattern means threads.
fn one_thread(text: &str, scope: &Scope<'_>) -> Vec<bool> {
    let named = Named::new(text);
    let by_name = |scope: &Scope<'_>| -> Vec<bool> {
        let all = scope.trace.contexts.iter();
        all.map(|(_, c)| match c.kind {
            ContextKind::Thread => c.name.as_deref().is_some_and(|n| named.fits(n)),
            _ => context_name(c).eq_ignore_ascii_case(text),
        })
        .collect()
    };
    let set = by_name(scope);
    if set.contains(&true) {
        return set;
    }
    let Some(address) = number(text).or_else(|| (scope.address_of)(text)) else { return set };
    let all = scope.trace.contexts.iter();
    all.map(|(_, c)| c.kind == ContextKind::Thread && c.address == address).collect()
}

/// True where nothing of the ring was left unread: what is not in the trace is then nowhere.
fn is_whole(scope: &Scope<'_>) -> bool {
    scope.trace.len().saturating_add(scope.trace.about.empty) >= scope.trace.about.held
}

/// A thread that inserted nothing here may still be in the registry.
fn is_registered(text: &str, scope: &Scope<'_>) -> bool {
    let named = Named::new(text);
    scope.trace.objects.iter().any(|o| o.is_thread && named.fits(&o.name))
}

/// What is said of a thread that met nothing, beside others that did. Of the newest events alone nothing follows for a
/// thread that is known: it may have run before.
fn missing_thread(text: &str, scope: &Scope<'_>) -> Option<String> {
    match (is_registered(text, scope), is_whole(scope)) {
        (true, true) => Some(format!("thread '{text}' is known, but inserted none of the events that were read")),
        (true, false) => None,
        (false, true) => Some(format!("no thread '{text}' in this trace")),
        (false, false) => Some(not_among(&format!("thread '{text}'"), scope)),
    }
}

/// What is said of a name that only the part of the ring that was not read may know.
fn not_among(what: &str, scope: &Scope<'_>) -> String {
    let (read, held) = (scope.trace.len(), scope.trace.about.held);
    format!("no {what} in the registry or among the {read} events that were read of {held}")
}

fn no_thread(text: &str, scope: &Scope<'_>) -> Error {
    let error = not_in_trace(if is_registered(text, scope) {
        format!("thread '{text}' is known, but inserted none of the events that were read")
    } else if is_whole(scope) {
        format!("there is no thread '{text}' in this trace")
    } else {
        not_among(&format!("thread '{text}'"), scope)
    });
    let names: Vec<String> = scope
        .trace
        .contexts
        .iter()
        .filter(|(_, c)| c.kind == ContextKind::Thread)
        .map(|(_, c)| context_name(c))
        .collect();
    error.hint(names_near(text, "threads that inserted events", &names))
}

/// The names near to one that was typed; without any, the first of all.
fn names_near(text: &str, what: &str, names: &[String]) -> String {
    let near = nearest(text, names.iter().map(String::as_str));
    if near.is_empty() { list(what, names) } else { did_you_mean(&near, "'") }
}

/// Names in a row, cut where they become too many.
fn list(what: &str, names: &[String]) -> String {
    const MOST: usize = 6;
    if names.is_empty() {
        return format!("{what}: none");
    }
    let shown: Vec<&str> = names.iter().take(MOST).map(String::as_str).collect();
    let more = names.len().saturating_sub(MOST);
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{what}: {}{tail}", shown.join(", "))
}

/// `--object`, compiled to addresses.
#[derive(Debug, Clone, Default)]
pub(super) struct Objects {
    asked: bool,
    include: Vec<Addr>,
    exclude: Vec<Addr>,
    /// Addresses that were typed as such: they are met in any address, not only in pointers to objects.
    typed: Vec<Addr>,
}

impl Objects {
    pub(super) fn narrows(&self) -> bool {
        self.asked
    }

    pub(super) fn includes(&self, address: Addr) -> bool {
        self.include.binary_search(&address).is_ok()
    }

    pub(super) fn excludes(&self, address: Addr) -> bool {
        self.exclude.binary_search(&address).is_ok()
    }

    pub(super) fn typed(&self, address: Addr) -> bool {
        self.typed.contains(&address)
    }
}

/// Every address that an object's name, pattern or address matches.
pub(super) fn addresses(text: &str, scope: &Scope<'_>) -> Vec<Addr> {
    let named = Named::new(text);
    let mut found: Vec<Addr> =
        scope.trace.objects.iter().filter(|o| !o.name.is_empty() && named.fits(&o.name)).map(|o| o.address).collect();
    found.extend(
        scope
            .trace
            .contexts
            .iter()
            .filter(|(_, c)| c.kind == ContextKind::Thread && c.name.as_deref().is_some_and(|n| named.fits(n)))
            .map(|(_, c)| c.address),
    );
    if found.is_empty() {
        found.extend((scope.address_of)(text));
    }
    found.sort_unstable();
    found.dedup();
    found
}

pub(super) fn no_object(text: &str, scope: &Scope<'_>) -> Error {
    let names: Vec<String> =
        scope.trace.objects.iter().filter(|o| !o.name.is_empty()).map(|o| o.name.clone()).collect();
    let said = if is_whole(scope) {
        format!("there is no object '{text}' in this trace")
    } else {
        not_among(&format!("object '{text}'"), scope)
    };
    not_in_trace(said).hint(names_near(text, "objects", &names))
}

pub(super) fn objects(terms: &Terms, scope: &Scope<'_>, notes: &mut Vec<String>) -> Result<Option<Objects>, Error> {
    if terms.is_empty() {
        return Ok(None);
    }
    let mut all = Objects { asked: terms.iter().any(|t| !t.exclude), ..Objects::default() };
    let mut missing: Option<&str> = None;
    for term in terms {
        let mut found = addresses(&term.text, scope);
        if found.is_empty()
            && let Some(address) = number(&term.text)
        {
            all.typed.push(address);
            found.push(address);
        }
        if found.is_empty() {
            notes.push(if is_whole(scope) {
                format!("no object '{}' in this trace", term.text)
            } else {
                not_among(&format!("object '{}'", term.text), scope)
            });
            if !term.exclude {
                missing = missing.or(Some(&term.text));
            }
        }
        if term.exclude { &mut all.exclude } else { &mut all.include }.extend(found);
    }
    if let Some(text) = missing
        && all.include.is_empty()
    {
        return Err(no_object(text, scope));
    }
    all.include.sort_unstable();
    all.exclude.sort_unstable();
    Ok(Some(all))
}
