//! What a page says about the trace: its tracks, states, objects, marks, findings and reports, as one JSON text.

use std::collections::HashMap;
use std::io;

use serde::Serialize;

use super::block::Block;
use super::fields::{Fields, Schema};
use super::{Document, Page};
use crate::abi::Addr;
use crate::catalogue::ArgKind;
use crate::explain::{Confidence, Evidence, Finding};
use crate::output::row::Rows;
use crate::output::{View, by_weight, escape, issue_text};
use crate::timeline::{
    Counter, Doubt, Ending, Gap, Mark, Measure, Pointed, Scene, Slice, State, Track, TrackId, TrackKind, Waiting,
};

/// A slice began before what the trace shows.
const START_UNKNOWN: u64 = 1;
/// It is not over at the newest event.
const STILL_OPEN: u64 = 2;
/// How it ended is not known: events are missing.
const END_UNKNOWN: u64 = 4;
/// The first bit of how a wait ended.
const ENDING: u32 = 3;

/// What is not known of a slice, and how it ended: as `page/track.js` has it.
pub(super) fn flags(scene: &Scene<'_>, slice: &Slice) -> u64 {
    let (first, last) = scene.window;
    let mut flags = 0;
    if slice.begins.is_none() && slice.from <= first && slice.state != State::Other {
        flags |= START_UNKNOWN;
    }
    if !slice.is_over {
        flags |= if slice.to >= last { STILL_OPEN } else { END_UNKNOWN };
    }
    let ending: u64 = match slice.woken.map(|woken| woken.ending) {
        None => 0,
        Some(Ending::Given) => 1,
        Some(Ending::Deleted) => 2,
        Some(Ending::Aborted) => 3,
        Some(Ending::TimedOut) => 4,
        Some(Ending::Unknown) => 5,
    };
    flags | ending << ENDING
}

/// The number of the track that has what a slice waits for, and one; 0 for none.
pub(super) fn owner(slice: &Slice) -> u64 {
    match slice.state {
        State::Blocked(Waiting { owner: Some(owner), .. }) => u64::from(owner.0).saturating_add(1),
        _ => 0,
    }
}

/// A state of slices. The class decides how it is drawn.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
struct StateRow {
    class: &'static str,
    name: String,
    /// What is written into it where it has no object.
    short: String,
}

/// An object that threads wait for.
#[derive(Debug, Serialize)]
struct ObjectRow {
    kind: &'static str,
    name: String,
    address: String,
}

/// States and objects by number.
#[derive(Debug, Default)]
pub(super) struct Names {
    states: Vec<StateRow>,
    known_states: HashMap<StateRow, u64>,
    objects: Vec<ObjectRow>,
    known_objects: HashMap<Addr, u64>,
}

impl Names {
    /// The number of the state of a slice.
    pub fn state(&mut self, rows: &mut Rows, view: &View<'_>, scene: &Scene<'_>, slice: &Slice) -> u64 {
        let row = state_row(rows, view, scene, slice);
        if let Some(known) = self.known_states.get(&row) {
            return *known;
        }
        // As many as the page has room for: a byte each. Damage may number interrupts as it likes.
        let at = u64::try_from(self.states.len()).unwrap_or(u64::MAX);
        let (row, at) = match at {
            0..=253 => (row, at),
            254 => (StateRow { class: row.class, name: "more states".to_owned(), short: String::new() }, at),
            _ => return 254,
        };
        self.states.push(row.clone());
        self.known_states.insert(row, at);
        at
    }

    /// The number of the object of a slice, and one; 0 for none.
    pub fn object(&mut self, rows: &mut Rows, view: &View<'_>, slice: &Slice) -> u64 {
        let State::Blocked(Waiting { object: Some(address), .. }) = slice.state else { return 0 };
        let next = u64::try_from(self.objects.len()).unwrap_or(u64::MAX).saturating_add(1);
        *self.known_objects.entry(address).or_insert_with(|| {
            self.objects.push(ObjectRow {
                kind: kind_of(view, address),
                name: escape(&rows.named(view, address)),
                address: format!("{address:#x}"),
            });
            next
        })
    }
}

fn kind_of(view: &View<'_>, address: Addr) -> &'static str {
    view.trace.objects.at(address).and_then(|object| object.type_name).unwrap_or_default()
}

fn state_row(rows: &mut Rows, view: &View<'_>, scene: &Scene<'_>, slice: &Slice) -> StateRow {
    let on = |what: &str, core: u16| {
        if view.trace.about.cores > 1 { format!("{what} on core {core}") } else { what.to_owned() }
    };
    let row = |class, name: String, short: &str| StateRow { class, name, short: short.to_owned() };
    match slice.state {
        State::Running(core) => row("run", on("running", core), ""),
        State::Interrupted(core) => row("ready", on("interrupted", core), ""),
        State::Ready => row("ready", "ready, not running".to_owned(), ""),
        State::Blocked(waiting) => {
            let word = waiting_word(view, &waiting).map(escape);
            match (waiting.object, word) {
                (Some(_), _) if waiting.owner.is_some() => row("blocked", "waits for".to_owned(), ""),
                (Some(_), _) => row("wait", "waits for".to_owned(), ""),
                (None, Some(word)) => row("sleep", word.clone(), &word),
                (None, None) => row("sleep", "waits, not known for what".to_owned(), ""),
            }
        }
        State::Interrupt(number) => {
            let name = number.and_then(|n| u32::try_from(n).ok()).and_then(|n| rows.exception(view, n).cloned());
            let name = name.map_or_else(
                || number.map_or_else(|| "interrupt".to_owned(), |n| format!("interrupt {n}")),
                |name| escape(&name),
            );
            row("isr", name.clone(), &name)
        }
        State::Other => match scene.track(slice.track).map(|track| track.kind) {
            Some(TrackKind::Idle) => row("idle", "idle".to_owned(), ""),
            Some(TrackKind::Init) => row("other", "initialization".to_owned(), "initialization"),
            _ => row("other", "not known who runs".to_owned(), ""),
        },
    }
}

/// The system's word for what a thread waits for.
fn waiting_word<'v>(view: &View<'v>, waiting: &Waiting) -> Option<&'v str> {
    let (def, code) = waiting.state;
    let def = view.catalogue.def(def?)?;
    let mut states = def.fields.iter().flatten().filter(|field| field.kind == ArgKind::State);
    states.find_map(|field| field.words.as_ref()?.word(code?))
}

#[derive(Serialize)]
struct TrackRow {
    kind: &'static str,
    name: String,
    address: Option<String>,
    priority: Option<u16>,
    hidden: bool,
}

#[derive(Serialize)]
struct GapRow {
    at: u64,
    kind: &'static str,
    text: String,
}

#[derive(Serialize)]
struct MarkRow {
    from: i64,
    to: i64,
    track: Option<u32>,
    text: String,
    finding: Option<usize>,
    sure: bool,
}

#[derive(Serialize)]
struct FindingRow {
    code: &'static str,
    claim: String,
    confidence: &'static str,
    detractors: Vec<String>,
    evidence: Vec<EvidenceRow>,
    explains: Vec<String>,
    next: String,
    tracks: Vec<u32>,
    /// Those of them that it blames.
    blamed: Vec<u32>,
}

#[derive(Serialize)]
struct EvidenceRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    text: String,
}

#[derive(Serialize)]
struct IssueRow {
    severity: &'static str,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
}

#[derive(Serialize)]
struct All<'a> {
    title: String,
    hz: Option<f64>,
    first: String,
    events: u64,
    wide: bool,
    cores: u16,
    facts: Vec<(String, String)>,
    issues: Vec<IssueRow>,
    tracks: Vec<TrackRow>,
    states: &'a [StateRow],
    kinds: &'a [[u64; 4]],
    defs: &'a [Schema],
    objects: &'a [ObjectRow],
    gaps: Vec<GapRow>,
    marks: Vec<MarkRow>,
    headline: Option<String>,
    findings: Option<Vec<FindingRow>>,
    not_checked: Vec<String>,
    reports: &'a [Document],
}

/// All that the JSON text is made of.
pub(super) struct Head<'p> {
    pub scene: &'p Scene<'p>,
    pub view: &'p View<'p>,
    pub names: &'p Names,
    pub fields: &'p Fields,
    pub gaps: &'p [(u64, Gap)],
    pub page: &'p Page<'p>,
    pub block: &'p Block,
}

impl Head<'_> {
    /// The JSON text.
    pub fn json(&self, rows: &mut Rows) -> io::Result<String> {
        let Self { scene, page, .. } = self;
        let all = All {
            title: escape(&page.title),
            hz: scene.hz(),
            first: self.block.base().to_string(),
            events: self.block.next_index(),
            wide: self.block.is_wide(),
            cores: scene.trace.about.cores,
            facts: page.facts.iter().map(|(name, value)| (escape(name), escape(value))).collect(),
            issues: by_weight(&scene.trace.issues).into_iter().map(issue).collect(),
            tracks: self.tracks(rows),
            states: &self.names.states,
            kinds: self.block.kinds(),
            defs: self.fields.schemas(),
            objects: &self.names.objects,
            gaps: self.gaps.iter().map(|(at, gap)| self.gap(*at, gap)).collect(),
            marks: scene.marks.iter().map(|mark| self.mark(rows, mark)).collect(),
            headline: page.headline.as_deref().map(escape),
            findings: page.findings.map(|all| all.iter().map(|finding| self.finding(finding)).collect()),
            not_checked: page.not_checked.iter().map(|what| escape(what)).collect(),
            reports: &page.documents,
        };
        Ok(serde_json::to_string(&all)?)
    }

    fn tracks(&self, rows: &mut Rows) -> Vec<TrackRow> {
        let mut all: Vec<TrackRow> = self.scene.tracks.iter().map(|track| self.track(rows, track)).collect();
        all.extend(self.scene.counters.iter().map(|counter| self.counter(rows, counter)));
        all
    }

    fn track(&self, rows: &mut Rows, track: &Track) -> TrackRow {
        let core = |what: &str| {
            if self.view.trace.about.cores > 1 { format!("{what}, core {}", track.core) } else { what.to_owned() }
        };
        let (kind, name) = match track.kind {
            TrackKind::Interrupts => ("isr", core("Interrupts")),
            TrackKind::Thread => ("thread", self.thread_name(rows, track)),
            TrackKind::Idle => ("idle", core("Idle")),
            TrackKind::Init => ("init", core("Initialization")),
            TrackKind::Unknown => ("unknown", core("Not known who ran")),
        };
        let address = (track.kind == TrackKind::Thread).then(|| format!("{:#x}", track.address));
        TrackRow { kind, name, address, priority: track.priority, hidden: false }
    }

    /// The name of a thread. Escaped.
    fn thread_name(&self, rows: &mut Rows, track: &Track) -> String {
        match track.name.as_deref().filter(|name| !name.is_empty()) {
            Some(name) => escape(name),
            None => escape(&rows.named(self.view, track.address)),
        }
    }

    fn counter(&self, rows: &mut Rows, counter: &Counter) -> TrackRow {
        let name = rows.named(self.view, counter.address);
        let (name, hidden) = match counter.measure {
            Measure::Filled => (name, false),
            Measure::Free => (format!("{name}: free"), false),
            Measure::Stack => (format!("{name}: stack"), true),
        };
        let kind = kind_of(self.view, counter.address);
        let name = if kind.is_empty() || hidden { name } else { format!("{kind} {name}") };
        let address = Some(format!("{:#x}", counter.address));
        TrackRow { kind: "counter", name: escape(&name), address, priority: None, hidden }
    }

    fn gap(&self, at: u64, gap: &Gap) -> GapRow {
        let (kind, what) = match gap.doubt {
            Doubt::Lost => ("lost", "events are missing"),
            Doubt::Clock => ("clock", "the clock goes back, or is not believed,"),
        };
        GapRow { at, kind, text: format!("{what} before event {}", gap.seq) }
    }

    fn name_of(&self, rows: &mut Rows, track: Option<TrackId>) -> String {
        match track.and_then(|track| self.scene.track(track)) {
            Some(track) => self.track(rows, track).name,
            None => "a thread that is not known".to_owned(),
        }
    }

    fn mark(&self, rows: &mut Rows, mark: &Mark) -> MarkRow {
        let text = match &mark.what {
            Pointed::Inversion { lock, owner, culprit } => {
                let (waiter, owner) = (self.name_of(rows, mark.track), self.name_of(rows, *owner));
                let lock = escape(&rows.named(self.view, *lock));
                let culprit = culprit.map(|c| format!(", while {} runs", self.name_of(rows, Some(c))));
                format!("priority inversion: {waiter} waits for {lock}, which {owner} owns{}", culprit.unwrap_or_default())
            }
            Pointed::Circle(all) => {
                let mut one = |(track, lock): &(TrackId, Addr)| {
                    let lock = escape(&rows.named(self.view, *lock));
                    format!("{} waits for {lock}", self.name_of(rows, Some(*track)))
                };
                format!("threads wait for each other: {}", all.iter().map(&mut one).collect::<Vec<_>>().join(", "))
            }
            Pointed::Finding(code, claim) => format!("{code}: {}", escape(claim)),
        };
        let finding = self.finding_of(mark);
        let is_sure = |at: usize| {
            self.page.findings.and_then(|all| all.get(at)).is_some_and(|f| f.confidence == Confidence::Proven)
        };
        let (from, to) = (mark.from.wrapping_sub(self.block.base()), mark.to.wrapping_sub(self.block.base()));
        let sure = !matches!(mark.what, Pointed::Finding(..)) || finding.is_some_and(is_sure);
        MarkRow { from, to, track: mark.track.map(|track| track.0), text, finding, sure }
    }

    /// The finding that a mark is of.
    fn finding_of(&self, mark: &Mark) -> Option<usize> {
        let Pointed::Finding(code, claim) = &mark.what else { return None };
        self.page.findings?.iter().position(|finding| finding.code.name() == *code && finding.claim == *claim)
    }

    fn finding(&self, finding: &Finding) -> FindingRow {
        let escaped = |all: &[String]| all.iter().map(|text| escape(text)).collect();
        let tracks: Vec<u32> = finding.threads.iter().filter_map(|thread| self.thread(*thread)).collect();
        let blamed = self.blamed(&tracks);
        FindingRow {
            code: finding.code.name(),
            claim: escape(&finding.claim),
            confidence: finding.confidence.name(),
            detractors: escaped(&finding.detractors),
            evidence: finding.evidence.iter().map(evidence).collect(),
            explains: escaped(&finding.explains),
            next: escape(&finding.next),
            blamed,
            tracks,
        }
    }

    fn thread(&self, address: Addr) -> Option<u32> {
        let is_it = |track: &Track| track.kind == TrackKind::Thread && track.address == address;
        self.scene.tracks.iter().position(is_it).and_then(|at| u32::try_from(at).ok())
    }

    /// Of the threads of a finding those that do not only wait: in an inversion the owner of the lock and who keeps it from
    /// running.
    fn blamed(&self, tracks: &[u32]) -> Vec<u32> {
        let mut guilty: Vec<u32> = Vec::new();
        for mark in self.scene.marks {
            let Pointed::Inversion { owner: Some(owner), culprit, .. } = &mark.what else { continue };
            if tracks.contains(&owner.0) && mark.track.is_some_and(|waiter| tracks.contains(&waiter.0)) {
                guilty.push(owner.0);
                guilty.extend(culprit.map(|track| track.0));
            }
        }
        guilty.sort_unstable();
        guilty.dedup();
        if guilty.is_empty() { tracks.to_vec() } else { guilty }
    }
}

fn evidence(evidence: &Evidence) -> EvidenceRow {
    let address = evidence.address.map(|address| format!("{address:#x}"));
    EvidenceRow { seq: evidence.seq, address, text: escape(&evidence.text) }
}

fn issue(issue: &crate::trace::Issue) -> IssueRow {
    IssueRow { severity: issue.severity.name(), text: escape(&issue_text(issue)), seq: issue.place.seq }
}
