//! Inversions as rows and notes.

use super::window::Window;
use super::{Cycle, Inversions, MAX_OPEN};
use crate::analysis::scope::{Scope, interrupted_time};
use crate::analysis::times::{again, length};
use crate::analysis::tracker::{ObjectNo, System, ThreadNo};
use crate::analysis::{many, object_cell, thread_cell};
use crate::catalogue::Effect;
use crate::report::{Cell, Column, Kind, Report, ThreadTime};

const COLUMNS: [Column; 22] = [
    Column::new("waiter", Kind::Thread),
    Column::new("owner", Kind::Thread),
    Column::new("mutex", Kind::Object),
    Column::new("ticks", Kind::Ticks).titled("waited"),
    Column::new("ended", Kind::Word),
    Column::new("culprit", Kind::Thread),
    Column::new("culprit_ticks", Kind::Ticks).titled("culprit ran"),
    Column::new("from", Kind::Seq).titled("from event"),
    Column::new("to", Kind::Seq).titled("to event"),
    Column::new("waiter_priority", Kind::Count).titled("waiter priority"),
    Column::new("owner_priority", Kind::Count).titled("owner priority"),
    Column::new("deterministic", Kind::Flag),
    Column::new("inherited", Kind::Flag).titled("priority inherited"),
    Column::new("owner_ticks", Kind::Ticks).titled("owner ran"),
    Column::new("isr_ticks", Kind::Ticks).titled("interrupts ran"),
    Column::new("other_ticks", Kind::Ticks).titled("others ran"),
    Column::new("owner_waits", Kind::Object).titled("owner waits for"),
    Column::new("culprits", Kind::ThreadTimes).titled("all culprits"),
    Column::new("from_ticks", Kind::Ticks).titled("from time"),
    Column::new("to_ticks", Kind::Ticks).titled("to time"),
    Column::new("unknown_ticks", Kind::Ticks).titled("unknown of others"),
    Column::new("cycle", Kind::Flag),
];

/// The most links of a cycle that a sentence names.
const MAX_LINKS: usize = 20;

/// A thread in a sentence.
fn text(no: ThreadNo, system: &System<'_>) -> String {
    let address = || format!("{:#x}", system.thread(no).map_or(0, |t| t.address));
    system.name(no).map_or_else(address, str::to_owned)
}

/// A lock in a sentence.
fn lock_text(lock: ObjectNo, system: &System<'_>) -> String {
    match object_cell(lock, system) {
        Cell::Named(_, Some(name)) => name.0,
        _ => format!("{:#x}", system.address(lock)),
    }
}

fn cells(window: &Window, now: i64, system: &System<'_>) -> Vec<Cell> {
    let mut culprits = window.culprits.clone();
    culprits.sort_by_key(|(no, ticks)| (std::cmp::Reverse(*ticks), *no));
    let known = |ticks| if window.from.is_some() { Cell::Ticks(ticks) } else { Cell::Empty };
    let count = |n: Option<u64>| n.map_or(Cell::Empty, Cell::Count);
    let ticks = |n: Option<i64>| n.map_or(Cell::Empty, Cell::Ticks);
    let runs = system.trace.clock.runs();
    // Without a clock it is not known which of several ran longest.
    let worst = culprits.first().filter(|_| runs || culprits.len() == 1);
    // A doubt: somebody else may be one.
    let is_known = !culprits.is_empty() || (!window.doubt && window.from.is_some());
    vec![
        thread_cell(window.waiter, system),
        thread_cell(window.owner, system),
        object_cell(window.lock, system),
        ticks(window.ticks(now)),
        Cell::Text(window.to.map_or("open", |(_, end)| end.word()).to_owned()),
        worst.map_or(Cell::Empty, |(no, _)| thread_cell(*no, system)),
        if is_known { known(culprits.first().map_or(0, |(_, ticks)| *ticks)) } else { Cell::Empty },
        count(window.from.map(|m| m.seq)),
        count(window.to.map(|(m, _)| m.seq)),
        count(window.waiter_priority.map(u64::from)),
        count(window.owner_priority.map(u64::from)),
        window.deterministic().map_or(Cell::Empty, Cell::Flag),
        Cell::Flag(window.inherited),
        known(window.owner_ticks),
        known(window.isr_ticks),
        known(window.other_ticks),
        window.owner_waits.map_or(Cell::Empty, |lock| object_cell(lock, system)),
        if is_known { culprits_cell(&culprits, system) } else { Cell::Empty },
        ticks(window.from.map(|m| m.ticks)),
        ticks(window.to.map(|(m, _)| m.ticks)),
        known(window.unknown_ticks),
        Cell::Flag(window.cycle),
    ]
}

/// All culprits; a time is not known where the clock stands still.
fn culprits_cell(culprits: &[(ThreadNo, i64)], system: &System<'_>) -> Cell {
    let runs = system.trace.clock.runs();
    let one = |(no, ticks): &(ThreadNo, i64)| ThreadTime {
        address: system.thread(*no).map_or(0, |t| t.address),
        name: system.name(*no).map(str::to_owned),
        ticks: runs.then_some(*ticks),
    };
    Cell::ThreadTimes(culprits.iter().map(one).collect())
}

/// One in a sentence.
fn sentence(window: &Window, now: i64, system: &System<'_>) -> Option<String> {
    let name = |no, priority: Option<u16>| match priority {
        Some(priority) => format!("{} ({priority})", text(no, system)),
        None => text(no, system),
    };
    let lock = lock_text(window.lock, system);
    let (waits, has) = if window.to.is_some() { ("waited", "had") } else { ("has waited", "has") };
    let clock = &system.trace.clock;
    let mut said = format!(
        "{} {waits} {} for {lock}, which {} {has}",
        name(window.waiter, window.waiter_priority),
        length(clock, window.ticks(now)?)?,
        name(window.owner, window.owner_priority),
    );
    if let Some((no, ticks)) = window.culprits.iter().max_by_key(|(_, ticks)| *ticks) {
        let priority = system.thread(*no).and_then(|t| t.priority);
        said.push_str(&format!("; {} ran {} of it", name(*no, priority), again(clock, *ticks)?));
    }
    Some(said)
}

/// A cycle in a sentence.
fn circle(cycle: &Cycle, system: &System<'_>) -> String {
    let links: Vec<String> = cycle
        .links
        .iter()
        .take(MAX_LINKS)
        .map(|(waiter, lock, owner)| {
            format!(
                "{} waits for {}, which {} has",
                text(*waiter, system),
                lock_text(*lock, system),
                text(*owner, system)
            )
        })
        .collect();
    let more = cycle.links.len().saturating_sub(MAX_LINKS);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!(
        "cycle since {}: {}{more}; none of them can go on until one of these waits is given up",
        cycle.seq,
        links.join("; ")
    )
}

impl Inversions {
    pub(super) fn report(&mut self, scope: &Scope<'_>, system: &System<'_>) -> Report {
        let now = scope.end();
        let open = std::mem::take(&mut self.open);
        let still = open.len();
        let mut list = std::mem::take(&mut self.done);
        let unlisted = self.sums.inversions.saturating_sub(u64::try_from(list.len()).unwrap_or(u64::MAX));
        for window in open {
            self.sums.add(&window, now);
            list.push(window);
        }
        list.sort_by_key(|w| (w.from, w.to.map(|(to, _)| to)));
        let longest = list.iter().max_by_key(|w| w.ticks(now));
        let which = if list.len() > 1 { "the longest: " } else { "" };
        let mut notes = scope.notes();
        if self.sums.inversions > 0 {
            self.summary(still, unlisted, system, &mut notes);
        }
        notes.extend(self.cycles.iter().map(|cycle| circle(cycle, system)));
        if self.more_cycles > 0 {
            notes.push(format!("{} not listed", many(self.more_cycles, "more cycle is", "more cycles are")));
        }
        notes.extend(longest.and_then(|w| sentence(w, now, system)).map(|said| format!("{which}{said}")));
        self.doubts(system, &mut notes);
        let nothing = self.nothing(system);
        let mut report = Report { nothing, notes, ..Report::new("inversions", "Priority inversions", COLUMNS) };
        // Those that go on are looked for first: where some have no room, these have.
        let (open, over): (Vec<&Window>, Vec<&Window>) = list.iter().partition(|w| w.to.is_none());
        let order = if list.len() > scope.most {
            open.into_iter().chain(over).collect()
        } else {
            list.iter().collect::<Vec<_>>()
        };
        order.into_iter().for_each(|window| scope.push(&mut report, || cells(window, now, system)));
        report
    }

    /// Why there is no row.
    fn nothing(&self, system: &System<'_>) -> String {
        let judged = self.counted.saturating_sub(self.unjudged).saturating_sub(self.ownerless);
        match (self.asked, self.counted) {
            _ if !system.catalogue.has_effect(Effect::Acquire) => {
                "inversions: not recorded; no event of this system says that a thread asks for a lock".to_owned()
            }
            (0, 0) => "no event asks for a lock: there is nothing to judge".to_owned(),
            (_, 1..) if judged == 0 => "no wait for a lock can be judged".to_owned(),
            _ => format!("no inversion is seen in {}", many(judged, "wait for a lock", "waits for locks")),
        }
    }

    fn summary(&self, still: usize, unlisted: u64, system: &System<'_>, notes: &mut Vec<String>) {
        let sums = &self.sums;
        let unknown = sums.inversions.saturating_sub(sums.deterministic).saturating_sub(sums.culprits);
        let all = length(&system.trace.clock, sums.ticks).map_or(String::new(), |all| format!(", {all} in all"));
        let mut said = format!(
            "{} in {}{all}: {} deterministic, {} with culprits",
            many(sums.inversions, "inversion", "inversions"),
            many(self.counted, "wait for a lock", "waits for locks"),
            sums.deterministic,
            sums.culprits
        );
        for (n, what) in [(unknown, "not known which"), (u64::try_from(still).unwrap_or(u64::MAX), "still open")] {
            if n > 0 {
                said.push_str(&format!(", {n} {what}"));
            }
        }
        notes.push(said);
        if unlisted > 0 {
            notes.push(format!("{} counted, but not listed", many(unlisted, "shorter one is", "shorter ones are")));
        }
    }

    fn doubts(&self, system: &System<'_>, notes: &mut Vec<String>) {
        if self.counted > 0 && system.catalogue.ways().quiet_locks {
            notes.push("this trace shows who has a lock only while others wait for it".to_owned());
        }
        if self.sums.inversions > 0 {
            notes.extend(interrupted_time(system));
        }
        if self.sums.before > 0 {
            let gap = if system.trace.gaps.is_empty() { "" } else { " or before missing ones" };
            notes.push(format!("{} began before the first event{gap}: only the end is known", self.sums.before));
        }
        if self.sums.earlier > 0 {
            notes.push(format!(
                "{} began before the window: the time is whole, who ran counts from the window's start",
                self.sums.earlier
            ));
        }
        if self.unjudged > 0 {
            notes.push(format!(
                "{} not judged: the priority of waiter or owner is not known",
                many(self.unjudged, "wait for a lock is", "waits for locks are")
            ));
        }
        if self.ownerless > 0 {
            notes.push(format!(
                "{} not judged: no event shows the owner",
                many(self.ownerless, "wait for a lock is", "waits for locks are")
            ));
        }
        if self.cut > 0 {
            let waits = many(self.cut, "wait for a lock was", "waits for locks were");
            notes.push(format!("{waits} open where events are missing: how they ended is not known"));
        }
        if self.lost > 0 {
            let waits = many(self.lost, "wait was", "waits were");
            notes.push(format!("{waits} not followed: more than {MAX_OPEN} at a time"));
        }
    }
}
