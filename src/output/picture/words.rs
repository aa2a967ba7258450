//! What tracks, slices, counters and marks of a timeline are called. All of it is escaped: names are hostile text.

use crate::abi::Addr;
use crate::catalogue::ArgKind;
use crate::output::View;
use crate::output::escape::escape;
use crate::output::row::Rows;
use crate::timeline::{
    Counter, Doubt, Ending, Gap, Mark, Measure, Pointed, Scene, Slice, State, Track, TrackId, TrackKind, Waiting,
};
use crate::trace::{DefId, Event};

/// A field of a slice or of an instant: its name, and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// A number.
    Number(i64),
    /// Text, escaped.
    Text(String),
}

/// Finds the words of one picture.
pub struct Words<'v> {
    view: View<'v>,
    rows: Rows,
}

impl<'v> Words<'v> {
    /// Nothing found yet.
    pub fn new(view: View<'v>) -> Self {
        Self { view, rows: Rows::new() }
    }

    /// What a track is called.
    pub(super) fn track(&self, scene: &Scene<'_>, track: &Track) -> String {
        let word = match track.kind {
            TrackKind::Thread => return self.thread(track),
            TrackKind::Interrupts => "interrupts",
            TrackKind::Idle => "idle",
            TrackKind::Init => "init",
            TrackKind::Unknown => "unknown",
        };
        if scene.trace.about.cores > 1 { format!("{word}, core {}", track.core) } else { word.to_owned() }
    }

    fn thread(&self, track: &Track) -> String {
        match track.name.as_deref().filter(|name| !name.is_empty()) {
            Some(name) => escape(name),
            None => self.address(track.address),
        }
    }

    /// What the track of this number is called.
    fn track_of(&self, scene: &Scene<'_>, id: TrackId) -> String {
        scene.track(id).map_or_else(|| "?".to_owned(), |track| self.track(scene, track))
    }

    fn address(&self, address: Addr) -> String {
        self.view.names.object(address).map_or_else(|| format!("{address:#x}"), |name| escape(&name))
    }

    /// The name of an object, else of the variable at its address, else the address.
    pub fn object(&self, address: Addr) -> String {
        let object = self.view.trace.objects.at(address).filter(|o| !o.is_thread && !o.name.is_empty());
        object.map_or_else(|| self.address(address), |object| escape(&object.name))
    }

    /// What the registry calls such an object: `mutex`.
    pub(super) fn object_type(&self, address: Addr) -> Option<&'static str> {
        self.view.trace.objects.at(address).filter(|o| !o.is_thread)?.type_name
    }

    /// The name of an event's definition.
    pub(super) fn def(&self, def: DefId) -> String {
        self.view.catalogue.def(def).map_or_else(|| "?".to_owned(), |def| escape(&def.name))
    }

    /// What an event is called.
    pub fn event(&self, event: &Event) -> String {
        escape(&Rows::event(&self.view, event))
    }

    /// The word for a thread's state: `sleep`, `queue_susp`.
    pub fn state(&self, waiting: &Waiting) -> Option<String> {
        let (def, code) = waiting.state;
        let def = self.view.catalogue.def(def?)?;
        let Some(code) = code else { return Some(escape(&def.name)) };
        let mut fields = def.fields.iter().flatten().filter(|field| field.kind == ArgKind::State);
        let word = fields.find_map(|field| field.words.as_deref()).and_then(|words| words.word(code));
        Some(word.map_or_else(|| format!("state {code}"), escape))
    }

    /// What a thread waits for, in words: `mutex bus_mutex of low_task`, `sleep`.
    pub(super) fn waiting(&self, scene: &Scene<'_>, waiting: &Waiting) -> String {
        let Some(object) = waiting.object else {
            return self.state(waiting).unwrap_or_else(|| "waits".to_owned());
        };
        let mut text = self.object_type(object).map_or_else(String::new, |kind| format!("{kind} "));
        text.push_str(&self.object(object));
        if let Some(owner) = waiting.owner {
            text.push_str(" of ");
            text.push_str(&self.track_of(scene, owner));
        }
        text
    }

    /// What an interrupt of this number is called.
    fn interrupt(&self, number: Option<u64>) -> String {
        let name = |n: u64| u32::try_from(n).ok().and_then(|n| self.view.names.exception(n));
        match number {
            Some(n) => name(n).map_or_else(|| format!("interrupt {n}"), |name| escape(&name)),
            None => "interrupt".to_owned(),
        }
    }

    /// What a slice is called.
    pub(super) fn slice(&self, scene: &Scene<'_>, slice: &Slice) -> String {
        match slice.state {
            State::Running(_) => "running".to_owned(),
            State::Interrupted(_) => "interrupted".to_owned(),
            State::Ready => "ready".to_owned(),
            State::Blocked(waiting) => format!("waits: {}", self.waiting(scene, &waiting)),
            State::Interrupt(number) => self.interrupt(number),
            State::Other => match scene.track(slice.track).map(|track| track.kind) {
                Some(TrackKind::Idle) => "idle".to_owned(),
                Some(TrackKind::Init) => "init".to_owned(),
                _ => "unknown".to_owned(),
            },
        }
    }

    /// The kind of a slice, for who counts them: `running`, `ready`, `interrupted`, `blocked`, `interrupt`, `idle`.
    pub(super) fn kind(scene: &Scene<'_>, slice: &Slice) -> &'static str {
        match slice.state {
            State::Running(_) => "running",
            State::Interrupted(_) => "interrupted",
            State::Ready => "ready",
            State::Blocked(_) => "blocked",
            State::Interrupt(_) => "interrupt",
            State::Other => match scene.track(slice.track).map(|track| track.kind) {
                Some(TrackKind::Idle) => "idle",
                Some(TrackKind::Init) => "init",
                _ => "unknown",
            },
        }
    }

    /// Shows each field of a slice. Numbers of events are those of `show`.
    pub(super) fn slice_fields(&self, scene: &Scene<'_>, slice: &Slice, mut each: impl FnMut(&str, Field)) {
        let seq = |seq: u64| Field::Number(i64::try_from(seq).unwrap_or(i64::MAX));
        each("state", Field::Text(Self::kind(scene, slice).to_owned()));
        if let Some(begins) = slice.begins {
            each("from_event", seq(begins));
        }
        match slice.state {
            State::Running(core) | State::Interrupted(core) if scene.trace.about.cores > 1 => {
                each("core", Field::Number(i64::from(core)));
            }
            State::Interrupt(Some(number)) => each("number", seq(number)),
            State::Blocked(waiting) => self.wait_fields(scene, &waiting, &mut each),
            _ => {}
        }
        if let Some(woken) = slice.woken {
            each("waited_ticks", Field::Number(woken.waited));
            if let Some(by) = woken.by {
                each("woken_by", Field::Text(self.track_of(scene, by)));
            }
            each("ended", Field::Text(ending(woken.ending).to_owned()));
        }
        if !slice.is_over {
            each("goes_on", Field::Text("yes".to_owned()));
        }
    }

    fn wait_fields(&self, scene: &Scene<'_>, waiting: &Waiting, each: &mut impl FnMut(&str, Field)) {
        let seq = |seq: u64| Field::Number(i64::try_from(seq).unwrap_or(i64::MAX));
        if let Some((def, at)) = waiting.call {
            each("call", Field::Text(self.def(def)));
            each("call_event", seq(at));
        }
        if let Some(object) = waiting.object {
            each("object", Field::Text(self.object(object)));
        }
        if let Some(owner) = waiting.owner {
            each("owner", Field::Text(self.track_of(scene, owner)));
        }
        if let Some(state) = self.state(waiting) {
            each("thread_state", Field::Text(state));
        }
    }

    /// Shows each field of an event: its number, its ticks, its arguments as a table shows them.
    pub(super) fn event_fields(&mut self, event: &Event, mut each: impl FnMut(&str, Field)) {
        each("seq", Field::Number(i64::try_from(event.seq).unwrap_or(i64::MAX)));
        each("ticks", Field::Number(event.ticks));
        self.rows.args(&self.view, event, |arg| {
            let mut text = escape(arg.text);
            if arg.doubtful {
                text.push('?');
            }
            each(&escape(arg.name), Field::Text(text));
        });
    }

    /// What a counter is called.
    pub(super) fn counter(&self, scene: &Scene<'_>, counter: &Counter) -> String {
        let of = match counter.measure {
            Measure::Stack => {
                let track = scene.tracks.iter().find(|t| t.kind == TrackKind::Thread && t.address == counter.address);
                return format!("stack of {}", track.map_or_else(|| self.address(counter.address), |t| self.thread(t)));
            }
            Measure::Filled => "in",
            Measure::Free => "free in",
        };
        let kind = self.object_type(counter.address).map_or_else(String::new, |kind| format!("{kind} "));
        let most = counter.capacity.map_or_else(String::new, |most| format!(" (of {most})"));
        format!("{of} {kind}{}{most}", self.object(counter.address))
    }

    /// What a mark says.
    pub(super) fn mark(&self, scene: &Scene<'_>, mark: &Mark) -> String {
        let track = |id: Option<TrackId>| id.map_or_else(|| "?".to_owned(), |id| self.track_of(scene, id));
        match &mark.what {
            Pointed::Inversion { lock, owner, culprit } => {
                let ran = culprit.map_or_else(String::new, |c| format!("; {} ran", self.track_of(scene, c)));
                let lock = self.object(*lock);
                format!("inversion: {} waits for {lock}, which {} has{ran}", track(mark.track), track(*owner))
            }
            Pointed::Circle(links) => {
                // Each waits for the next one, the last for the first.
                let next = links.iter().cycle().skip(1);
                let link = |((waiter, lock), (owner, _)): (&(TrackId, Addr), &(TrackId, Addr))| {
                    let [waiter, owner] = [*waiter, *owner].map(|id| self.track_of(scene, id));
                    format!("{waiter} waits for {} of {owner}", self.object(*lock))
                };
                let all: Vec<String> = links.iter().zip(next).map(link).collect();
                format!("deadlock: {}", all.join(", "))
            }
            Pointed::Finding(code, claim) => format!("{code}: {}", escape(claim)),
        }
    }

    /// What a gap is.
    pub(super) const fn gap(gap: &Gap) -> &'static str {
        match gap.doubt {
            Doubt::Lost => "events are missing",
            Doubt::Clock => "the clock goes back, or is not plausible",
        }
    }

    /// The trace's system, and where it was read from.
    pub(super) fn title(&self) -> String {
        format!("{} {}", self.view.trace.about.format, escape(self.view.source))
    }
}

/// How a wait ended, in a word.
const fn ending(ending: Ending) -> &'static str {
    match ending {
        Ending::Given => "given",
        Ending::Deleted => "deleted",
        Ending::Aborted => "aborted",
        Ending::TimedOut => "timeout",
        Ending::Unknown => "unknown",
    }
}
