//! `--arg NAME=VALUE`: comparisons of payload words, compiled for each definition.

use super::Terms;
use super::select::{Scope, addresses, no_object, number, passes};
use super::wrong_filter;
use crate::abi::Endian;
use crate::catalogue::{ArgKind, EventDef, FieldDef, Takes};
use crate::error::Error;
use crate::near::{did_you_mean, nearest};
use crate::trace::DefId;

/// How a word is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Op {
    /// Longer ones first: `<=` begins with `<`.
    const ALL: [(&'static str, Self); 7] = [
        ("!=", Self::Unequal),
        ("<=", Self::LessEqual),
        (">=", Self::GreaterEqual),
        ("==", Self::Equal),
        ("=", Self::Equal),
        ("<", Self::Less),
        (">", Self::Greater),
    ];
}

/// `NAME=VALUE`, taken apart.
pub(super) fn parse(text: &str) -> Result<(&str, Op, &str), Error> {
    let wrong = || {
        wrong_filter("not a comparison of an argument with a value")
            .hint("NAME=VALUE, with = != < > <= or >=; NAME is an argument's name or i1 to i4 (tx-trace help filters)")
    };
    let at = text.find(['=', '!', '<', '>']).ok_or_else(wrong)?;
    let (name, rest) = text.split_at_checked(at).ok_or_else(wrong)?;
    let (mark, op) = Op::ALL.into_iter().find(|(mark, _)| rest.starts_with(mark)).ok_or_else(wrong)?;
    let value = rest.strip_prefix(mark).unwrap_or("").trim();
    let name = name.trim();
    if name.is_empty() || value.is_empty() {
        return Err(wrong());
    }
    Ok((name, op, value))
}

/// What a value means in one field.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    /// Any of these numbers.
    Any(Vec<u64>),
    /// These bits.
    Bits(u64),
}

/// One comparison of one word.
#[derive(Debug, Clone)]
struct Test {
    term: usize,
    word: usize,
    takes: Takes,
    op: Op,
    value: Value,
}

impl Test {
    fn holds(&self, words: &[u64], endian: Endian) -> bool {
        let Some(word) = self.takes.value(words, self.word, endian) else { return false };
        let word = &word;
        match &self.value {
            Value::Bits(bits) => (word & bits == *bits) == (self.op == Op::Equal),
            Value::Any(values) => match self.op {
                Op::Equal => values.contains(word),
                Op::Unequal => !values.contains(word),
                Op::Less => values.iter().any(|v| word < v),
                Op::LessEqual => values.iter().any(|v| word <= v),
                Op::Greater => values.iter().any(|v| word > v),
                Op::GreaterEqual => values.iter().any(|v| word >= v),
            },
        }
    }
}

/// All of `--arg`, compiled.
pub(super) struct Args {
    /// For each term whether it excludes.
    terms: Vec<bool>,
    /// By definition.
    defs: Vec<Vec<Test>>,
    /// For events without a definition: their words have numbers but no names.
    unknown: Vec<Test>,
    endian: Endian,
}

impl Args {
    pub(super) fn keeps(&self, def: Option<DefId>, words: &[u64]) -> bool {
        let tests = def.and_then(|d| self.defs.get(d.index())).map_or(self.unknown.as_slice(), Vec::as_slice);
        passes(
            self.terms
                .iter()
                .enumerate()
                .map(|(i, exclude)| (*exclude, tests.iter().any(|t| t.term == i && t.holds(words, self.endian)))),
        )
    }
}

/// The word (from 0) that `i1`, or `info1`, names.
pub(super) fn word_number(name: &str) -> Option<usize> {
    let low = name.to_ascii_lowercase();
    let n: usize = low.strip_prefix("info").or_else(|| low.strip_prefix('i'))?.parse().ok()?;
    n.checked_sub(1)
}

pub(super) fn is_named(field: &FieldDef, name: &str) -> bool {
    // `kernel_ticks` was `ticks` once.
    let short = field.label.strip_prefix("kernel_").unwrap_or(&field.label);
    [&field.name, &*field.label, short].iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// A dotted IPv4 address.
fn dotted(text: &str) -> Option<u64> {
    text.parse::<std::net::Ipv4Addr>().ok().map(|ip| u64::from(u32::from(ip)))
}

/// What the typed value means in this field; `None` where it means nothing there.
fn value(field: &FieldDef, text: &str, op: Op, objects: &[u64]) -> Option<Value> {
    if let Some(words) = &field.words {
        let word = |w: &str| words.words.iter().find(|(_, own)| own.eq_ignore_ascii_case(w)).map(|(v, _)| *v);
        if words.bits && matches!(op, Op::Equal | Op::Unequal) {
            let bits = text.split('|').map(|w| word(w.trim())).collect::<Option<Vec<_>>>();
            if let Some(bits) = bits {
                return Some(Value::Bits(bits.into_iter().fold(0, |all, b| all | b)));
            }
        } else if let Some(v) = word(text) {
            return Some(Value::Any(vec![v]));
        }
    }
    if let Some(n) = number(text) {
        return Some(Value::Any(vec![n]));
    }
    match field.kind {
        ArgKind::Ptr | ArgKind::ThreadPtr | ArgKind::Process if !objects.is_empty() => {
            Some(Value::Any(objects.to_vec()))
        }
        ArgKind::ThreadPtr if matches!(text, "idle" | "none") => Some(Value::Any(vec![0])),
        ArgKind::Ip => dotted(text).map(|n| Value::Any(vec![n])),
        _ => None,
    }
}

pub(super) fn compile(terms: &Terms, scope: &Scope<'_>) -> Result<Option<Args>, Error> {
    if terms.is_empty() {
        return Ok(None);
    }
    let mut all = Args {
        terms: terms.iter().map(|t| t.exclude).collect(),
        defs: vec![Vec::new(); scope.catalogue.iter().count()],
        unknown: Vec::new(),
        endian: scope.trace.about.endian,
    };
    for (i, term) in terms.iter().enumerate() {
        let (name, op, text) = parse(&term.text)?;
        let objects = if number(text).is_some() { Vec::new() } else { addresses(text, scope) };
        let by_number = word_number(name);
        // What was met on the way, to say what is wrong when nothing fits.
        let (mut named, mut fits, mut points) = (by_number.is_some(), false, false);
        for (def, tests) in scope.catalogue.iter().zip(&mut all.defs) {
            for (word, field) in fields(def) {
                if by_number.map_or_else(|| !is_named(field, name), |n| n != word) {
                    continue;
                }
                named = true;
                points |= matches!(field.kind, ArgKind::Ptr | ArgKind::ThreadPtr | ArgKind::Process);
                if let Some(value) = value(field, text, op, &objects) {
                    fits = true;
                    tests.push(Test { term: i, word, takes: field.takes, op, value });
                }
            }
            // A word that means nothing to its definition still has a number.
            if let (Some(word), Some(n)) = (by_number, number(text))
                && def.field(word).is_none()
            {
                tests.push(Test { term: i, word, takes: Takes::One, op, value: Value::Any(vec![n]) });
            }
        }
        if let Some(word) = by_number {
            let values = number(text).map_or(objects, |n| vec![n]);
            if !values.is_empty() {
                fits = true;
                all.unknown.push(Test { term: i, word, takes: Takes::One, op, value: Value::Any(values) });
            }
        }
        if !named {
            return Err(no_field(name, scope));
        }
        if !fits {
            return Err(if points { no_object(text, scope) } else { no_value(name, text, scope) });
        }
    }
    Ok(Some(all))
}

pub(super) fn fields(def: &EventDef) -> impl Iterator<Item = (usize, &FieldDef)> {
    def.fields.iter().enumerate().filter_map(|(i, f)| f.as_ref().map(|f| (i, f)))
}

fn no_field(name: &str, scope: &Scope<'_>) -> Error {
    let all = scope.catalogue.iter().flat_map(fields).flat_map(|(_, f)| [f.name.as_str(), f.label.as_str()]);
    let near = nearest(name, all);
    wrong_filter(format!("no event has an argument '{name}'")).hint(if near.is_empty() {
        "`tx-trace events` lists the arguments of each event; i1 to i4 are the words themselves".to_owned()
    } else {
        did_you_mean(&near, "")
    })
}

fn no_value(name: &str, text: &str, scope: &Scope<'_>) -> Error {
    let mut words: Vec<&str> = scope
        .catalogue
        .iter()
        .flat_map(fields)
        .filter(|(_, f)| is_named(f, name))
        .filter_map(|(_, f)| f.words.as_ref())
        .flat_map(|e| e.words.iter().map(|(_, w)| w.as_str()))
        .collect();
    words.sort_unstable();
    words.dedup();
    wrong_filter(format!("'{text}' is not a value of the argument '{name}'")).hint(if words.is_empty() {
        "a value is a number: 4096, 0x1000".to_owned()
    } else {
        format!("a value is a number, or one of {}", words.join(", "))
    })
}
