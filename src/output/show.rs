//! One event in full: every word, what it means, and what is known about the moment.

use std::io::{self, BufWriter, Write};

use super::row::{Rows, is_doubtful};
use super::scale::Scale;
use super::styles::{Style, Styles, style_of};
use super::text::hex;
use super::window::Window;
use super::{EventSink, View, escape};
use crate::analysis::Outcome;
use crate::trace::{Context, ContextId, ContextKind, Event, Extra, Issue};

/// Width of the labels on the left.
const LABEL: usize = 13;

/// Writes events one by one, each in full.
pub struct Show<W: Write> {
    out: BufWriter<W>,
    styles: Styles,
    rows: Rows,
    newest: Option<i64>,
    any: bool,
    /// The outcome of the call of the event that comes next.
    outcome: Option<Outcome>,
}

impl<W: Write> Show<W> {
    /// Events that are written to `out`. `newest` is the ticks of the newest event, where they are known.
    pub fn new(out: W, styles: Styles, newest: Option<i64>) -> Self {
        Self { out: BufWriter::new(out), styles, rows: Rows::new(), newest, any: false, outcome: None }
    }

    fn line(&mut self, label: &str, text: &str) -> io::Result<()> {
        let label = format!("  {label:<LABEL$}");
        writeln!(self.out, "{}{text}", self.styles.text(Style::Dim, &label))
    }

    /// A context with its kind and address.
    fn context(view: &View<'_>, id: ContextId, who: &str) -> String {
        let Some(Context { kind, address, .. }) = view.trace.contexts.get(id) else { return "?".to_owned() };
        let (kind, address) = (*kind, hex(*address, view.digits()));
        let who = escape(who);
        match kind {
            ContextKind::Idle => who,
            ContextKind::Unknown => format!("{who} (its context word was overwritten)"),
            ContextKind::Thread => format!("{who} (thread at {address})"),
            ContextKind::Isr | ContextKind::Init => format!("{who} ({}, stored as {address})", kind.name()),
        }
    }

    fn moment(&mut self, view: &View<'_>, event: &Event) -> io::Result<()> {
        let clock = &view.trace.clock;
        if clock.runs() {
            let say = |ticks: i64| {
                let scale = Scale::of(clock, ticks.unsigned_abs(), 3);
                format!("{} {}", scale.text(ticks), scale.unit)
            };
            let back = self.newest.and_then(|newest| newest.checked_sub(event.ticks));
            let place = back.map(|back| match back {
                0 => "the newest event".to_owned(),
                _ => format!("{} before the newest event", say(back)),
            });
            let origin = view.trace.about.origin;
            // The line below says how long after the event before it.
            let is_said = event.seq == origin || event.delta.is_some() && event.seq.checked_sub(1) == Some(origin);
            let after = || format!("{} after event {origin}", say(event.ticks));
            let after = if is_said && place.is_some() { None } else { Some(after()) };
            let parts: Vec<String> = place.into_iter().chain(after).collect();
            self.line("time", &parts.join(", "))?;
            if let Some(delta) = event.delta {
                self.line("delta", &format!("{} after the event before it", say(delta)))?;
            }
        }
        if let Some(stamp) = event.stamp {
            self.line("stamp", &hex(stamp, view.stamp_digits()))?;
        }
        Ok(())
    }

    /// The fields that only this format's events have; those of one object share a line.
    fn extras(&mut self, view: &View<'_>, event: &Event) -> io::Result<()> {
        let mut lines: Vec<(String, String)> = Vec::new();
        view.trace.extras(event, |name, value| {
            let text = match value {
                Extra::Null => return,
                // What is large is rather an id, and those are written in hexadecimal elsewhere.
                Extra::Number(n) if n > 0x7FF => format!("{n} ({n:#x})"),
                Extra::Number(n) => n.to_string(),
                Extra::Hex(n) => hex(n, view.digits()),
                Extra::Text(text) => escape(text),
            };
            let (object, part) = name.split_once('.').map_or((name, None), |(object, part)| (object, Some(part)));
            let text = part.map_or_else(|| text.clone(), |part| format!("{} {text}", part.replace('_', " ")));
            let label = object.replace('_', " ");
            match lines.last_mut().filter(|(last, _)| part.is_some() && *last == label) {
                Some((_, line)) => {
                    line.push_str(", ");
                    line.push_str(&text);
                }
                None => lines.push((label, text)),
            }
        });
        for (label, text) in lines {
            self.line(&label, &text)?;
        }
        Ok(())
    }

    fn words(&mut self, view: &View<'_>, event: &Event) -> io::Result<()> {
        let mut said: Vec<(usize, String, String, bool)> = Vec::new();
        self.rows.args(view, event, |arg| {
            if arg.is_described {
                said.push((arg.word, format!("{}:{}", arg.name, arg.kind.name()), escape(arg.text), arg.doubtful));
            }
        });
        let width = said.iter().map(|(_, name, ..)| name.len()).max().unwrap_or(0);
        for (i, word) in view.trace.words(event).iter().enumerate() {
            let raw = hex(*word, view.digits());
            let label = format!("i{}", i.saturating_add(1));
            let text = match said.iter().find(|(own, ..)| *own == i) {
                // What says no more than the word itself is not said twice.
                Some((_, name, text, _)) if is_same(text, *word) => format!("{raw}  {name}"),
                Some((_, name, text, _)) => format!("{raw}  {name:<width$}  {text}"),
                // The word has no description; where it is an object's address it is taken for one.
                None => match view.trace.objects.at(*word).filter(|o| *word != 0 && !o.name.is_empty()) {
                    Some(object) => format!("{raw}  {}", escape(&object.name)),
                    None => raw,
                },
            };
            let text = if is_doubtful(event, i) {
                format!("{text}  (doubtful: written after the event, or over it)")
            } else {
                text
            };
            self.line(&label, &text)?;
        }
        Ok(())
    }
}

/// True where a text is the hexadecimal of a word, or that after its type.
fn is_same(text: &str, word: u64) -> bool {
    let text = text.rsplit(' ').next().unwrap_or(text);
    text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok()) == Some(word)
}

impl<W: Write> EventSink for Show<W> {
    fn begin(&mut self, _: &View<'_>, _: &Window) -> io::Result<()> {
        Ok(())
    }

    fn outcome(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }

    fn event(&mut self, view: &View<'_>, event: &Event) -> io::Result<()> {
        if self.any {
            writeln!(self.out)?;
        }
        self.any = true;
        let def = event.def.and_then(|d| view.catalogue.def(d));
        let name = self.styles.text(style_of(def), &escape(&Rows::event(view, event)));
        writeln!(self.out, "event {}  {name}", event.seq)?;

        let mut id = event.id.to_string();
        if let Some(def) = def {
            for more in [&def.macro_name, &def.class].into_iter().filter(|t| !t.is_empty()) {
                id.push_str(&format!(", {}", escape(more)));
            }
        } else {
            id.push_str(", not in the catalogue");
        }
        self.line("id", &id)?;
        if let Some(def) = def
            && !def.label.is_empty()
            && !def.label.eq_ignore_ascii_case(&def.name)
        {
            self.line("also called", &escape(&def.label))?;
        }
        self.line("slot", &event.slot.to_string())?;
        self.moment(view, event)?;
        let who = Self::context(view, event.context, self.rows.who_of(view, event));
        self.line("who", &who)?;
        if let Some(behind) = event.interrupted {
            let behind = Self::context(view, behind, self.rows.who(view, behind));
            self.line("interrupted", &behind)?;
        }
        if view.trace.about.cores > 1 {
            self.line("core", &event.core.to_string())?;
        }
        if let Some(priority) = event.priority {
            let threshold = event.threshold.map_or(String::new(), |t| format!(", preemption threshold {t}"));
            self.line("priority", &format!("{priority}{threshold}"))?;
        }
        self.extras(view, event)?;
        if let Some(said) = self.rows.sentence(view, event) {
            self.line("says", &escape(&said))?;
        }
        if let Some(outcome) = self.outcome.take() {
            let said = self.rows.outcome(view, &outcome);
            let [said, ..] = said.texts();
            self.line("outcome", &escape(said))?;
        }
        self.words(view, event)?;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, _: &View<'_>, _: &[Issue]) -> io::Result<()> {
        self.out.flush()
    }
}
