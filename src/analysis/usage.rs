//! `objects --use`: how queues, locks, semaphores, groups of flags and pools were used, and how full they were, as far
//! as the trace shows.

use std::rc::Rc;

use super::addresses::ByAddress;
use super::{Change, State, Tracker, Visitor, Whole};
use crate::abi::{Addr, Width};
use crate::catalogue::{ArgKind, Catalogue, Effect, EventDef, threadx_object};
use crate::report::{Cell, Column, Kind, Report};
use crate::trace::{ContextKind, Event, Object, Trace};

/// The most objects that are followed: a damaged trace may name any number.
const MOST: usize = 1 << 16;

/// What a number in an event says of how full the object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// So much is in it.
    Filled,
    /// So much is left in it.
    Free,
    /// So much it can hold.
    Holds,
}

impl Level {
    /// Fields are called alike in all systems that have them.
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "enqueued" | "current_count" | "initial_count" | "count" => Self::Filled,
            "remaining_blocks" | "available_packets" | "available_bytes" => Self::Free,
            "total_blocks" | "pool_size" | "ceiling" => Self::Holds,
            _ => return None,
        })
    }
}

/// What an event does to which object.
#[derive(Debug, Clone, Default)]
struct Act {
    /// Word with the object.
    object: usize,
    /// True where the word is the object's address, not a number that counts within a process.
    is_object: bool,
    puts: bool,
    gets: bool,
    /// True where it asks for a lock, or gives one back.
    is_lock: bool,
    /// What other words say of the object.
    levels: Vec<(usize, Level)>,
    /// Words with the size of a queue and of its messages.
    queue: Option<(usize, usize)>,
    /// What the object is called in the event: `queue`.
    label: String,
}

impl Act {
    fn of(def: &EventDef) -> Option<Self> {
        let word = |e| def.effects.word(e).filter(|_| def.effects.has(e));
        let puts = word(Effect::Put).or_else(|| word(Effect::Release));
        let gets = word(Effect::Get).or_else(|| word(Effect::Acquire));
        let field = |name: &str| def.fields.iter().position(|f| f.as_ref().is_some_and(|f| f.name == name));
        let mut levels: Vec<(usize, Level)> =
            def.fields.iter().enumerate().filter_map(|(i, f)| Some((i, Level::of(&f.as_ref()?.name)?))).collect();
        let queue = field("queue_size").zip(field("message_size"));
        let made = word(Effect::Create).filter(|_| !levels.is_empty() || queue.is_some());
        let object = puts.or(gets).or(made)?;
        let field = def.field(object)?;
        let is_object = field.kind == ArgKind::Ptr;
        levels.retain(|_| is_object);
        Some(Self {
            object,
            is_object,
            puts: puts.is_some(),
            gets: puts.is_none() && gets.is_some(),
            is_lock: word(Effect::Acquire).or_else(|| word(Effect::Release)).is_some(),
            levels,
            queue,
            label: field.label.clone(),
        })
    }
}

/// How one object was used.
#[derive(Debug, Clone, Default)]
struct One {
    address: Addr,
    label: String,
    puts: u64,
    gets: u64,
    /// Threads that called, by the number of their context.
    threads: Vec<u32>,
    waits: u64,
    waited: i64,
    waiting: u64,
    contended: u64,
    /// True where locks are told apart from what else can be waited for.
    is_lock: bool,
    filled: Option<u64>,
    free: Option<u64>,
    holds: Option<u64>,
}

/// Looks at what is done to objects.
#[derive(Debug)]
pub struct Use {
    acts: Vec<Option<Rc<Act>>>,
    by_address: ByAddress<usize>,
    all: Vec<One>,
    word: u64,
    /// Waits that are not over, by thread: object and event.
    open: Vec<Option<(usize, u64)>>,
    /// Calls on what has no address.
    unnamed: u64,
    /// Calls on objects beyond those that are followed.
    beyond: u64,
}

const fn bytes(width: Width) -> u64 {
    match width {
        Width::W4 => 4,
        Width::W8 => 8,
    }
}

impl Use {
    /// Looks at every definition once.
    #[must_use]
    pub fn new(trace: &Trace, catalogue: &Catalogue) -> Self {
        Self {
            acts: catalogue.iter().map(|def| Act::of(def).map(Rc::new)).collect(),
            by_address: ByAddress::default(),
            all: Vec::new(),
            word: bytes(trace.about.word),
            open: Vec::new(),
            unnamed: 0,
            beyond: 0,
        }
    }

    fn act(&self, def: crate::trace::DefId) -> Option<&Rc<Act>> {
        self.acts.get(usize::try_from(def.0).ok()?)?.as_ref()
    }

    /// The object at an address; it is added where it is new.
    fn at(&mut self, address: Addr, label: &str) -> Option<usize> {
        if let Some(index) = self.by_address.get(&address) {
            return Some(*index);
        }
        if self.all.len() >= MOST {
            self.beyond = self.beyond.saturating_add(1);
            return None;
        }
        let index = self.all.len();
        self.all.push(One { address, label: label.to_owned(), ..One::default() });
        self.by_address.insert(address, index);
        Some(index)
    }

    fn blocked(&mut self, thread: usize, object: usize, seq: u64) {
        if let Some(one) = self.all.get_mut(object) {
            one.waits = one.waits.saturating_add(1);
        }
        if thread >= self.open.len() {
            self.open.resize(thread.saturating_add(1), None);
        }
        if let Some(place) = self.open.get_mut(thread) {
            *place = Some((object, seq));
        }
    }

    /// The object that a call can wait for.
    fn waited_for(&self, call: &super::Call) -> Option<usize> {
        self.act(call.def).filter(|a| (a.puts || a.gets) && a.is_object)?;
        self.by_address.get(&call.object?).copied()
    }
}

impl One {
    fn called(&mut self, event: &Event, act: &Act, words: &[u64], word: u64, is_thread: bool) {
        self.puts = self.puts.saturating_add(u64::from(act.puts));
        self.gets = self.gets.saturating_add(u64::from(act.gets));
        if is_thread
            && (act.puts || act.gets)
            && let Err(place) = self.threads.binary_search(&event.context.0)
        {
            self.threads.insert(place, event.context.0);
        }
        // A word that the kernel fills in later may not have been.
        let sure = |at: usize| {
            let doubtful = u32::try_from(at).ok().and_then(|w| 1u8.checked_shl(w)).unwrap_or(0) & event.doubtful != 0;
            words.get(at).copied().filter(|_| !doubtful)
        };
        for (at, level) in &act.levels {
            let Some(n) = sure(*at) else { continue };
            match level {
                Level::Filled => self.filled = self.filled.max(Some(n)),
                Level::Free => self.free = Some(self.free.map_or(n, |free| free.min(n))),
                Level::Holds => self.holds = Some(n),
            }
        }
        if let Some((size, message)) = act.queue.and_then(|(s, m)| sure(s).zip(sure(m))) {
            self.holds = message.checked_mul(word).and_then(|m| size.checked_div(m)).or(self.holds);
        }
    }

    /// What it can hold, as events or the registry tell.
    fn capacity(&self, object: Option<&Object>, word: u64, pointer: u64) -> Option<u64> {
        if self.holds.is_some() {
            return self.holds;
        }
        let object = object?;
        let all = threadx_object(object.type_code)?.parameters([object.param1, object.param2], word);
        let of = |name: &str| all.iter().find(|(n, ..)| *n == name).map(|(_, value, _)| *value);
        match (of("size"), of("message"), of("block")) {
            (Some(size), Some(message), _) => size.checked_div(message.checked_mul(word)?),
            // Each block has a pointer before it, and is a whole number of words.
            (Some(size), _, Some(block)) => {
                size.checked_div(block.checked_next_multiple_of(word)?.checked_add(pointer)?)
            }
            (size, ..) => {
                of("capacity").or_else(|| of("packets")).or(size.filter(|_| object.type_name == Some("byte_pool")))
            }
        }
    }
}

impl Visitor for Use {
    fn change(&mut self, event: &Event, change: &Change, _: &Tracker<'_>) {
        match *change {
            Change::Blocked { thread, call: Some(call), .. } => {
                if let Some(object) = self.waited_for(&call) {
                    self.blocked(thread.index(), object, event.seq);
                }
            }
            Change::Readied { thread, waited, .. } => {
                let open = self.open.get_mut(thread.index()).and_then(Option::take);
                if let (Some((object, seq)), Some(wait)) = (open, waited)
                    && wait.seq == seq
                    && let Some(one) = self.all.get_mut(object)
                {
                    one.waited = one.waited.saturating_add(event.ticks.saturating_sub(wait.from).max(0));
                }
            }
            Change::Contended { lock, .. } => {
                // The event of the call itself comes after what it changes.
                if event.def.and_then(|d| self.act(d)).is_some_and(|a| a.is_object)
                    && let Some(one) = self.at(lock, "").and_then(|i| self.all.get_mut(i))
                {
                    one.contended = one.contended.saturating_add(1);
                }
            }
            _ => {}
        }
    }

    fn event(&mut self, event: &Event, tracker: &Tracker<'_>) {
        let Some(act) = event.def.and_then(|d| self.act(d)) else { return };
        if !act.is_object {
            self.unnamed = self.unnamed.saturating_add(1);
            return;
        }
        let (act, word) = (Rc::clone(act), self.word);
        let words = tracker.trace.words(event);
        let Some(address) = words.get(act.object).copied().filter(|a| *a != 0) else { return };
        let is_thread = tracker.trace.contexts.get(event.context).is_some_and(|c| c.kind == ContextKind::Thread);
        let Some(one) = self.at(address, &act.label).and_then(|i| self.all.get_mut(i)) else { return };
        if one.label.is_empty() {
            one.label.clone_from(&act.label);
        }
        one.is_lock |= act.is_lock;
        one.called(event, &act, words, word, is_thread);
    }

    fn finish(&mut self, whole: &Whole, tracker: &Tracker<'_>) -> Vec<Report> {
        let end = whole.span.map_or(0, |(_, end)| end);
        for (no, thread) in tracker.threads() {
            let Some(Some((object, seq))) = self.open.get(no.index()).copied() else { continue };
            if matches!(thread.state, State::Blocked(_))
                && thread.since_seq == Some(seq)
                && let Some(one) = self.all.get_mut(object)
            {
                one.waiting = one.waiting.saturating_add(1);
                one.waited = one.waited.saturating_add(end.saturating_sub(thread.since).max(0));
            }
        }
        vec![self.report(whole, tracker)]
    }
}

impl Use {
    fn report(&self, whole: &Whole, tracker: &Tracker<'_>) -> Report {
        let trace = tracker.trace;
        let about = &trace.about;
        let pointer = bytes(about.pointer.unwrap_or(about.word));
        let column = |name, kind| Column { name, kind };
        let mut rows = Vec::new();
        let (mut shown, mut hidden, mut waiting) = (false, false, false);
        for one in &self.all {
            // What was once a thread's address is no thread now.
            let object = trace.objects.at(one.address).filter(|o| !o.is_thread);
            let name = object.map(|o| o.name.clone()).filter(|n| !n.is_empty());
            let known = object.filter(|_| about.format == "threadx");
            let capacity = one.capacity(known, self.word, pointer);
            let most = match (one.filled, one.free) {
                (Some(n), _) => Some(n),
                (None, Some(free)) => capacity.and_then(|c| c.checked_sub(free)),
                (None, None) => None,
            };
            shown |= most.is_some();
            hidden |= most.is_none();
            waiting |= one.waiting > 0;
            let kind = object.and_then(|o| o.type_name).unwrap_or(&one.label);
            let count = |n: Option<u64>| n.map_or(Cell::Empty, Cell::Count);
            let row = vec![
                Cell::Named(one.address, name),
                Cell::Text(kind.to_owned()),
                Cell::Count(one.puts),
                Cell::Count(one.gets),
                Cell::Count(one.waits),
                Cell::Ticks(one.waited),
                Cell::Count(one.waiting),
                count(most),
                count(capacity),
                Cell::Count(u64::try_from(one.threads.len()).unwrap_or(u64::MAX)),
                count(one.is_lock.then_some(one.contended)),
            ];
            rows.push(((one.waited, one.puts.saturating_add(one.gets)), row));
        }
        rows.sort_by_key(|(key, _)| std::cmp::Reverse(*key));
        Report {
            name: "use",
            columns: vec![
                column("object", Kind::Object),
                column("object_type", Kind::Text),
                column("puts", Kind::Count),
                column("gets", Kind::Count),
                column("waits", Kind::Count),
                column("waited", Kind::Ticks),
                column("waiting", Kind::Count),
                column("most", Kind::Count),
                column("capacity", Kind::Count),
                column("threads", Kind::Count),
                column("contended", Kind::Count),
            ],
            rows: rows.into_iter().map(|(_, row)| row).collect(),
            notes: self.notes(whole, tracker, shown, hidden, waiting),
        }
    }

    fn notes(&self, whole: &Whole, tracker: &Tracker<'_>, shown: bool, hidden: bool, waiting: bool) -> Vec<String> {
        let mut notes = whole.notes();
        if self.all.is_empty() {
            notes.push("no event puts anything into an object, or asks one for anything".to_owned());
        } else {
            let unit = if tracker.trace.clock.hz.is_none() { ", in ticks of the trace's clock" } else { "" };
            notes.push(format!(
                "waited: how long threads were blocked in calls on it{unit}; threads: how many called it; contended: \
                 calls that found the lock taken"
            ));
        }
        if waiting {
            notes.push("waiting: threads that are blocked on it at the end (waited counts them up to then)".to_owned());
        }
        if shown {
            notes.push(
                "most: the fullest that an event shows, in messages, counts, or blocks, packets and bytes in use; events \
                 show what was there before the call, so it was at least as full"
                    .to_owned(),
            );
        }
        if hidden {
            notes.push("most is empty where no event shows it or the size is not known".to_owned());
        }
        if self.unnamed > 0 {
            notes.push(format!(
                "{} calls on what is known by a number or an address within a process are left out: the same number \
                 means another thing in another process",
                self.unnamed
            ));
        }
        if self.beyond > 0 {
            notes.push(format!("more than {MOST} objects: {} calls on others are left out", self.beyond));
        }
        notes
    }
}
