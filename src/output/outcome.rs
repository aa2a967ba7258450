//! The outcome of a call, in words.

use super::View;
use super::row::Rows;
use super::scale::Scale;
use crate::analysis::{Outcome, Waker};

/// The outcome of a call in words. Hostile: escape before printing.
#[derive(Debug)]
pub(super) struct OutcomeText {
    text: String,
    /// So many bytes of it say the most important.
    short: usize,
    shortest: &'static str,
}

impl OutcomeText {
    /// All of it; then the same in fewer and fewer words, for narrow lines.
    pub(super) fn texts(&self) -> [&str; 3] {
        [&self.text, self.text.get(..self.short).unwrap_or_default(), self.shortest]
    }
}

impl Rows {
    /// The outcome of a call in words.
    pub(super) fn outcome(&mut self, view: &View<'_>, outcome: &Outcome) -> OutcomeText {
        let clock = &view.trace.clock;
        let add_time = |before: &str, text: &mut String| {
            if clock.runs() {
                let scale = Scale::of(clock, outcome.ticks.unsigned_abs(), 5);
                text.push_str(before);
                scale.add(text, outcome.ticks);
                text.push(' ');
                text.push_str(scale.unit);
            }
        };
        let waker = match outcome.by {
            // It may have ended by an event that could not be read.
            Waker::Nobody if !self.end_is_known(view) => Waker::NotYet,
            by => by,
        };
        let mut text = String::with_capacity(64);
        let shortest = match waker {
            Waker::Nobody => {
                text.push_str("blocks, still waiting");
                "waits"
            }
            Waker::NotYet => {
                text.push_str("blocks");
                add_time(" for more than ", &mut text);
                "waits"
            }
            Waker::Unknown | Waker::Thread(_) | Waker::Interrupt(_) => {
                text.push_str("blocked");
                add_time(" for ", &mut text);
                "blocked"
            }
        };
        let short = text.len();
        let by = match waker {
            Waker::Nobody => {
                add_time(" after ", &mut text);
                None
            }
            Waker::NotYet | Waker::Unknown => None,
            Waker::Thread(id) => Some(self.who(view, id)),
            Waker::Interrupt(number) => {
                Some(number.and_then(|n| self.exception(view, n)).map_or("an interrupt", |name| name))
            }
        };
        if let Some(by) = by {
            text.push_str(", woken by ");
            text.push_str(by);
        }
        OutcomeText { text, short, shortest }
    }

    fn end_is_known(&mut self, view: &View<'_>) -> bool {
        *self.end_is_known.get_or_insert_with(|| view.trace.unread_at_end() == 0)
    }
}
