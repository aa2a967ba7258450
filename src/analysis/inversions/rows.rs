//! Inversions as rows and notes.

use super::window::Window;
use super::{Cycle, Inversions, MAX_OPEN};
use crate::analysis::scope::{Scope, interrupted_time};
use crate::analysis::times::{again, length};
use crate::analysis::tracker::{ObjectNo, System, ThreadNo};
use crate::analysis::{columns, many, object_cell, thread_cell};
use crate::catalogue::Effect;
use crate::report::{Cell, Kind, Report, ThreadTime};

const COLUMNS: [(&str, Kind); 22] = [
    ("waiter", Kind::Thread),
    ("owner", Kind::Thread),
    ("mutex", Kind::Object),
    ("ticks", Kind::Ticks),
    ("ended", Kind::Text),
    ("culprit", Kind::Thread),
    ("culprit_ticks", Kind::Ticks),
    ("from", Kind::Seq),
    ("to", Kind::Seq),
    ("waiter_priority", Kind::Count),
    ("owner_priority", Kind::Count),
    ("deterministic", Kind::Flag),
    ("inherited", Kind::Flag),
    ("owner_ticks", Kind::Ticks),
    ("isr_ticks", Kind::Ticks),
    ("other_ticks", Kind::Ticks),
    ("owner_waits", Kind::Object),
    ("culprits", Kind::ThreadTimes),
    ("from_ticks", Kind::Ticks),
    ("to_ticks", Kind::Ticks),
    ("unknown_ticks", Kind::Ticks),
    ("cycle", Kind::Flag),
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
        Cell::Named(_, Some(name)) => name,
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

/// The longest in a sentence.
fn sentence(window: &Window, now: i64, system: &System<'_>) -> Option<String> {
    let name = |no, priority: Option<u16>| match priority {
        Some(priority) => format!("{} ({priority})", text(no, system)),
        None => text(no, system),
    };
    let lock = lock_text(window.lock, system);
    let (waits, has) = if window.to.is_some() { ("waited", "had") } else { ("has waited", "has") };
    let clock = &system.trace.clock;
    let mut said = format!(
        "the longest: {} {waits} {} for {lock}, which {} {has}; of these the owner ran {}",
        name(window.waiter, window.waiter_priority),
        length(clock, window.ticks(now)?)?,
        name(window.owner, window.owner_priority),
        again(clock, window.owner_ticks)?
    );
    if let Some((no, ticks)) = window.culprits.iter().max_by_key(|(_, ticks)| *ticks) {
        let priority = system.thread(*no).and_then(|t| t.priority);
        said.push_str(&format!(" and {} ran {}", name(*no, priority), again(clock, *ticks)?));
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
    pub(super) fn report(&mut self, open: Vec<Window>, scope: &Scope<'_>, system: &System<'_>) -> Report {
        let now = scope.end();
        let still = open.len();
        let mut list = std::mem::take(&mut self.done);
        let unlisted = self.sums.inversions.saturating_sub(u64::try_from(list.len()).unwrap_or(u64::MAX));
        for window in open {
            self.sums.add(&window, now);
            list.push(window);
        }
        list.sort_by_key(|w| (w.from, w.to.map(|(to, _)| to)));
        let longest = list.iter().max_by_key(|w| w.ticks(now));
        let mut notes = scope.notes();
        self.summary(still, unlisted, system, &mut notes);
        notes.extend(self.cycles.iter().map(|cycle| circle(cycle, system)));
        if self.more_cycles > 0 {
            notes.push(format!("{} not listed", many(self.more_cycles, "more cycle is", "more cycles are")));
        }
        notes.extend(longest.and_then(|w| sentence(w, now, system)));
        self.doubts(system, &mut notes);
        Report {
            name: "inversions",
            columns: columns(&COLUMNS),
            rows: list.iter().map(|w| cells(w, now, system)).collect(),
            notes,
        }
    }

    fn summary(&self, still: usize, unlisted: u64, system: &System<'_>, notes: &mut Vec<String>) {
        let sums = &self.sums;
        if sums.inversions == 0 {
            if !system.catalogue.has_effect(Effect::Acquire) {
                notes.push(
                    "inversions: not recorded in this trace; no event of this system says that a thread asks for a lock"
                        .to_owned(),
                );
                return;
            }
            let judged = self.counted.saturating_sub(self.unjudged).saturating_sub(self.ownerless);
            if self.asked == 0 && self.counted == 0 {
                notes.push("no event asks for a lock: there is nothing to judge".to_owned());
            } else if judged > 0 || self.counted == 0 {
                notes.push(format!("no inversion is seen in {}", many(judged, "wait for a lock", "waits for locks")));
            }
            return;
        }
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
            notes.push(
                "who has a lock: told by this trace only while others wait for it; one that is free is taken without an \
                 event"
                    .to_owned(),
            );
        }
        if self.sums.culprits > 0 {
            notes.push(
                "culprits: threads less urgent than the waiter that ran while it waited, and are not the owner nor have \
                 what the owner waits for"
                    .to_owned(),
            );
        }
        if system.cores() > 1 && self.sums.inversions > 0 {
            notes.push("on several cores a culprit's time counts only while the owner runs on none".to_owned());
        }
        if self.sums.inversions > 0 {
            notes.extend(interrupted_time(system));
        }
        if self.sums.before > 0 {
            let gap = if system.trace.gaps.is_empty() { "" } else { " or before missing ones" };
            notes.push(format!(
                "{} began before the first event{gap}: only their end is known, by who was made ready as the lock was given back",
                self.sums.before
            ));
        }
        if self.sums.earlier > 0 {
            notes.push(format!(
                "{} began before the window: ticks are whole, shares of them from the start of the window",
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
