//! TraceX's custom events: a line each between `Start` and `End`, with thirteen parts between commas.
//!
//! `number, name, two letters, (r,g,b), (r,g,b), label1, label2, label3, label4`: the two colours are of the upper and
//! the lower half of an icon.

use std::collections::HashMap;

use super::{Parsed, UserEvent, UserEvents, Wrong, bad_name, kind_of};
use crate::catalogue::FieldDef;
use crate::catalogue::table::number;

/// The line before the first event. The manual prints it between asterisks.
pub(super) fn is_start(line: &str) -> bool {
    bare(line).eq_ignore_ascii_case("start")
}

fn is_end(line: &str) -> bool {
    bare(line).eq_ignore_ascii_case("end")
}

fn bare(line: &str) -> &str {
    line.trim().trim_matches('*').trim()
}

pub(super) fn parse(text: &str) -> Result<Parsed, Wrong> {
    let mut parsed = Parsed::default();
    let mut seen: HashMap<u32, usize> = HashMap::new();
    let (mut begun, mut ended) = (false, false);
    for (at, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.trim_start().starts_with("//") || ended {
            continue;
        }
        if is_end(line) {
            ended = true;
        } else if !begun {
            begun = is_start(line);
        } else {
            let event = event(line, at)?;
            if let Some(before) = seen.insert(event.id, at) {
                return Err(Wrong::at(at, format!("id {} has a name already, in line {before}", event.id)));
            }
            parsed.lines.push(at);
            parsed.user.events.push(event);
        }
    }
    if parsed.user.events.is_empty() {
        return Err(Wrong::at(0, "names no event between Start and End"));
    }
    if !ended {
        parsed.notes.push((0, "End is missing: the file may be cut short".to_owned()));
    }
    Ok(parsed)
}

fn event(line: &str, at: usize) -> Result<UserEvent, Wrong> {
    let cells = cells(line);
    let cell = |n: usize| cells.get(n).copied().unwrap_or("");
    let id = number(cell(0)).and_then(|n| u32::try_from(n).ok());
    let id = id.ok_or_else(|| Wrong::at(at, format!("'{}' is not an event number", cell(0))))?;
    if cells.len() < 2 || cells.len() > 9 {
        let all = "number, name, abbreviation, (r,g,b), (r,g,b), label1, label2, label3, label4";
        return Err(Wrong::at(at, format!("{} parts where there are nine: {all}", cells.len())));
    }
    if let Some(why) = bad_name(cell(1)) {
        return Err(Wrong::at(at, why));
    }
    let mut fields: Vec<Option<FieldDef>> = (5..9).map(cell).map(field).collect();
    while fields.last().is_some_and(Option::is_none) {
        fields.pop();
    }
    Ok(UserEvent { id, name: cell(1).to_owned(), fields, ..UserEvent::default() })
}

/// A label as an argument's name: `--arg` cannot have blanks in it.
fn field(label: &str) -> Option<FieldDef> {
    let name: String =
        label.chars().map(|c| if c.is_alphanumeric() || "_.-/%#".contains(c) { c } else { '_' }).collect();
    let name = name.trim_matches('_');
    (!name.is_empty()).then(|| FieldDef::new(name, kind_of(name), None))
}

/// Cuts a line at its commas, but not within parentheses.
#[expect(clippy::arithmetic_side_effects, reason = "counts characters")]
fn cells(line: &str) -> Vec<&str> {
    let mut depth = 0usize;
    line.split(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .collect()
}

/// Text for a part.
fn part(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() || ",()".contains(c) { ' ' } else { c })
        .collect::<String>()
        .trim()
        .to_owned()
}

/// Two letters of a name: of its last words, which differ most.
fn letters(name: &str) -> String {
    let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
    let mut letters: String = words.iter().rev().take(2).rev().filter_map(|w| w.chars().next()).collect();
    if letters.len() < 2 {
        letters = words.last().map_or(String::new(), |w| w.chars().take(2).collect());
    }
    if letters.is_empty() { "UE".to_owned() } else { letters.to_ascii_uppercase() }
}

pub(super) fn write(user: &UserEvents) -> String {
    let mut out = String::from(
        "//Events of the application, from tx-trace\n\
         //number, name, abbreviation, colour of the upper half, of the lower half, label1, label2, label3, label4\n\
         Start\n",
    );
    for event in &user.events {
        let name = part(&event.name);
        let mut parts =
            vec![event.id.to_string(), name.clone(), letters(&name), "(0,96,160)".into(), "(255,255,255)".into()];
        // TraceX wants thirteen parts, empty or not.
        for field in event.fields.iter().chain(std::iter::repeat(&None)).take(4) {
            parts.push(field.as_ref().map_or_else(String::new, |f| part(&f.name)));
        }
        out.push_str(&parts.join(","));
        out.push('\n');
    }
    out.push_str("End\n");
    out
}
