//! The format strings of `Log` events: the text that they make of their arguments, and the names of these arguments.

#![expect(clippy::arithmetic_side_effects, reason = "counts arguments and columns of short texts")]

use std::fmt::Write;

use crate::abi::Width;
use crate::catalogue::ArgKind;

/// How deep format strings may name each other.
const NESTED: usize = 3;
/// The longest text that is made.
pub(super) const MAX_TEXT: usize = 512;

/// What a conversion does with its argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conversion {
    Int,
    Unsigned,
    Octal,
    Hex,
    Upper,
    Pointer,
    Char,
    Str,
    Float,
    /// `%$L`: a label structure.
    Label,
    /// `%$F`: file and line, two arguments.
    Site,
    /// `%$S`: another format string, which takes the arguments that follow.
    Nested,
    /// `%h` in a snapshot's text: half of a word.
    Half,
}

impl Conversion {
    /// What its argument is; a site is a string and a number.
    pub const fn kind(self) -> ArgKind {
        match self {
            Self::Int | Self::Char => ArgKind::Int,
            Self::Unsigned => ArgKind::Dec,
            Self::Str | Self::Nested | Self::Site => ArgKind::Str,
            Self::Pointer => ArgKind::Ptr,
            Self::Half | Self::Octal | Self::Hex | Self::Upper | Self::Float | Self::Label => ArgKind::Hex,
        }
    }

    /// True where its argument is the address of a string.
    const fn is_string(self) -> bool {
        matches!(self, Self::Str | Self::Site | Self::Nested)
    }
}

/// A conversion with its width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spec {
    pub conversion: Conversion,
    width: usize,
    zero: bool,
    left: bool,
}

impl Spec {
    fn pad(&self, text: &str, out: &mut String) {
        // Writing to a string does not fail.
        let _ = match (self.left, text.strip_prefix('-')) {
            (true, _) => write!(out, "{text:<width$}", width = self.width),
            (false, Some(digits)) if self.zero => write!(out, "-{digits:0>width$}", width = self.width.max(1) - 1),
            (false, _) if self.zero => write!(out, "{text:0>width$}", width = self.width),
            (false, _) => write!(out, "{text:>width$}", width = self.width),
        };
    }

    /// The conversion after a `%`, and what follows it; `None` where it is none.
    fn of(text: &str) -> Option<(Self, &str)> {
        let split = |text: &str, inside: &dyn Fn(char) -> bool| text.find(|c| !inside(c)).unwrap_or(text.len());
        let (flags, rest) = text.split_at_checked(split(text, &|c| matches!(c, '-' | '+' | ' ' | '#' | '0')))?;
        let (digits, rest) = rest.split_at_checked(split(rest, &|c| c.is_ascii_digit()))?;
        let rest = match rest.strip_prefix('.') {
            Some(precision) => precision.trim_start_matches(|c: char| c.is_ascii_digit()),
            None => rest,
        };
        let long = rest.trim_start_matches(['l', 'z', 'j']);
        let special = long.strip_prefix('$');
        let mut chars = special.unwrap_or(long).chars();
        let mut letter = chars.next()?;
        // `%hd` is an ordinary conversion, a lone `%h` half of a word.
        if special.is_none()
            && letter == 'h'
            && let Some(c @ ('d' | 'i' | 'u' | 'x' | 'X' | 'o')) = chars.clone().next()
        {
            chars.next();
            letter = c;
        }
        let conversion = match (special, letter) {
            (Some(_), 'L') => Conversion::Label,
            (Some(_), 'F') => Conversion::Site,
            (Some(_), 'S') => Conversion::Nested,
            (Some(_), _) => return None,
            (_, 'h') => Conversion::Half,
            (_, 'd' | 'i') => Conversion::Int,
            (_, 'u') => Conversion::Unsigned,
            (_, 'o') => Conversion::Octal,
            (_, 'x') => Conversion::Hex,
            (_, 'X') => Conversion::Upper,
            (_, 'p') => Conversion::Pointer,
            (_, 'c') => Conversion::Char,
            (_, 's') => Conversion::Str,
            (_, 'f' | 'e' | 'g' | 'E' | 'G') => Conversion::Float,
            _ => return None,
        };
        let width = digits.parse::<usize>().unwrap_or(0).min(64);
        Some((Self { conversion, width, zero: flags.contains('0'), left: flags.contains('-') }, chars.as_str()))
    }
}

pub(super) enum Piece<'a> {
    Text(&'a str),
    Spec(Spec),
}

/// Cuts a format string into text and conversions; what is no conversion is text.
pub(super) fn pieces(format: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = format;
    std::iter::from_fn(move || {
        let at = rest.find('%').unwrap_or(rest.len());
        let (text, from) = rest.split_at_checked(at)?;
        if !text.is_empty() {
            rest = from;
            return Some(Piece::Text(text));
        }
        let body = from.strip_prefix('%')?;
        let (piece, after) = match (body.strip_prefix('%'), Spec::of(body)) {
            (Some(after), _) => (Piece::Text("%"), after),
            (None, Some((spec, after))) => (Piece::Spec(spec), after),
            (None, None) => (Piece::Text("%"), body),
        };
        rest = after;
        Some(piece)
    })
}

/// True where a format string takes strings: then its arguments alone say little.
pub(super) fn takes_strings(format: &str) -> bool {
    pieces(format).any(|p| matches!(p, Piece::Spec(spec) if spec.conversion.is_string()))
}

/// Arguments as a format string takes them.
struct Args<'a> {
    all: &'a [u64],
    at: usize,
    half: bool,
}

impl Args<'_> {
    fn next(&mut self) -> Option<u64> {
        let value = self.all.get(self.at).copied();
        self.at += 1;
        value
    }

    /// Two lengths share a word: the low half is that of the whole snapshot, the high one of this record.
    fn half(&mut self) -> Option<u64> {
        let value = self.all.get(self.at).copied();
        self.at += usize::from(self.half);
        self.half = !self.half;
        value.map(|value| if self.half { value & 0xFFFF } else { (value >> 16) & 0xFFFF })
    }
}

/// A format string while it is printed.
struct Printer<'a, S> {
    /// The string at an address of the target.
    string: S,
    args: Args<'a>,
    /// Width of an argument.
    word: Width,
    /// The addresses of strings that it took.
    pointers: Vec<u64>,
    out: String,
}

/// The text that a format string makes of its arguments, and the addresses of strings among them. `word` is the width of an
/// argument, `string` gives the string at an address. An argument that the record does not have is a question mark.
pub(super) fn print<'s>(
    format: &str,
    args: &[u64],
    word: Width,
    string: impl Fn(u64) -> Option<&'s str>,
) -> (String, Vec<u64>) {
    let args = Args { all: args, at: 0, half: false };
    let mut printer = Printer { string, args, word, pointers: Vec::new(), out: String::new() };
    printer.format(format, 0);
    (printer.out, printer.pointers)
}

impl<'s, S: Fn(u64) -> Option<&'s str>> Printer<'_, S> {
    fn format(&mut self, format: &str, depth: usize) {
        for piece in pieces(format) {
            match piece {
                Piece::Text(text) if self.out.len() <= MAX_TEXT => self.out.push_str(text),
                Piece::Text(_) => {}
                Piece::Spec(spec) => self.argument(&spec, depth),
            }
        }
    }

    fn text(&mut self, address: u64) {
        match (self.string)(address) {
            Some(text) => self.out.push_str(text),
            None => self.out.push_str(&format!("{address:#x}")),
        }
    }

    fn argument(&mut self, spec: &Spec, depth: usize) {
        let value = if spec.conversion == Conversion::Half { self.args.half() } else { self.args.next() };
        let full = self.out.len() > MAX_TEXT;
        let Some(value) = value else {
            if !full {
                self.out.push('?');
            }
            return;
        };
        if spec.conversion.is_string() && value != 0 {
            self.pointers.push(value);
        }
        match spec.conversion {
            Conversion::Site => {
                let line = self.args.next();
                // A call without a place has 0 for its file.
                if value != 0 && !full {
                    self.text(value);
                    let line = line.map_or_else(|| "?".to_owned(), |line| line.to_string());
                    self.out.push_str(&format!(":{line}: "));
                }
            }
            Conversion::Nested => match (self.string)(value).filter(|_| depth < NESTED) {
                Some(inner) => self.format(inner, depth + 1),
                None if value == 0 || full => {}
                None => self.text(value),
            },
            _ if full => {}
            Conversion::Str => self.text(value),
            Conversion::Half => self.out.push_str(&value.to_string()),
            Conversion::Char => {
                self.out.push(u32::try_from(value).ok().and_then(char::from_u32).unwrap_or('?'));
            }
            // How a floating number was put into a word depends on the target.
            Conversion::Float | Conversion::Label => self.out.push_str(&format!("{value:#x}")),
            Conversion::Int => {
                let signed = match self.word {
                    Width::W4 => i64::from((value as u32).cast_signed()),
                    Width::W8 => value.cast_signed(),
                };
                spec.pad(&signed.to_string(), &mut self.out);
            }
            Conversion::Unsigned => spec.pad(&value.to_string(), &mut self.out),
            Conversion::Octal => spec.pad(&format!("{value:o}"), &mut self.out),
            Conversion::Upper => spec.pad(&format!("{value:X}"), &mut self.out),
            Conversion::Hex | Conversion::Pointer => spec.pad(&format!("{value:x}"), &mut self.out),
        }
    }
}
