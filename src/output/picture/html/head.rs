//! What a page says about the trace: its tracks, states, objects, marks, findings and reports, as one JSON text.

use std::collections::HashMap;
use std::io;

use serde::Serialize;

use super::block::Block;
use super::fields::{Fields, Schema};
use super::{Document, Page};
use crate::abi::Addr;
use crate::explain::{Code, Confidence, Evidence, Finding};
use crate::output::picture::words::Words;
use crate::output::{by_weight, escape, issue_text};
use crate::timeline::{
    Counter, Doubt, Ending, Gap, Mark, Measure, Pointed, Scene, Slice, State, Track, TrackKind, Waiting,
};

/// The most states: the page has a byte for each. Damage may number interrupts as it likes.
const MOST_STATES: u64 = 254;

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
    pub fn state(&mut self, words: &Words<'_>, scene: &Scene<'_>, slice: &Slice) -> u64 {
        let row = state_row(words, scene, slice);
        if let Some(known) = self.known_states.get(&row) {
            return *known;
        }
        let at = self.states.len() as u64;
        let row = match at {
            0..MOST_STATES => row,
            MOST_STATES => StateRow { class: row.class, name: "more states".to_owned(), short: String::new() },
            _ => return MOST_STATES,
        };
        self.states.push(row.clone());
        self.known_states.insert(row, at);
        at
    }

    /// The number of the object of a slice, and one; 0 for none.
    pub fn object(&mut self, words: &Words<'_>, slice: &Slice) -> u64 {
        let State::Blocked(Waiting { object: Some(address), .. }) = slice.state else { return 0 };
        let next = (self.objects.len() as u64).saturating_add(1);
        *self.known_objects.entry(address).or_insert_with(|| {
            self.objects.push(ObjectRow {
                kind: words.object_type(address).unwrap_or_default(),
                name: words.object(address),
                address: format!("{address:#x}"),
            });
            next
        })
    }
}

fn state_row(words: &Words<'_>, scene: &Scene<'_>, slice: &Slice) -> StateRow {
    let on = |what: &str, core: u16| {
        if scene.trace.about.cores > 1 { format!("{what} on core {core}") } else { what.to_owned() }
    };
    let row = |class, name: String, short: &str| StateRow { class, name, short: short.to_owned() };
    match slice.state {
        State::Running(core) => row("run", on("running", core), ""),
        State::Interrupted(core) => row("ready", on("interrupted", core), ""),
        State::Ready => row("ready", "ready, not running".to_owned(), ""),
        State::Blocked(Waiting { object: Some(_), owner: Some(_), .. }) => row("blocked", "waits for".to_owned(), ""),
        State::Blocked(Waiting { object: Some(_), .. }) => row("wait", "waits for".to_owned(), ""),
        State::Blocked(waiting) => match words.state(&waiting) {
            Some(word) => row("sleep", word.clone(), &word),
            None => row("sleep", "waits, not known for what".to_owned(), ""),
        },
        State::Interrupt(_) => {
            let name = words.slice(scene, slice);
            row("isr", name.clone(), &name)
        }
        State::Other if Words::kind(scene, slice) == "idle" => row("idle", "idle".to_owned(), ""),
        State::Other => row("other", words.slice(scene, slice), ""),
    }
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
    more_gaps: u64,
    marks: Vec<MarkRow>,
    headline: Option<String>,
    findings: Option<Vec<FindingRow>>,
    not_checked: Vec<String>,
    reports: &'a [Document],
}

/// All that the JSON text is made of.
pub(super) struct Head<'p> {
    pub scene: &'p Scene<'p>,
    pub words: &'p Words<'p>,
    pub names: &'p Names,
    pub fields: &'p Fields,
    pub gaps: &'p [(u64, Gap)],
    pub more_gaps: u64,
    pub page: &'p Page<'p>,
    pub block: &'p Block,
}

impl Head<'_> {
    /// The JSON text.
    pub(super) fn json(&self) -> io::Result<String> {
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
            tracks: self.tracks(),
            states: &self.names.states,
            kinds: self.block.kinds(),
            defs: self.fields.schemas(),
            objects: &self.names.objects,
            gaps: self.gaps.iter().map(|(at, gap)| Self::gap(*at, gap)).collect(),
            more_gaps: self.more_gaps,
            marks: scene.marks.iter().map(|mark| self.mark(mark)).collect(),
            headline: page.headline.as_deref().map(escape),
            findings: page.findings.map(|all| all.iter().map(|finding| self.finding(finding)).collect()),
            not_checked: page.not_checked.iter().map(|what| escape(what)).collect(),
            reports: &page.documents,
        };
        Ok(serde_json::to_string(&all)?)
    }

    fn tracks(&self) -> Vec<TrackRow> {
        let mut all: Vec<TrackRow> = self.scene.tracks.iter().map(|track| self.track(track)).collect();
        all.extend(self.scene.counters.iter().map(|counter| self.counter(counter)));
        all
    }

    fn track(&self, track: &Track) -> TrackRow {
        let kind = match track.kind {
            TrackKind::Interrupts => "isr",
            TrackKind::Thread => "thread",
            TrackKind::Idle => "idle",
            TrackKind::Init => "init",
            TrackKind::Unknown => "unknown",
        };
        let address = (track.kind == TrackKind::Thread).then(|| format!("{:#x}", track.address));
        let name = self.words.track(self.scene, track);
        TrackRow { kind, name, address, priority: track.priority, hidden: false }
    }

    fn counter(&self, counter: &Counter) -> TrackRow {
        let name = self.words.counter(self.scene, counter);
        let address = Some(format!("{:#x}", counter.address));
        TrackRow { kind: "counter", name, address, priority: None, hidden: counter.measure == Measure::Stack }
    }

    fn gap(at: u64, gap: &Gap) -> GapRow {
        let kind = match gap.doubt {
            Doubt::Lost => "lost",
            Doubt::Clock => "clock",
        };
        GapRow { at, kind, text: format!("{}: before event {}", Words::gap(gap), gap.seq) }
    }

    fn mark(&self, mark: &Mark) -> MarkRow {
        let text = self.words.mark(self.scene, mark);
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
        let blamed = self.blamed(finding.code, &tracks);
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
    fn blamed(&self, code: Code, tracks: &[u32]) -> Vec<u32> {
        let mut causes: Vec<u32> = Vec::new();
        let is_inversion = code == Code::PriorityInversion;
        for mark in self.scene.marks.iter().filter(|_| is_inversion) {
            let Pointed::Inversion { owner: Some(owner), culprit, .. } = &mark.what else { continue };
            if tracks.contains(&owner.0) && mark.track.is_some_and(|waiter| tracks.contains(&waiter.0)) {
                causes.push(owner.0);
                causes.extend(culprit.map(|track| track.0));
            }
        }
        causes.sort_unstable();
        causes.dedup();
        if causes.is_empty() { tracks.to_vec() } else { causes }
    }
}

fn evidence(evidence: &Evidence) -> EvidenceRow {
    let address = evidence.address.map(|address| format!("{address:#x}"));
    EvidenceRow { seq: evidence.seq, address, text: escape(&evidence.text) }
}

fn issue(issue: &crate::trace::Issue) -> IssueRow {
    IssueRow { severity: issue.severity.name(), text: escape(&issue_text(issue)), seq: issue.place.seq }
}
