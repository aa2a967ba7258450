//! The state of the trace in words, and what was written: rows of reports.

use super::change::Change;
use super::state::State;
use crate::catalogue::mask_text;
use crate::report::{Cell, Column, Kind, Report};

const NAME: &str = "control";

/// What was written.
pub fn written(changes: &[Change]) -> Report {
    Report::table(
        NAME,
        "Written",
        changes,
        &[
            (Column::new("address", Kind::Address), &|c| Cell::Address(c.address)),
            (Column::new("bytes", Kind::Count), &|c| Cell::Count(c.bytes.len() as u64)),
            (Column::new("what", Kind::Text), &|c| Cell::text(&c.what)),
        ],
    )
}

impl State {
    /// The state, as rows of name and value.
    pub fn report(&self) -> Report {
        Report::facts(NAME, "State of the trace", facts(self))
    }
}

fn facts(state: &State) -> Vec<(&'static str, String)> {
    let mut rows = vec![("compiled in", compiled_in(state))];
    let said = |yes: bool| if yes { "yes" } else { "no" };
    if state.unnamed.is_some() || state.layout.is_some() && state.sound().is_none() {
        rows.extend([("enabled", "not known"), ("paused", "not known")].map(|(what, v)| (what, v.to_owned())));
    } else if !state.found.is_empty() {
        let enabled = match (&state.layout, state.registry_start) {
            (None, _) if state.wrong.is_none() => "no: never since the last start".to_owned(),
            (Some(_), Some(0)) if !state.is_enabled() => "no: disabled by tx_trace_disable".to_owned(),
            _ => said(state.layout.is_some()).to_owned(),
        };
        rows.push(("enabled", enabled));
        rows.push(("paused", said(state.is_paused()).to_owned()));
    }
    rows.extend(state.version.as_ref().map(|v| ("kernel", v.clone())));
    rows.extend(state.unnamed.map(|_| ("event mask", "not known".to_owned())));
    rows.extend(state.mask.map(|m| ("event mask", format!("{:#010x} ({})", m.value, mask_text(m.value)))));
    if let Some(layout) = &state.layout {
        let sound = state.wrong.clone().unwrap_or_else(|| "sound".to_owned());
        rows.push(("header", format!("{:#x}: {sound}", layout.header)));
        if state.sound().is_some() {
            rows.push(("capacity", format!("{} events", layout.capacity)));
            rows.extend(state.used.map(|used| ("used", format!("{used} slots"))));
            let copy = layout.place(layout.fields.current);
            let slot = layout.slot_at(copy).map_or("no slot".to_owned(), |s| format!("slot {s}"));
            rows.push(("next event", format!("{slot}, at {copy:#x}")));
            if let Some((current, copy)) = state.inserting() {
                rows.push((
                    "insertion",
                    format!(
                        "one is being made, or was cut off by a crash: the kernel's pointer is {current:#x}, the header's {copy:#x}"
                    ),
                ));
            }
        }
    } else {
        rows.extend(state.wrong.as_ref().map(|why| ("header", why.clone())));
    }
    if let Some((total, free)) = state.registry {
        let counted = state.available.filter(|n| *n != free);
        let counted = counted.map_or(String::new(), |n| format!(" (the kernel counts {n})"));
        rows.push(("registry free", format!("{free} of {total}{counted}")));
    }
    rows
}

fn compiled_in(state: &State) -> String {
    if let Some(why) = state.unnamed {
        return format!("not known: {why}");
    }
    match (state.found.as_slice(), state.missing.as_slice()) {
        ([], _) => "no: the program has none of the kernel's variables of the trace".to_owned(),
        (found, []) => format!("yes: {}", found.join(", ")),
        (found, missing) => format!("yes: {}; without {}", found.join(", "), missing.join(", ")),
    }
}
