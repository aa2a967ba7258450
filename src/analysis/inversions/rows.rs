//! Inversions as rows and notes.

use super::window::Window;
use super::{Cycle, Inversions, MOST_OPEN};
use crate::abi::Addr;
use crate::analysis::times::{again, length};
use crate::analysis::{ThreadNo, Tracker, Whole, many, object_cell, thread_cell};
use crate::catalogue::Effect;
use crate::report::{Cell, Column, Kind, Report};

const COLUMNS: [Column; 22] = [
    Column { name: "waiter", kind: Kind::Thread },
    Column { name: "owner", kind: Kind::Thread },
    Column { name: "mutex", kind: Kind::Object },
    Column { name: "ticks", kind: Kind::Ticks },
    Column { name: "ended", kind: Kind::Text },
    Column { name: "culprit", kind: Kind::Thread },
    Column { name: "culprit_ticks", kind: Kind::Ticks },
    Column { name: "from", kind: Kind::Seq },
    Column { name: "to", kind: Kind::Seq },
    Column { name: "waiter_priority", kind: Kind::Count },
    Column { name: "owner_priority", kind: Kind::Count },
    Column { name: "deterministic", kind: Kind::Flag },
    Column { name: "inherited", kind: Kind::Flag },
    Column { name: "owner_ticks", kind: Kind::Ticks },
    Column { name: "isr_ticks", kind: Kind::Ticks },
    Column { name: "other_ticks", kind: Kind::Ticks },
    Column { name: "owner_waits", kind: Kind::Object },
    Column { name: "culprits", kind: Kind::Text },
    Column { name: "from_ticks", kind: Kind::Ticks },
    Column { name: "to_ticks", kind: Kind::Ticks },
    Column { name: "unknown_ticks", kind: Kind::Ticks },
    Column { name: "cycle", kind: Kind::Flag },
];

/// The most links of a cycle that a sentence names.
const MOST_LINKS: usize = 20;

/// A thread in a sentence.
fn text(no: ThreadNo, tracker: &Tracker<'_>) -> String {
    let address = || format!("{:#x}", tracker.thread(no).map_or(0, |t| t.address));
    tracker.name(no).map_or_else(address, str::to_owned)
}

/// A lock in a sentence.
fn lock_text(lock: Addr, tracker: &Tracker<'_>) -> String {
    match object_cell(lock, tracker) {
        Cell::Named(_, Some(name)) => name,
        _ => format!("{lock:#x}"),
    }
}

fn cells(window: &Window, now: i64, tracker: &Tracker<'_>) -> Vec<Cell> {
    let mut culprits = window.culprits.clone();
    culprits.sort_by_key(|(no, ticks)| (std::cmp::Reverse(*ticks), *no));
    let told = |ticks| if window.from.is_some() { Cell::Ticks(ticks) } else { Cell::Empty };
    let count = |n: Option<u64>| n.map_or(Cell::Empty, Cell::Count);
    let ticks = |n: Option<i64>| n.map_or(Cell::Empty, Cell::Ticks);
    let runs = tracker.trace.clock.runs();
    let name = |(no, ticks): &(ThreadNo, i64)| {
        let name = text(*no, tracker);
        if runs { format!("{name} {ticks}") } else { name }
    };
    let list: Vec<String> = culprits.iter().map(name).collect();
    // Without a clock nobody knows who of several ran longest.
    let worst = culprits.first().filter(|_| runs || culprits.len() == 1);
    vec![
        thread_cell(window.waiter, tracker),
        thread_cell(window.owner, tracker),
        object_cell(window.lock, tracker),
        ticks(window.ticks(now)),
        Cell::Text(window.to.map_or("open", |(_, end)| end.word()).to_owned()),
        worst.map_or(Cell::Empty, |(no, _)| thread_cell(*no, tracker)),
        told(window.culprit_ticks),
        count(window.from.map(|m| m.seq)),
        count(window.to.map(|(m, _)| m.seq)),
        count(window.waiter_priority.map(u64::from)),
        count(window.owner_priority.map(u64::from)),
        window.deterministic().map_or(Cell::Empty, Cell::Flag),
        Cell::Flag(window.inherited),
        told(window.owner_ticks),
        told(window.isr_ticks),
        told(window.other_ticks),
        window.owner_waits.map_or(Cell::Empty, |lock| object_cell(lock, tracker)),
        if list.is_empty() { Cell::Empty } else { Cell::Text(list.join(", ")) },
        ticks(window.from.map(|m| m.ticks)),
        ticks(window.to.map(|(m, _)| m.ticks)),
        told(window.unknown_ticks),
        Cell::Flag(window.cycle),
    ]
}

/// The longest in a sentence.
fn sentence(window: &Window, now: i64, tracker: &Tracker<'_>) -> Option<String> {
    let name = |no, priority: Option<u16>| match priority {
        Some(priority) => format!("{} ({priority})", text(no, tracker)),
        None => text(no, tracker),
    };
    let lock = lock_text(window.lock, tracker);
    let (waits, has) = if window.to.is_some() { ("waited", "had") } else { ("has waited", "has") };
    let clock = &tracker.trace.clock;
    let mut said = format!(
        "the longest: {} {waits} {} for {lock}, which {} {has}; of these the owner ran {}",
        name(window.waiter, window.waiter_priority),
        length(clock, window.ticks(now)?)?,
        name(window.owner, window.owner_priority),
        again(clock, window.owner_ticks)?
    );
    if let Some((no, ticks)) = window.culprits.iter().max_by_key(|(_, ticks)| *ticks) {
        let priority = tracker.thread(*no).and_then(|t| t.priority);
        said.push_str(&format!(" and {} ran {}", name(*no, priority), again(clock, *ticks)?));
    }
    Some(said)
}

/// A cycle in a sentence.
fn circle(cycle: &Cycle, tracker: &Tracker<'_>) -> String {
    let links: Vec<String> = cycle
        .links
        .iter()
        .take(MOST_LINKS)
        .map(|(waiter, lock, owner)| {
            format!(
                "{} waits for {}, which {} has",
                text(*waiter, tracker),
                lock_text(*lock, tracker),
                text(*owner, tracker)
            )
        })
        .collect();
    let more = cycle.links.len().saturating_sub(MOST_LINKS);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!(
        "cycle since {}: {}{more}; none of them can go on until one of these waits is given up",
        cycle.seq,
        links.join("; ")
    )
}

impl Inversions {
    pub(super) fn report(&mut self, open: Vec<Window>, whole: &Whole, tracker: &Tracker<'_>) -> Report {
        let now = whole.span.map_or(0, |(_, to)| to);
        let still = open.len();
        let mut list = std::mem::take(&mut self.done);
        let unlisted = self.sums.inversions.saturating_sub(u64::try_from(list.len()).unwrap_or(u64::MAX));
        for window in open {
            self.sums.inversions = self.sums.inversions.saturating_add(1);
            match window.deterministic() {
                Some(true) => self.sums.deterministic = self.sums.deterministic.saturating_add(1),
                Some(false) => self.sums.culprits = self.sums.culprits.saturating_add(1),
                None => {}
            }
            self.sums.ticks = self.sums.ticks.saturating_add(window.ticks(now).unwrap_or(0));
            list.push(window);
        }
        list.sort_by_key(|w| (w.from, w.to.map(|(to, _)| to)));
        let longest = list.iter().max_by_key(|w| w.ticks(now));
        let mut notes = whole.notes();
        self.summary(still, unlisted, tracker, &mut notes);
        notes.extend(self.cycles.iter().map(|cycle| circle(cycle, tracker)));
        if self.more_cycles > 0 {
            notes.push(format!("{} not listed", many(self.more_cycles, "more cycle is", "more cycles are")));
        }
        notes.extend(longest.and_then(|w| sentence(w, now, tracker)));
        self.doubts(whole, tracker, &mut notes);
        Report {
            name: "inversions",
            columns: COLUMNS.to_vec(),
            rows: list.iter().map(|w| cells(w, now, tracker)).collect(),
            notes,
        }
    }

    fn summary(&self, still: usize, unlisted: u64, tracker: &Tracker<'_>, notes: &mut Vec<String>) {
        let sums = &self.sums;
        if sums.inversions == 0 {
            if !tracker.catalogue.tells(Effect::Acquire) {
                notes.push(
                    "inversions: not told by this trace; no event of this system says that a thread asks for a lock"
                        .to_owned(),
                );
                return;
            }
            let judged = self.waits.saturating_sub(self.unjudged).saturating_sub(self.ownerless);
            if self.asked == 0 && self.waits == 0 {
                notes.push("no event asks for a lock: there is nothing to judge".to_owned());
            } else if judged > 0 || self.waits == 0 {
                notes.push(format!("no inversion is seen in {}", many(judged, "wait for a lock", "waits for locks")));
            }
            return;
        }
        let unknown = sums.inversions.saturating_sub(sums.deterministic).saturating_sub(sums.culprits);
        let all = length(&tracker.trace.clock, sums.ticks).map_or(String::new(), |all| format!(", {all} in all"));
        let mut said = format!(
            "{} in {}{all}: {} deterministic, {} with culprits",
            many(sums.inversions, "inversion", "inversions"),
            many(self.waits, "wait for a lock", "waits for locks"),
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

    fn doubts(&self, whole: &Whole, tracker: &Tracker<'_>, notes: &mut Vec<String>) {
        if self.waits > 0 && tracker.catalogue.ways().quiet_locks {
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
        if tracker.cores() > 1 && self.sums.inversions > 0 {
            notes.push("on several cores a culprit's time counts only while the owner runs on none".to_owned());
        }
        if self.sums.inversions > 0 {
            notes.extend(whole.interrupted_time());
        }
        if self.sums.before > 0 {
            notes.push(format!(
                "{} began before the first event: only their end is known, by who was made ready as the lock was given back",
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
                "{} not judged: no event tells the owner",
                many(self.ownerless, "wait for a lock is", "waits for locks are")
            ));
        }
        if self.lost > 0 {
            let waits = many(self.lost, "wait was", "waits were");
            notes.push(format!("{waits} not followed: more than {MOST_OPEN} at a time"));
        }
    }
}
