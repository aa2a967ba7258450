//! Our own table: `id name i1 i2 i3 i4 label`, tab-separated, and `enum NAME value word` lines.

use std::collections::HashMap;
use std::sync::Arc;

use super::{MOST, Parsed, Template, UserEvent, UserEvents, Wrong, bad_name, kind_of};
use crate::catalogue::table::number;
use crate::catalogue::{ArgKind, Enumeration, FieldDef};

/// The head that we write. Ours or not, a head is passed over.
const HEAD: &str = "id\tname\ti1\ti2\ti3\ti4\tlabel";

/// True where a line can only be one of ours. Nothing else begins with a number.
pub(super) fn is_row(line: &str) -> bool {
    let cells = line.split('\t').count();
    match line.split('\t').next().unwrap_or("").trim() {
        "id" => cells > 1,
        "enum" | "bits" => cells > 3,
        first => number(first.split_whitespace().next().unwrap_or("")).is_some(),
    }
}

/// A field before its enumeration is known.
struct Field<'a> {
    name: &'a str,
    kind: ArgKind,
    words: Option<&'a str>,
}

pub(super) fn parse(text: &str) -> Result<Parsed, Wrong> {
    let mut rows: Vec<(usize, UserEvent, Vec<Option<Field<'_>>>)> = Vec::new();
    let mut enumerations: Vec<Enumeration> = Vec::new();
    let mut seen: HashMap<u32, usize> = HashMap::new();
    for (number_of_line, line) in text.lines().enumerate() {
        let at = number_of_line.saturating_add(1);
        if line.trim().is_empty() || line.starts_with('#') || line.split('\t').next() == Some("id") {
            continue;
        }
        if at > MOST.saturating_mul(4) {
            return Err(Wrong::at(at, "there are more lines than ids"));
        }
        let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
        match cells.as_slice() {
            [one] => {
                return Err(Wrong::at(at, format!("'{one}' is one cell: tabs separate the cells, blanks do not")));
            }
            [group @ ("enum" | "bits"), rest @ ..] => word(*group == "bits", rest, at, &mut enumerations)?,
            [id, name, rest @ ..] => {
                let id = number(id)
                    .and_then(|n| u32::try_from(n).ok())
                    .ok_or_else(|| Wrong::at(at, format!("'{id}' is no id: a number, decimal or behind 0x")))?;
                if let Some(why) = bad_name(name) {
                    return Err(Wrong::at(at, why));
                }
                if let Some(before) = seen.insert(id, at) {
                    return Err(Wrong::at(at, format!("id {id} has a name already, in line {before}")));
                }
                if rest.len() > 5 {
                    return Err(Wrong::at(at, "more than id, name, four arguments and a label"));
                }
                let fields = rest.iter().take(4).map(|c| field(c, at)).collect::<Result<Vec<_>, _>>()?;
                let template = rest.get(4).copied().unwrap_or("").to_owned();
                let event = UserEvent { id, name: (*name).to_owned(), template, ..UserEvent::default() };
                rows.push((at, event, fields));
            }
            [] => {}
        }
    }
    let enumerations: Vec<Arc<Enumeration>> = enumerations.into_iter().map(Arc::new).collect();
    let by_name: HashMap<&str, &Arc<Enumeration>> = enumerations.iter().map(|e| (e.name.as_str(), e)).collect();
    let mut parsed = Parsed::default();
    for (at, mut event, fields) in rows {
        for field in fields {
            event.fields.push(match field {
                None => None,
                Some(Field { name, kind, words }) => {
                    let words = words.map(|w| {
                        by_name.get(w).map(|e| Arc::clone(e)).ok_or_else(|| {
                            Wrong::at(at, format!("no 'enum' or 'bits' line of this file gives words for '{w}'"))
                        })
                    });
                    Some(FieldDef::new(name, kind, words.transpose()?))
                }
            });
        }
        while event.fields.last().is_some_and(Option::is_none) {
            event.fields.pop();
        }
        if let Some(name) = Template::parse(&event.template).as_ref().and_then(|t| t.unknown(&event.fields)) {
            return Err(Wrong::at(at, format!("the label names '{{{name}}}', which is no argument of this event")));
        }
        parsed.lines.push(at);
        parsed.user.events.push(event);
    }
    parsed.user.enumerations = enumerations;
    if parsed.user.events.is_empty() {
        return Err(Wrong::at(0, "names no event"));
    }
    Ok(parsed)
}

fn word(bits: bool, cells: &[&str], at: usize, list: &mut Vec<Enumeration>) -> Result<(), Wrong> {
    let [name, value, word] = cells else {
        return Err(Wrong::at(at, "a line of words is: enum (or bits), its name, a value, its word"));
    };
    let value = number(value).ok_or_else(|| Wrong::at(at, format!("'{value}' is no number")))?;
    if name.is_empty() || name.contains(':') || word.is_empty() || word.chars().any(char::is_control) {
        return Err(Wrong::at(at, "a name and a word are needed"));
    }
    let place = list.iter().rposition(|e| e.name == *name);
    let own = match place.and_then(|i| list.get_mut(i)) {
        Some(own) => own,
        None => {
            list.push(Enumeration { name: (*name).to_owned(), words: Vec::new(), bits });
            match list.last_mut() {
                Some(own) => own,
                None => return Ok(()),
            }
        }
    };
    if own.bits != bits {
        return Err(Wrong::at(at, format!("'{name}' is called enum and bits")));
    }
    if own.words.len() >= MOST {
        return Err(Wrong::at(at, format!("more than {MOST} words of '{name}'")));
    }
    own.words.push((value, (*word).to_owned()));
    Ok(())
}

/// `name`, `name:kind` or `name:kind:enumeration`; an empty cell is no argument.
fn field(cell: &str, at: usize) -> Result<Option<Field<'_>>, Wrong> {
    if cell.is_empty() {
        return Ok(None);
    }
    let mut parts = cell.splitn(3, ':');
    let name = parts.next().unwrap_or("");
    if name.is_empty() || name.chars().any(|c| c.is_control() || c.is_whitespace() || "=!<>,{}".contains(c)) {
        return Err(Wrong::at(at, format!("'{name}' is no name of an argument: letters, digits and _")));
    }
    let kind = match parts.next().filter(|k| !k.is_empty()) {
        None => kind_of(name),
        Some(text) => ArgKind::parse(text).ok_or_else(|| {
            Wrong::at(
                at,
                format!(
                    "'{text}' is no kind: dec, hex, ptr, thread_ptr, stack_ptr, addr, ticks, state, flags, ip, size"
                ),
            )
        })?,
    };
    Ok(Some(Field { name, kind, words: parts.next().filter(|w| !w.is_empty()) }))
}

/// Text for a cell.
fn cell(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}

pub(super) fn write(user: &UserEvents) -> String {
    let mut out = String::from(
        "# Events of the application, for tx-trace. Cells are separated by tabs.\n\
         # i1..i4: name[:kind[:words]]; label: a sentence with {i1} or {name} in it; words: enum (or bits), name, value, word\n",
    );
    out.push_str(HEAD);
    out.push('\n');
    for event in &user.events {
        let mut cells = vec![event.id.to_string(), cell(&event.name)];
        for field in event.fields.iter().chain(std::iter::repeat(&None)).take(4) {
            cells.push(match field {
                None => String::new(),
                Some(f) => match &f.words {
                    None => format!("{}:{}", cell(&f.name), f.kind.name()),
                    Some(words) => format!("{}:{}:{}", cell(&f.name), f.kind.name(), cell(&words.name)),
                },
            });
        }
        cells.push(cell(&event.template));
        let line = cells.join("\t");
        out.push_str(line.trim_end_matches('\t'));
        out.push('\n');
    }
    for e in &user.enumerations {
        for (value, word) in &e.words {
            let group = if e.bits { "bits" } else { "enum" };
            let value = if e.bits { format!("{value:#x}") } else { value.to_string() };
            out.push_str(&format!("{group}\t{}\t{value}\t{}\n", cell(&e.name), cell(word)));
        }
    }
    out
}
