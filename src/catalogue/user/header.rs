//! C headers: `#define NAME 4096u` and `enum { A = 4096, B }`.
//!
//! No preprocessor: what `#if` leaves out is read too, files are not included, and a macro's value is that of its
//! expression, not of its text. Of a header only names in the range of applications are events.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use super::expr::{Token, tokens, value};
use super::{MOST, Parsed, Wrong, bad_name, named};

/// The most notes that are kept.
const NOTES: usize = 16;

/// Values of names, each computed at its first use.
#[derive(Default)]
pub struct Macros<'a> {
    bodies: HashMap<&'a str, &'a str>,
    known: HashMap<&'a str, Option<i64>>,
    /// Names of another kind: enumerators.
    given: HashMap<String, i64>,
}

impl<'a> Macros<'a> {
    /// A macro without parameters. The first definition stays; false where another one is there.
    pub fn define(&mut self, name: &'a str, body: &'a str) -> bool {
        *self.bodies.entry(name).or_insert(body) == body
    }

    /// The value of a name.
    pub fn value(&mut self, name: &str) -> Option<i64> {
        self.at_depth(name, 0)
    }

    fn at_depth(&mut self, name: &str, depth: u32) -> Option<i64> {
        if let Some(given) = self.given.get(name) {
            return Some(*given);
        }
        let Some((name, body)) = self.bodies.get_key_value(name).map(|(n, b)| (*n, *b)) else {
            return match name {
                // The kernel's own, in a header that is not this one.
                "TX_TRACE_USER_EVENT_START" => Some(4096),
                "TX_TRACE_USER_EVENT_END" => Some(65535),
                _ => None,
            };
        };
        if let Some(known) = self.known.get(name) {
            return *known;
        }
        // A macro that names itself has no value.
        self.known.insert(name, None);
        let found = value(&tokens(body), depth, &mut |other, depth| self.at_depth(other, depth));
        self.known.insert(name, found);
        found
    }
}

/// True for names that a compiler, its library or the kernel defines.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with('_') || name.starts_with("TX_")
}

/// A line as the compiler sees it: joined with those that continue it, without comments.
struct Line {
    at: usize,
    text: String,
}

fn lines(text: &str) -> Vec<Line> {
    let mut list: Vec<Line> = Vec::new();
    let (mut comment, mut joined) = (false, false);
    for (at, raw) in (1..).zip(text.lines()) {
        let mut out = String::new();
        let mut chars = raw.chars().peekable();
        let mut quote: Option<char> = None;
        while let Some(c) = chars.next() {
            let next = chars.peek().copied();
            if comment {
                if c == '*' && next == Some('/') {
                    comment = false;
                    chars.next();
                    out.push(' ');
                }
                continue;
            }
            match (quote, c, next) {
                (None, '/', Some('*')) => {
                    comment = true;
                    chars.next();
                }
                (None, '/', Some('/')) => break,
                (Some(_), '\\', Some(n)) => {
                    chars.next();
                    out.extend([c, n]);
                }
                // A quote between digits separates them.
                (None, '"' | '\'', _) if c == '"' || !out.ends_with(|d: char| d.is_ascii_hexdigit()) => {
                    quote = Some(c);
                    out.push(c);
                }
                (Some(q), c, _) => {
                    quote = (c != q).then_some(q);
                    out.push(c);
                }
                (None, c, _) => out.push(c),
            }
        }
        let continues = out.ends_with('\\');
        if continues {
            out.pop();
        }
        match list.last_mut() {
            Some(last) if joined => {
                last.text.push(' ');
                last.text.push_str(&out);
            }
            _ => list.push(Line { at, text: out }),
        }
        joined = continues;
    }
    list
}

/// `define NAME body`, after the `#`; a macro with parameters is none.
fn object_macro(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    let (name, body) = text.split_at_checked(end)?;
    let body = if body.is_empty() { body } else { body.strip_prefix(char::is_whitespace)? };
    (!name.is_empty()).then(|| (name, body.trim()))
}

pub(super) fn parse(text: &str, ids: &RangeInclusive<u32>) -> Result<Parsed, Wrong> {
    let lines = lines(text);
    let mut parsed = Parsed::default();
    let mut note = |at: usize, text: String| {
        if parsed.notes.len() < NOTES {
            parsed.notes.push((at, text));
        }
    };
    let mut macros = Macros::default();
    let mut names: Vec<(usize, &str)> = Vec::new();
    let mut code: Vec<(usize, Token<'_>)> = Vec::new();
    for line in &lines {
        match line.text.trim_start().strip_prefix('#') {
            Some(directive) => {
                let defined = directive.trim_start().strip_prefix("define").and_then(object_macro);
                if let Some((name, body)) = defined.filter(|(_, body)| !body.is_empty()) {
                    if let Some(why) = bad_name(name) {
                        note(line.at, format!("{name}: {why}: ignored"));
                    } else if !macros.define(name, body) {
                        note(line.at, format!("{name} is defined a second time, as something else: ignored"));
                    } else if names.len() < MOST {
                        names.push((line.at, name));
                    }
                }
            }
            None => code.extend(tokens(&line.text).into_iter().map(|t| (line.at, t))),
        }
    }
    let mut found: Vec<(usize, String, i64)> = Vec::new();
    for (at, name, value) in enumerators(&code, &mut macros, &mut note) {
        found.push((at, name.to_owned(), value));
    }
    for (at, name) in names {
        if let Some(value) = macros.value(name) {
            found.push((at, name.to_owned(), value));
        }
    }
    found.sort_by_key(|(at, ..)| *at);
    let mut first: HashMap<u32, usize> = HashMap::new();
    let mut pairs = Vec::new();
    for (at, name, value) in found {
        if let Some(id) = u32::try_from(value).ok().filter(|id| ids.contains(id)) {
            first.entry(id).or_insert(at);
            pairs.push((id, name));
        }
    }
    parsed.user.events = named(pairs);
    parsed.lines = parsed.user.events.iter().map(|e| first.get(&e.id).copied().unwrap_or(0)).collect();
    if parsed.user.events.is_empty() {
        if let Some((line, why)) = parsed.notes.first() {
            return Err(Wrong::at(*line, why.clone()));
        }
        let (a, b) = (ids.start(), ids.end());
        return Err(Wrong::at(
            0,
            format!("defines no name with a value from {a} to {b}, where events of applications are"),
        ));
    }
    Ok(parsed)
}

/// Every enumerator with its value.
fn enumerators<'t>(
    code: &[(usize, Token<'t>)],
    macros: &mut Macros<'_>,
    note: &mut dyn FnMut(usize, String),
) -> Vec<(usize, &'t str, i64)> {
    let mut list = Vec::new();
    let mut rest = code;
    while let Some(((_, token), behind)) = rest.split_first() {
        rest = behind;
        if *token != Token::Word("enum") {
            continue;
        }
        // A name, attributes, a type; a body, or something that is no definition.
        let Some(open) = rest.iter().position(|(_, t)| matches!(t, Token::Mark("{" | ";" | ")" | "," | "="))) else {
            break;
        };
        rest = rest.get(open..).unwrap_or_default();
        let [(_, Token::Mark("{")), body @ ..] = rest else { continue };
        rest = body;
        let mut next = Some(0i64);
        loop {
            let end = item_end(rest);
            let (item, behind) = rest.split_at_checked(end).unwrap_or((rest, &[]));
            if let Some((at, Token::Word(name))) = item.first().copied() {
                let mut set = item.iter().map(|(_, t)| *t).skip_while(|t| *t != Token::Mark("="));
                if set.next().is_some() {
                    let expression: Vec<Token<'_>> = set.collect();
                    next = value(&expression, 0, &mut |n, depth| macros.at_depth(n, depth));
                    if next.is_none() {
                        note(
                            at,
                            format!(
                                "{name} has a value that this file does not define: it and those after it are left out"
                            ),
                        );
                    }
                }
                if let Some(value) = next
                    && list.len() < MOST
                {
                    list.push((at, name, value));
                    macros.given.insert(name.to_owned(), value);
                }
                next = next.and_then(|n| n.checked_add(1));
            }
            let Some(((_, mark), behind)) = behind.split_first() else {
                rest = &[];
                break;
            };
            rest = behind;
            if *mark != Token::Mark(",") {
                break;
            }
        }
    }
    list
}

/// Where an enumerator ends: at a comma or brace that is in no parentheses.
#[expect(clippy::arithmetic_side_effects, reason = "counts tokens")]
fn item_end(code: &[(usize, Token<'_>)]) -> usize {
    let mut depth = 0usize;
    code.iter()
        .position(|(_, t)| match t {
            Token::Mark("(") => {
                depth += 1;
                false
            }
            Token::Mark(")") => {
                depth = depth.saturating_sub(1);
                false
            }
            Token::Mark(",") => depth == 0,
            Token::Mark("}") => true,
            _ => false,
        })
        .unwrap_or(code.len())
}
