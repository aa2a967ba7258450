//! `objects --use`: how queues, locks, semaphores, groups of flags and pools were used, and how full they were, as far
//! as the trace shows.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use super::scope::Scope;
use super::tracker::{self, Call, Change, Step, System, ThreadState};
use super::{Changes, Making, Needs, Of, many};
use crate::abi::Addr;
use crate::catalogue::{Catalogue, Level, ObjectUse, Role, capacity};
use crate::error::Error;
use crate::report::{Cell, Column, Kind, Report};
use crate::trace::{ContextKind, DefId, Event, Interner, Trace};

/// The most objects that are followed: a damaged trace may name any number.
const MAX_OBJECTS: usize = 1 << 16;

/// The columns of the report.
const COLUMNS: [Column; 11] = [
    Column::new("object", Kind::Object),
    Column::new("object_type", Kind::Word).titled("type"),
    Column::new("puts", Kind::Count),
    Column::new("gets", Kind::Count),
    Column::new("waits", Kind::Count),
    Column::new("waited", Kind::Ticks),
    Column::new("waiting", Kind::Count).titled("waiting now"),
    Column::new("most", Kind::Count).titled("fullest"),
    Column::new("capacity", Kind::Count),
    Column::new("threads", Kind::Count),
    Column::new("contended", Kind::Count),
];

/// How one object was used.
#[derive(Debug, Clone, Default)]
struct One {
    address: Addr,
    /// The definition of the first event that has a word for what this is.
    def: Option<DefId>,
    puts: u64,
    gets: u64,
    /// Threads that called, by the number of their context.
    threads: Vec<u32>,
    waits: u64,
    waited: i64,
    waiting: u64,
    contended: u64,
    /// True where locks are counted apart from what else can be waited for.
    is_lock: bool,
    filled: Option<u64>,
    free: Option<u64>,
    holds: Option<u64>,
}

/// Looks at what is done to objects.
#[derive(Debug)]
pub(super) struct Use {
    /// By definition.
    uses: Vec<Option<ObjectUse>>,
    /// Numbers of objects by address.
    numbers: Interner,
    /// By that number.
    all: Vec<One>,
    /// Bytes of a word.
    word: u64,
    /// Waits that are not over, by thread: object and event.
    open: Vec<Option<(usize, u64)>>,
    /// Calls on what has no address.
    unnamed: u64,
    /// Calls on objects beyond those that are followed.
    beyond: u64,
}

/// The object at an address; it is added where it is new and there is room.
fn place<'o>(numbers: &mut Interner, all: &'o mut Vec<One>, address: Addr) -> Option<&'o mut One> {
    if all.len() >= MAX_OBJECTS && numbers.find(address).is_none() {
        return None;
    }
    let at = usize::try_from(numbers.intern(address)).ok()?;
    if at >= all.len() {
        all.push(One { address, ..One::default() });
    }
    all.get_mut(at)
}

impl Use {
    /// Looks at every definition once.
    fn new(trace: &Trace, catalogue: &Catalogue) -> Self {
        Self {
            uses: catalogue.object_uses(),
            numbers: Interner::default(),
            all: Vec::new(),
            word: trace.about.word.size(),
            open: Vec::new(),
            unnamed: 0,
            beyond: 0,
        }
    }

    fn of(&self, def: DefId) -> Option<&ObjectUse> {
        self.uses.get(def.index())?.as_ref()
    }

    fn blocked(&mut self, thread: usize, object: usize, seq: u64) {
        if let Some(one) = self.all.get_mut(object) {
            one.waits += 1;
        }
        if let Some(open) = tracker::place(&mut self.open, thread) {
            *open = Some((object, seq));
        }
    }

    /// The object that a call can wait for.
    fn waited_for(&self, call: &Call, system: &System<'_>) -> Option<usize> {
        self.of(call.def).filter(|u| (u.puts || u.gets) && u.is_object)?;
        usize::try_from(self.numbers.find(system.address(call.object?))?).ok()
    }
}

impl One {
    fn called(&mut self, event: &Event, act: &ObjectUse, words: &[u64], word: u64, is_thread: bool) {
        self.puts += u64::from(act.puts);
        self.gets += u64::from(act.gets);
        if !act.label.is_empty() {
            self.def = self.def.or(event.def);
        }
        self.is_lock |= act.is_lock;
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
}

impl Use {
    fn change(&mut self, event: &Event, change: &Change, scope: &Scope<'_>, system: &System<'_>) {
        match *change {
            Change::Blocked { thread, call: Some(call), .. }
                if scope.inside && scope.keeps_wait(thread, Some(call), system) =>
            {
                if let Some(object) = self.waited_for(&call, system) {
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
            Change::Contended { lock }
                if scope.keeps && event.def.and_then(|d| self.of(d)).is_some_and(|u| u.is_object) =>
            {
                // The event of the call itself comes after what it changes.
                match place(&mut self.numbers, &mut self.all, system.address(lock)) {
                    Some(one) => one.contended += 1,
                    None => self.beyond += 1,
                }
            }
            _ => {}
        }
    }
}

impl Making for Use {
    /// It counts calls, and how long they waited: a wait ends with an event that filters may not keep.
    const NEEDS: Needs = Needs { spans: false, changes: Changes::UpToEnd, calls: true };

    fn make(of: &Of<'_>) -> Result<Self, Error> {
        Ok(Use::new(of.trace, of.catalogue))
    }

    fn changes(&mut self, step: &Step<'_>, scope: &Scope<'_>, system: &System<'_>) {
        step.changes.iter().for_each(|change| self.change(step.event, change, scope, system));
    }

    fn looks_at(&self, def: Option<DefId>, _: Option<&Role>) -> bool {
        def.is_some_and(|def| self.of(def).is_some())
    }

    fn event(&mut self, event: &Event, system: &System<'_>) {
        let Some(def) = event.def.map(DefId::index) else { return };
        let Some(Some(act)) = self.uses.get(def) else { return };
        if !act.is_object {
            self.unnamed += 1;
            return;
        }
        let words = system.trace.words(event);
        let Some(address) = words.get(act.object).copied().filter(|a| *a != 0) else { return };
        let is_thread = system.trace.contexts.get(event.context).is_some_and(|c| c.kind == ContextKind::Thread);
        match place(&mut self.numbers, &mut self.all, address) {
            Some(one) => one.called(event, act, words, self.word, is_thread),
            None => self.beyond += 1,
        }
    }

    fn finish(mut self, scope: &Scope<'_>, system: &System<'_>) -> Vec<Report> {
        for (no, thread) in system.threads() {
            let Some(Some((object, seq))) = self.open.get(no.index()).copied() else { continue };
            if matches!(thread.state, ThreadState::Blocked(_))
                && thread.since_seq() == Some(seq)
                && let Some(one) = self.all.get_mut(object)
            {
                one.waiting += 1;
                one.waited = one.waited.saturating_add(scope.end().saturating_sub(thread.since).max(0));
            }
        }
        vec![self.report(scope, system)]
    }
}

impl Use {
    fn report(&mut self, scope: &Scope<'_>, system: &System<'_>) -> Report {
        let trace = system.trace;
        let about = &trace.about;
        let pointer = about.pointer.unwrap_or(about.word).size();
        let mut all = std::mem::take(&mut self.all);
        all.sort_by_key(|one| std::cmp::Reverse((one.waited, one.puts.saturating_add(one.gets))));
        let mut report = Report {
            nothing: "no event puts anything into an object, or asks one for anything".to_owned(),
            notes: self.notes(scope),
            ..Report::new("use", "Use of objects", COLUMNS)
        };
        let cells = |one: &One| {
            // What was once a thread's address is no thread now.
            let object = trace.objects.at(one.address).filter(|o| !o.is_thread);
            let name = object.map(|o| o.name.clone()).filter(|n| !n.is_empty());
            let capacity = one.holds.or_else(|| capacity(object?, self.word, pointer));
            let most = match (one.filled, one.free) {
                (Some(n), _) => Some(n),
                (None, Some(free)) => capacity.and_then(|c| c.checked_sub(free)),
                (None, None) => None,
            };
            let label = || one.def.and_then(|def| self.of(def)).map_or("", |used| &used.label);
            let kind = object.and_then(|o| o.type_name).unwrap_or_else(label);
            let count = |n: Option<u64>| n.map_or(Cell::Empty, Cell::Count);
            vec![
                Cell::named(one.address, name),
                if kind.is_empty() { Cell::Empty } else { Cell::Text(kind.to_owned()) },
                Cell::Count(one.puts),
                Cell::Count(one.gets),
                Cell::Count(one.waits),
                Cell::Ticks(one.waited),
                Cell::Count(one.waiting),
                count(most),
                count(capacity),
                Cell::Count(u64::try_from(one.threads.len()).unwrap_or(u64::MAX)),
                count(one.is_lock.then_some(one.contended)),
            ]
        };
        all.iter().for_each(|one| scope.push(&mut report, || cells(one)));
        report
    }

    fn notes(&self, scope: &Scope<'_>) -> Vec<String> {
        let mut notes = scope.notes();
        if self.unnamed > 0 {
            notes.push(format!(
                "{} left out: the numbers of their objects count within a process",
                many(self.unnamed, "call is", "calls are")
            ));
        }
        if self.beyond > 0 {
            notes.push(format!(
                "more than {MAX_OBJECTS} objects: {} left out",
                many(self.beyond, "call on another is", "calls on others are")
            ));
        }
        notes
    }
}
