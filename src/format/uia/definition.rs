//! What a program's own ids mean: by the text after an id a declared event, else what the text itself says.

use std::collections::HashMap;

use super::FIRST_RAW;
use super::format_string::{Conversion, Piece, pieces};
use super::order::Order;
use super::text::Texts;
use crate::abi::Endian;
use crate::catalogue::{ArgKind, Catalogue, Effects, EventDef, FieldDef, Product, uia_events};

/// The most modules of one event that are considered.
const MAX_MODULES: usize = 64;

/// Puts the ids of this program's events beside the declared ones.
pub(super) fn extend(mut catalogue: Catalogue, texts: &Texts, order: &Order, endian: Endian) -> Catalogue {
    if !texts.has_tables() {
        return catalogue;
    }
    let mut events: Vec<(u16, Vec<u16>)> = Vec::new();
    let mut places: HashMap<u16, usize> = HashMap::new();
    for (event, module) in order.records.iter().filter_map(|r| r.ids(&order.bytes, endian)) {
        let place = *places.entry(event).or_insert(events.len());
        if place == events.len() {
            events.push((event, Vec::new()));
        }
        if let Some((_, modules)) = events.get_mut(place).filter(|(_, m)| !m.contains(&module)) {
            modules.extend((modules.len() < MAX_MODULES).then_some(module));
        }
    }
    for (event, modules) in events {
        let modules: Vec<String> = modules.iter().filter_map(|m| texts.module(*m)).collect();
        let def =
            if event == 0 { Some(printed()) } else { texts.rope(event).map(|text| definition(event, &text, &modules)) };
        let Some(mut def) = def else { continue };
        // A program can have one text under two ids; a declared event gets its real id.
        let taken = catalogue.named(&def.name).is_some_and(|old| old.id < FIRST_RAW || old.class != def.class);
        if taken {
            def.name = format!("{}_{event}", def.name);
        }
        catalogue.renumber(&def.name, def.id);
        catalogue.put(def);
    }
    catalogue
}

/// Id 0 is printed text: its first argument is the format string.
fn printed() -> EventDef {
    EventDef {
        fields: vec![Some(FieldDef::new("format", ArgKind::Str, None))],
        effects: Effects::mark(),
        ..EventDef::new(0, "Log.print".to_owned(), Product::User, "xdc.runtime.Log".to_owned())
    }
}

/// An argument as a text names it: the word before it, and its conversion. `oldtsk: 0x%x` is `oldtsk`.
type Argument<'a> = (&'a str, Conversion);

/// The arguments of a format string.
fn arguments(format: &str) -> Vec<Argument<'_>> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut list = Vec::new();
    let mut before = "";
    for piece in pieces(format) {
        match piece {
            Piece::Text(text) => before = text,
            Piece::Spec(spec) => {
                let text = before.strip_suffix("0x").unwrap_or(before).trim_end_matches(|c| !is_word(c));
                let word = text.rsplit(|c| !is_word(c)).next().unwrap_or(text);
                let label = if word.starts_with(|c: char| c.is_ascii_alphabetic()) { word } else { "" };
                list.push((label, spec.conversion));
                before = "";
            }
        }
    }
    list
}

/// True where a text takes the arguments of a declared event, given as `label:%x`.
fn takes(own: &[Argument<'_>], specs: &[&str]) -> bool {
    let texts: Vec<String> = specs.iter().map(|s| s.replacen(":%", " %", 1)).collect();
    texts.iter().flat_map(|text| arguments(text)).eq(own.iter().copied())
}

/// The name that a text begins with: `LM_switch` of `LM_switch: oldtsk: 0x%x`.
fn head(format: &str) -> &str {
    let end = format.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(format.len());
    format.get(..end).filter(|h| h.starts_with(|c: char| c.is_ascii_alphabetic())).unwrap_or("")
}

/// What an event means whose text this is: a declared one where the text is of one, else what the text itself says.
/// `modules` are the names of the modules that inserted it.
fn definition(id: u16, format: &str, modules: &[String]) -> EventDef {
    let (name, own) = (head(format), arguments(format));
    let mut by_name = uia_events().iter().filter(|d| d.event == name && modules.iter().any(|m| m == d.module));
    let declared = by_name.next().map(|d| d.def.clone()).or_else(|| by_arguments(&own));
    if let Some(def) = declared {
        return EventDef { id: id.into(), label: format.to_owned(), ..def };
    }
    let name = if name.is_empty() { format!("text_{id}") } else { name.to_owned() };
    EventDef {
        fields: fields(&own),
        effects: Effects::mark(),
        label: format.to_owned(),
        ..EventDef::new(id.into(), name, Product::User, modules.first().cloned().unwrap_or_default())
    }
}

/// The declared event with these arguments. Events of one module that differ in nothing but their names are called by the
/// module.
fn by_arguments(own: &[Argument<'_>]) -> Option<EventDef> {
    let mut all = uia_events().iter().filter(|d| !d.specs.is_empty() && takes(own, &d.specs)).peekable();
    let first = all.next()?;
    if all.peek().is_none() {
        return Some(first.def.clone());
    }
    let same = all.all(|d| d.module == first.module && d.def.fields == first.def.fields);
    let name = first.module.rsplit('.').next().unwrap_or(first.module).to_owned();
    let macro_name = String::new();
    same.then(|| EventDef { name, macro_name, effects: Effects::mark(), ..first.def.clone() })
}

/// The fields of an event that no module declares, by its arguments.
#[expect(clippy::arithmetic_side_effects, reason = "counts arguments")]
fn fields(arguments: &[Argument<'_>]) -> Vec<Option<FieldDef>> {
    let mut fields: Vec<Option<FieldDef>> = Vec::new();
    let mut add = |label: &str, kind| {
        let number = fields.len() + 1;
        let plain = if label.is_empty() { format!("arg{number}") } else { label.to_owned() };
        let taken = fields.iter().flatten().any(|f| f.name == plain);
        let name = if taken { format!("{plain}{number}") } else { plain };
        fields.push(Some(FieldDef::new(&name, kind, None)));
    };
    let mut half = false;
    for (label, conversion) in arguments {
        match conversion {
            Conversion::Site => {
                add("file", conversion.kind());
                add("line", ArgKind::Dec);
            }
            // The other half of the word before.
            Conversion::Half if half => {}
            _ => add(label, conversion.kind()),
        }
        half = *conversion == Conversion::Half && !half;
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_matched_to_the_declared_event() {
        let of = |text: &str, module: &str| definition(5, text, &[module.to_owned()]);
        let text = "LM_switch: oldtsk: 0x%x, oldfunc: 0x%x, newtsk: 0x%x, newfunc: 0x%x";
        assert_eq!(of(text, "ti.sysbios.knl.Task").name, "Task.LM_switch");
        assert_eq!(of(text, "").name, "Task.LM_switch");
        assert_eq!(of("LM_begin: clk: 0x%x, func: 0x%x", "ti.sysbios.knl.Clock").name, "Clock.LM_begin");
        let own = of("motor %d stopped at %x by %s", "app.Motor");
        assert_eq!((own.name.as_str(), own.fields.len(), own.class.as_str()), ("motor", 3, "app.Motor"));
        assert_eq!(of("%d", "").name, "text_5");
    }
}
