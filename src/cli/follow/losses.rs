//! What was lost, reported in one line a second at most.

use std::time::{Duration, Instant};

use crate::follow::Gap;
use crate::trace::Issue;

/// The least time between two reports.
const PAUSE: Duration = Duration::from_secs(1);

/// Losses that are not reported yet.
pub struct Losses {
    /// Events that were overwritten, all in one.
    overwritten: Option<Gap>,
    /// The trace was enabled again.
    restarted: Option<Gap>,
    /// Slots that were overwritten, all in one.
    slots: Option<Issue>,
    pause: Duration,
    reported: Option<Instant>,
}

impl Losses {
    /// Nothing yet. Reports come `every` so often at most, and once a second at most.
    pub fn new(every: Duration) -> Self {
        Self { overwritten: None, restarted: None, slots: None, pause: every.max(PAUSE), reported: None }
    }

    /// Something is missing.
    pub(super) fn gap(&mut self, gap: &Gap) {
        let before = if gap.restarted { &mut self.restarted } else { &mut self.overwritten };
        *before = Some(before.map_or(*gap, |first| first.and(gap)));
    }

    /// Slots were overwritten while they were read.
    pub(super) fn slots(&mut self, issue: &Issue) {
        match &mut self.slots {
            Some(first) => first.count = first.count.saturating_add(issue.count),
            None => self.slots = Some(issue.clone()),
        }
    }

    /// What is to be reported now; nothing where a report was made a short while ago.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Issue> {
        let waits = self.reported.is_some_and(|before| now.saturating_duration_since(before) < self.pause);
        if waits { Vec::new() } else { self.take(now) }
    }

    /// All that is not reported yet.
    pub(super) fn take(&mut self, now: Instant) -> Vec<Issue> {
        let gaps = [self.restarted.take(), self.overwritten.take()];
        let issues = gaps.iter().flatten().map(Gap::issue).chain(self.slots.take());
        let issues: Vec<Issue> = issues.collect();
        if !issues.is_empty() {
            self.reported = Some(now);
        }
        issues
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Lost;

    fn gap(count: u64, seq: u64) -> Gap {
        Gap { lost: Lost { count, at_least: false }, restarted: false, seq }
    }

    /// A ring that goes around at every look printed hundreds of lines a second.
    #[test]
    fn losses_were_reported_at_every_look() {
        let mut losses = Losses::new(Duration::ZERO);
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut lines = Vec::new();
        for ms in (0..2500).step_by(10) {
            losses.gap(&gap(3, ms));
            lines.extend(losses.due(at(ms)));
        }
        assert_eq!(
            lines.iter().map(|i| (i.count, i.place.seq)).collect::<Vec<_>>(),
            [(3, Some(0)), (300, Some(10)), (300, Some(1010))]
        );
        assert!(lines[1].message.starts_with("300 events were overwritten"));
        assert_eq!(losses.take(at(2500)).iter().map(|i| i.count).sum::<u64>(), 147);
        assert!(losses.take(at(2500)).is_empty() && losses.due(at(9000)).is_empty());
    }
}
