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
    match line.split('\t').next().map_or("", str::trim) {
        "id" => cells > 1,
        "enum" | "bits" => cells > 3,
        first => first.split_whitespace().next().and_then(number).is_some(),
    }
}

/// A field before its enumeration is known.
struct Field<'a> {
    name: &'a str,
    kind: ArgKind,
    words: Option<&'a str>,
}

/// A row before the enumerations are known, with its line.
struct Row<'a> {
    at: usize,
    event: UserEvent,
    fields: Vec<Option<Field<'a>>>,
}

pub(super) fn parse(text: &str) -> Result<Parsed, Wrong> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut enumerations: Vec<Enumeration> = Vec::new();
    let mut seen: HashMap<u32, usize> = HashMap::new();
    for (at, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') || line.split('\t').next() == Some("id") {
            continue;
        }
        if at > 4 * MOST {
            return Err(Wrong::at(at, "there are more lines than ids"));
        }
        let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
        match cells.as_slice() {
            [group @ ("enum" | "bits"), rest @ ..] if !rest.is_empty() => {
                word(*group == "bits", rest, at, &mut enumerations)?;
            }
            [id, name, rest @ ..] => {
                let row = row(id, name, rest, at)?;
                if let Some(before) = seen.insert(row.event.id, at) {
                    return Err(Wrong::at(at, format!("id {} has a name already, in line {before}", row.event.id)));
                }
                rows.push(row);
            }
            one => {
                let one = one.concat();
                return Err(Wrong::at(at, format!("'{one}' is one cell: tabs separate the cells, blanks do not")));
            }
        }
    }
    let mut parsed = Parsed::default();
    parsed.user.enumerations = enumerations.into_iter().map(Arc::new).collect();
    for row in rows {
        parsed.lines.push(row.at);
        parsed.user.events.push(resolve(row, &parsed.user.enumerations)?);
    }
    if parsed.user.events.is_empty() {
        return Err(Wrong::at(0, "names no event"));
    }
    Ok(parsed)
}

fn row<'a>(id: &str, name: &str, rest: &[&'a str], at: usize) -> Result<Row<'a>, Wrong> {
    let id = number(id)
        .and_then(|n| u32::try_from(n).ok())
        .ok_or_else(|| Wrong::at(at, format!("'{id}' is not an id: a number, decimal or after 0x")))?;
    if let Some(why) = bad_name(name) {
        return Err(Wrong::at(at, why));
    }
    if rest.len() > 5 {
        return Err(Wrong::at(at, "more than id, name, four arguments and a label"));
    }
    let fields = rest.iter().take(4).map(|c| field(c, at)).collect::<Result<Vec<_>, _>>()?;
    let template = rest.get(4).copied().unwrap_or_default().to_owned();
    let event = UserEvent { id, name: name.to_owned(), template, ..UserEvent::default() };
    Ok(Row { at, event, fields })
}

/// The event of a row, with the words of its arguments.
fn resolve(row: Row<'_>, enumerations: &[Arc<Enumeration>]) -> Result<UserEvent, Wrong> {
    let Row { at, mut event, fields } = row;
    let words = |name: &str| {
        enumerations
            .iter()
            .find(|e| e.name == name)
            .cloned()
            .ok_or_else(|| Wrong::at(at, format!("no 'enum' or 'bits' line of this file defines '{name}'")))
    };
    for field in fields {
        let field = field.map(|f| Ok(FieldDef::new(f.name, f.kind, f.words.map(words).transpose()?)));
        event.fields.push(field.transpose()?);
    }
    while event.fields.last().is_some_and(Option::is_none) {
        event.fields.pop();
    }
    if let Some(name) = Template::parse(&event.template).as_ref().and_then(|t| t.unknown(&event.fields)) {
        return Err(Wrong::at(at, format!("the label names '{{{name}}}', which is not an argument of this event")));
    }
    Ok(event)
}

fn word(bits: bool, cells: &[&str], at: usize, list: &mut Vec<Enumeration>) -> Result<(), Wrong> {
    let [name, value, word] = cells else {
        return Err(Wrong::at(at, "a line with the name of a value is: enum (or bits), its set, a value, the name"));
    };
    let value = number(value).ok_or_else(|| Wrong::at(at, format!("'{value}' is not a number")))?;
    if name.is_empty() || name.contains(':') || word.is_empty() || word.chars().any(char::is_control) {
        return Err(Wrong::at(at, "a set and a name are needed"));
    }
    let (value, word) = (value, (*word).to_owned());
    match list.iter_mut().find(|e| e.name == *name) {
        None => list.push(Enumeration { name: (*name).to_owned(), words: vec![(value, word)], bits }),
        Some(own) if own.bits != bits => return Err(Wrong::at(at, format!("'{name}' is called enum and bits"))),
        Some(own) if own.words.len() >= MOST => {
            return Err(Wrong::at(at, format!("more than {MOST} names in '{name}'")));
        }
        Some(own) => own.words.push((value, word)),
    }
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
        return Err(Wrong::at(at, format!("'{name}' is not a name of an argument: letters, digits and _")));
    }
    let kind = match parts.next().filter(|k| !k.is_empty()) {
        None => kind_of(name),
        Some(text) => ArgKind::parse(text).ok_or_else(|| {
            Wrong::at(
                at,
                format!(
                    "'{text}' is not a kind: dec, hex, ptr, thread_ptr, stack_ptr, addr, ticks, state, flags, ip, size"
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
         # i1..i4: name[:kind[:set]]; label: a sentence with {i1} or {name} in it; names of values: enum (or bits), set, value, name\n",
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
