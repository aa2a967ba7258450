//! The outcome of a call, in words.

use super::View;
use super::row::Rows;
use super::scale::Scale;
use crate::analysis::{Outcome, Waker};

impl Rows {
    /// The outcome of a call, in words; then the same in fewer and fewer words, for narrow lines. Hostile: escape before
    /// printing.
    pub(super) fn outcome(&mut self, view: &View<'_>, outcome: &Outcome) -> [String; 3] {
        let clock = &view.trace.clock;
        let scale = Scale::of(clock, outcome.ticks.unsigned_abs(), 5);
        let time = clock.runs().then(|| format!("{} {}", scale.text(outcome.ticks), scale.unit));
        let lasts = |before: &str| time.as_ref().map_or(String::new(), |time| format!("{before} {time}"));
        let blocks = |more: &str| format!("blocks{more}");
        let blocked = || format!("blocked{}", lasts(" for"));
        let waker = match outcome.by {
            // It may have ended by an event that could not be read.
            Waker::Nobody if !self.end_is_known(view) => Waker::NotYet,
            by => by,
        };
        let (short, more) = match waker {
            Waker::Nobody => (blocks(", still waiting"), lasts(" after")),
            Waker::NotYet => (blocks(&lasts(" for more than")), String::new()),
            Waker::Unknown => (blocked(), String::new()),
            Waker::Thread(id) => (blocked(), format!(", woken by {}", self.who(view, id))),
            Waker::Interrupt(number) => {
                let name = number.and_then(|n| self.exception(view, n)).map_or("an interrupt", |name| name);
                (blocked(), format!(", woken by {name}"))
            }
        };
        let shortest = match waker {
            Waker::Nobody | Waker::NotYet => "waits",
            _ => "blocked",
        };
        [format!("{short}{more}"), short, shortest.to_owned()]
    }

    fn end_is_known(&mut self, view: &View<'_>) -> bool {
        *self.end_is_known.get_or_insert_with(|| view.trace.unread_at_end() == 0)
    }
}
