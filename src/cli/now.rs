//! The line below `last`: who runs now.

use std::io::{self, Write};

use crate::abi::{Addr, Width};
use crate::catalogue::Effect;
use crate::output::{Ink, Paint, Rows, View, escape};
use crate::session::Loaded;
use crate::trace::{ContextKind, Event};

/// Writes the line, where the kernel's variables tell.
pub fn print(loaded: &Loaded, view: &View<'_>, paint: &Paint, out: &mut dyn Write) -> io::Result<()> {
    for (core, running) in loaded.running.iter().enumerate() {
        let on = if loaded.running.len() > 1 { Some(core) } else { None };
        one(*running, on, view, paint, out)?;
    }
    Ok(())
}

fn one(running: Addr, core: Option<usize>, view: &View<'_>, paint: &Paint, out: &mut dyn Write) -> io::Result<()> {
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
        return writeln!(out, "{}", paint.text(Ink::Dim, &format!("now{at}: {in_isr}no thread runs (idle)")));
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
        None => ", its state is not told by these events".to_owned(),
    });
    writeln!(out, "{}", paint.text(Ink::Dim, &line))
}

/// The state that the newest event about a thread leaves it in, and its priority in its newest event.
fn state_of(address: u64, view: &View<'_>) -> (Option<(String, u64)>, Option<u16>) {
    let mut state = None;
    let mut priority = None;
    let mut rows = Rows::new();
    for event in view.trace.events() {
        if let Some(word) = effect_on(address, &event, view, &mut rows) {
            state = Some((word, event.seq));
            continue;
        }
        let context = view.trace.contexts.get(event.context);
        if context.is_some_and(|c| c.kind == ContextKind::Thread && c.address == address) {
            priority = event.priority.or(priority);
            // Whoever acts is ready.
            state = Some(("ready".to_owned(), event.seq));
        }
    }
    (state, priority)
}

fn effect_on(address: u64, event: &Event, view: &View<'_>, rows: &mut Rows) -> Option<String> {
    let def = view.catalogue.def(event.def?)?;
    let acts = |effect| {
        let word = def.effects.word(effect)?;
        (view.trace.words(event).get(word) == Some(&address)).then_some(())
    };
    if acts(Effect::Ready).is_some() {
        return Some("ready".to_owned());
    }
    acts(Effect::Block)?;
    let mut word = None;
    rows.args(view, event, |arg| {
        if arg.kind == crate::catalogue::ArgKind::State {
            word = Some(arg.text.to_owned());
        }
    });
    Some(word.unwrap_or_else(|| "blocked".to_owned()))
}
