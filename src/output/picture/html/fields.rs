//! The fields of events: what they are called, and what their values say.
//!
//! A page has the values as numbers and prints most of them itself, in hexadecimal or decimal. Where a value says something
//! else (a name, a word of a list) the page has a text for it, once for all events of its kind.

#![allow(clippy::arithmetic_side_effects, reason = "places in lists in memory")]

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use serde::Serialize;

use super::pack::Column;
use crate::catalogue::{ArgKind, Product};
use crate::output::row::Rows;
use crate::output::text::{add_decimal, add_hex};
use crate::output::{View, escape};
use crate::trace::{DefId, Event};

/// The most texts of values. What comes later has its text with its event.
const TEXTS: usize = 1 << 15;
/// The most kinds of events: damage makes many ids.
const SCHEMAS: usize = 1 << 13;

/// Words whose bits have a number together.
const MASK: usize = 24;

/// How a page prints a value without a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Form {
    Hex,
    Dec,
}

/// A field.
#[derive(Debug, Serialize)]
struct Field {
    name: String,
    kind: Form,
    /// The place of its value in those of the event, counted in words of 32 bits.
    at: usize,
    /// True where the value takes two words.
    wide: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    texts: BTreeMap<String, String>,
    /// The same by value.
    #[serde(skip)]
    known: HashMap<u64, Box<str>>,
    #[serde(skip)]
    word: usize,
}

/// Events that have the same fields.
#[derive(Debug, Serialize)]
pub(super) struct Schema {
    name: String,
    /// True for an event of the application.
    user: bool,
    /// Words of 32 bits of all values.
    units: usize,
    fields: Vec<Field>,
    /// The values of the event before.
    #[serde(skip)]
    last: Vec<u64>,
}

/// A value of the event that was taken.
#[derive(Debug)]
struct Taken {
    word: usize,
    /// Its place among the others, before that of its word.
    rank: u8,
    value: u64,
    wide: bool,
    /// How it is printed; `None` where that is neither of both.
    form: Option<Form>,
    name: Range<usize>,
    text: Range<usize>,
}

/// All kinds of events so far, and the event that was taken last.
#[derive(Debug, Default)]
pub(super) struct Fields {
    schemas: Vec<Schema>,
    by_id: HashMap<(Option<DefId>, u32), Vec<usize>>,
    texts: usize,
    taken: Vec<Taken>,
    buffer: String,
    scratch: String,
    current: usize,
    odd: Vec<(u64, String)>,
    steps: Vec<i32>,
}

impl Fields {
    /// All kinds of events.
    pub(super) fn schemas(&self) -> &[Schema] {
        &self.schemas
    }

    /// The number of the kind of the event that was taken.
    pub(super) fn schema(&self) -> u64 {
        self.current as u64
    }

    /// A block ends: the first event of each kind has its values whole.
    pub(super) fn forget(&mut self) {
        self.schemas.iter_mut().for_each(|schema| schema.last.fill(0));
    }

    /// Takes an event.
    pub(super) fn take(&mut self, rows: &mut Rows, view: &View<'_>, event: &Event) {
        self.taken.clear();
        self.odd.clear();
        self.buffer.clear();
        let (taken, buffer, scratch) = (&mut self.taken, &mut self.buffer, &mut self.scratch);
        rows.args(view, event, |arg| {
            let name = add(buffer, arg.label);
            let form = if arg.doubtful { None } else { form(arg.value, arg.text, scratch) };
            let text = add(buffer, arg.text);
            if arg.doubtful {
                buffer.push('?');
            }
            let wide = u32::try_from(arg.value).is_err();
            let text = text.start..buffer.len();
            taken.push(Taken { word: arg.word, rank: rank(arg.kind), value: arg.value, wide, form, name, text });
        });
        // As in a table: what says least comes last.
        self.taken.sort_by_key(|taken| taken.rank);
        self.current = self.find(view, event);
        self.say();
    }

    /// The kind of the event that was taken.
    fn find(&mut self, view: &View<'_>, event: &Event) -> usize {
        let known = self.by_id.entry((event.def, event.id)).or_default();
        let schemas = &self.schemas;
        let fits = |at: &usize| {
            schemas.get(*at).is_some_and(|schema| {
                let mut pairs = schema.fields.iter().zip(&self.taken);
                schema.fields.len() == self.taken.len() && pairs.all(|(f, t)| f.word == t.word && (f.wide || !t.wide))
            })
        };
        if let Some(at) = known.iter().copied().find(fits) {
            return at;
        }
        let at = self.schemas.len();
        if at > SCHEMAS {
            self.taken.clear();
            return at - 1;
        }
        known.push(at);
        let is_full = at == SCHEMAS;
        let name = if is_full { "more kinds of events".to_owned() } else { escape(&Rows::event(view, event)) };
        if is_full {
            self.taken.clear();
        }
        let user = event.def.and_then(|d| view.catalogue.def(d)).is_some_and(|def| def.product == Product::User);
        let mut units = 0;
        let mut fields = Vec::with_capacity(self.taken.len());
        for taken in &self.taken {
            let name = escape(self.buffer.get(taken.name.clone()).unwrap_or_default());
            let kind = taken.form.unwrap_or(Form::Hex);
            let (texts, known) = (BTreeMap::new(), HashMap::new());
            fields.push(Field { name, kind, at: units, wide: taken.wide, texts, known, word: taken.word });
            units += if taken.wide { 2 } else { 1 };
        }
        let last = vec![0; fields.len()];
        self.schemas.push(Schema { name, user, units, fields, last });
        at
    }

    /// Finds the texts of the event's values.
    fn say(&mut self) {
        let Some(schema) = self.schemas.get_mut(self.current) else { return };
        for (number, (field, taken)) in (0u64..).zip(schema.fields.iter_mut().zip(&self.taken)) {
            let known = if field.known.is_empty() { None } else { field.known.get(&taken.value) };
            if known.is_none() && taken.form == Some(field.kind) {
                continue;
            }
            let text = self.buffer.get(taken.text.clone()).unwrap_or_default();
            if known.is_some_and(|known| **known == *text) {
                continue;
            }
            let is_doubtful = text.ends_with('?');
            if known.is_none() && self.texts < TEXTS && !is_doubtful {
                self.texts += 1;
                field.known.insert(taken.value, text.into());
            } else {
                self.odd.push((number, escape(text)));
            }
        }
    }

    /// Adds the values of the event that was taken, in words of 32 bits: which of them are not those of the event before, a
    /// bit each, then by how much each of these differs.
    pub(super) fn values(&mut self, column: &mut Column) {
        let Some(schema) = self.schemas.get_mut(self.current) else { return };
        self.steps.clear();
        for ((field, last), taken) in schema.fields.iter().zip(&mut schema.last).zip(&self.taken) {
            let before = std::mem::replace(last, taken.value);
            self.steps.push(step(before, taken.value));
            if field.wide {
                self.steps.push(step(before >> 32, taken.value >> 32));
            }
        }
        for steps in self.steps.chunks(MASK) {
            let bits = steps.iter().enumerate().fold(0u64, |bits, (i, step)| bits | u64::from(*step != 0) << i);
            column.number(bits);
            steps.iter().filter(|step| **step != 0).for_each(|step| column.signed(i64::from(*step)));
        }
    }

    /// Texts that only this event has: the number of the field, and the text, escaped.
    pub(super) fn odd_texts(&self) -> &[(u64, String)] {
        &self.odd
    }

    /// Before the page's JSON is made: texts by value as JSON has them.
    pub(super) fn finish(&mut self) {
        for field in self.schemas.iter_mut().flat_map(|schema| &mut schema.fields) {
            field.texts = field.known.iter().map(|(value, text)| (format!("{value:#x}"), escape(text))).collect();
        }
    }
}

/// What happened comes first; raw addresses and stack pointers, which say least, come last.
const fn rank(kind: ArgKind) -> u8 {
    match kind {
        ArgKind::StackPtr => 2,
        ArgKind::Addr | ArgKind::Code => 1,
        _ => 0,
    }
}

/// The difference of the low 32 bits.
fn step(from: u64, to: u64) -> i32 {
    let low = |value: u64| (value & 0xFFFF_FFFF) as u32;
    low(to).wrapping_sub(low(from)).cast_signed()
}

fn add(buffer: &mut String, text: &str) -> Range<usize> {
    let from = buffer.len();
    buffer.push_str(text);
    from..buffer.len()
}

/// How a text prints a value, where it is one of the forms.
fn form(value: u64, text: &str, scratch: &mut String) -> Option<Form> {
    scratch.clear();
    if text.starts_with("0x") {
        add_hex(scratch, value, 1);
        return (*scratch == text).then_some(Form::Hex);
    }
    add_decimal(scratch, value);
    (*scratch == text).then_some(Form::Dec)
}
