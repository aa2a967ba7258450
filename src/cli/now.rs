//! The line below `last`: who runs now.

use std::io::{self, Write};
use std::ops::ControlFlow;

use crate::abi::{Addr, Width};
use crate::analysis::tracker::{Change, Consumer, Step, System, Tracker, Wants};
use crate::output::{Style, Styles, View, escape};
use crate::session::Loaded;
use crate::trace::{ContextKind, Event};

/// Writes the line, where the kernel's variables are known.
pub fn print(loaded: &Loaded, view: &View<'_>, styles: &Styles, out: &mut dyn Write) -> io::Result<()> {
    for (core, running) in loaded.running.iter().enumerate() {
        let on = if loaded.running.len() > 1 { Some(core) } else { None };
        one(*running, on, view, styles, out)?;
    }
    Ok(())
}

fn one(running: Addr, core: Option<usize>, view: &View<'_>, styles: &Styles, out: &mut dyn Write) -> io::Result<()> {
    let trace = view.trace;
    let on_core = |e: &Event| core.is_none_or(|c| usize::from(e.core) == c);
    let address = if trace.about.word == Width::W4 { running & Width::W4.max() } else { running };
    let newest = if core.is_none() { trace.newest() } else { trace.events().filter(on_core).last() };
    let in_isr = newest
        .filter(|e| trace.contexts.get(e.context).is_some_and(|c| c.kind == ContextKind::Isr))
        .map(|e| match e.isr.and_then(|number| view.names.exception(number)) {
            Some(name) => format!("in {}; ", escape(&name)),
            None => "in an interrupt; ".to_owned(),
        })
        .unwrap_or_default();
    let at = core.map(|c| format!(" on core {c}")).unwrap_or_default();
    if address == 0 {
        return writeln!(out, "{}", styles.text(Style::Dim, &format!("now{at}: {in_isr}no thread runs (idle)")));
    }
    let name = trace
        .objects
        .iter()
        .filter(|o| o.is_thread && o.address == address && !o.name.is_empty())
        .max_by_key(|o| !o.deleted)
        .map(|o| o.name.clone())
        .or_else(|| view.names.object(address))
        .unwrap_or_else(|| format!("the thread at {address:#x}"));
    let (state, priority) = state_of(address, view);
    let mut line = format!("now{at}: {in_isr}{} is the running thread", escape(&name));
    if let Some(priority) = priority {
        line.push_str(&format!(", priority {priority}"));
    }
    line.push_str(&match state {
        Some((word, seq)) => format!(", state {word} (by event {seq})"),
        None => ", these events do not show its state".to_owned(),
    });
    writeln!(out, "{}", styles.text(Style::Dim, &line))
}

/// The state that the newest event about a thread leaves it in, and its priority in its newest event.
fn state_of(address: u64, view: &View<'_>) -> (Option<(String, u64)>, Option<u16>) {
    let mut newest = Newest { address, state: None, priority: None };
    let mut tracker = Tracker::new(view.trace, view.catalogue, Wants { changes: true, calls: false });
    view.trace.visit(|event| {
        tracker.event(event, &mut newest);
        ControlFlow::Continue(())
    });
    tracker.finish(&mut newest);
    (newest.state, newest.priority)
}

/// What events show of one thread.
struct Newest {
    address: Addr,
    /// The word for its state, and the event that shows it.
    state: Option<(String, u64)>,
    priority: Option<u16>,
}

impl Consumer for Newest {
    fn step(&mut self, step: &Step<'_>, system: &System<'_>) {
        let Step { event, changes, .. } = *step;
        let is_own = |no| system.thread(no).is_some_and(|t| t.address == self.address);
        let word = changes.iter().find_map(|change| match *change {
            Change::Readied { thread, .. } if is_own(thread) => Some("ready".to_owned()),
            Change::Blocked { thread, code, .. } if is_own(thread) => {
                Some(code.and_then(|code| system.state_word(event.def, Some(code))).unwrap_or("blocked".to_owned()))
            }
            _ => None,
        });
        let context = system.trace.contexts.get(event.context);
        if let Some(word) = word {
            self.state = Some((word, event.seq));
        } else if context.is_some_and(|c| c.kind == ContextKind::Thread && c.address == self.address) {
            self.priority = event.priority.or(self.priority);
            // A thread that does something is ready.
            self.state = Some(("ready".to_owned(), event.seq));
        }
    }
}
