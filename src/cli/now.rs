//! The line below `last`: who runs now. It says what every N can know: the running threads, and the newest event.

use std::io::{self, Write};

use super::backtraces::source_of;
use crate::abi::{Addr, Width};
use crate::output::{Style, Styles, View, escape};
use crate::session::{Interrupted, Loaded};
use crate::trace::{ContextKind, Event};

/// Writes the line, where the kernel's variables are known.
pub(super) fn print(
    loaded: &Loaded,
    stopped: Option<&Interrupted>,
    view: &View<'_>,
    styles: &Styles,
    out: &mut dyn Write,
) -> io::Result<()> {
    // An old event shows nothing of now.
    let newest = view.trace.newest().filter(|_| view.trace.unread_at_end() == 0);
    for (core, running) in loaded.running.iter().enumerate() {
        let only = loaded.running.len() == 1;
        // Of the other cores the newest events may not have been read.
        let newest = newest.as_ref().filter(|e| only || usize::from(e.core) == core);
        let at = if only { String::new() } else { format!(" on core {core}") };
        let line = format!("now{at}: {}", sentence(*running, newest, stopped, view));
        writeln!(out, "{}", styles.text(Style::Dim, &line))?;
    }
    Ok(())
}

/// What a core does; `newest` is the newest event, where that is of this core.
fn sentence(running: Addr, newest: Option<&Event>, stopped: Option<&Interrupted>, view: &View<'_>) -> String {
    let trace = view.trace;
    if let Some(stopped) = stopped.filter(|stopped| stopped.in_start_up) {
        let at = place(stopped).map_or_else(String::new, |place| format!(" ({place})"));
        return format!("no thread runs: the CPU is in start-up code{at}; the trace is of the run before");
    }
    let address = if trace.about.word == Width::W4 { running & Width::W4.max() } else { running };
    let context = newest.and_then(|e| trace.contexts.get(e.context));
    let interrupt = newest.filter(|_| context.is_some_and(|c| c.kind == ContextKind::Isr));
    // The registers show more than an event: an interrupt may have ended since.
    let interrupt = interrupt.filter(|_| stopped.is_none_or(|stopped| stopped.in_interrupt));
    let in_isr = interrupt.map_or(String::new(), |e| match e.isr.and_then(|number| view.names.exception(number)) {
        Some(name) => format!("in {}; ", escape(&name)),
        None => "in an interrupt; ".to_owned(),
    });
    if address == 0 {
        return format!("{in_isr}no thread runs (idle)");
    }
    let own = newest.filter(|_| context.is_some_and(|c| c.kind == ContextKind::Thread && c.address == address));
    let priority = own.and_then(|e| e.priority).map_or(String::new(), |p| format!(", priority {p}"));
    let thread = escape(&name(address, view));
    let place = stopped.and_then(|stopped| Some((place(stopped)?, stopped.in_interrupt)));
    match place {
        Some((place, false)) => format!("{thread} runs in {place}{priority}"),
        Some((place, true)) => format!("{in_isr}{thread} is the running thread, interrupted in {place}{priority}"),
        None => format!("{in_isr}{thread} is the running thread{priority}"),
    }
}

/// `uart_send (uart.c:120)`; escaped.
fn place(stopped: &Interrupted) -> Option<String> {
    let function = &stopped.function;
    let mut text = function.name.clone()?;
    if let Some(offset) = function.offset.filter(|offset| *offset > 0) {
        text.push_str(&format!("+{offset:#x}"));
    }
    if let Some(source) = source_of(function) {
        text.push_str(&format!(" ({source})"));
    }
    Some(escape(&text))
}

/// What the thread at an address is called.
fn name(address: Addr, view: &View<'_>) -> String {
    let registered = view.trace.objects.iter().filter(|o| o.is_thread && o.address == address && !o.name.is_empty());
    let registered = registered.max_by_key(|o| !o.deleted).map(|o| o.name.clone());
    registered.or_else(|| view.names.object(address)).unwrap_or_else(|| format!("the thread at {address:#x}"))
}
