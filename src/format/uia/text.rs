//! Texts: the names of modules and events that a program keeps in its own tables, and what a format string makes of
//! its arguments.
//!
//! An event's id is the offset of its text in a table of characters; with bit 15 set an id is the number of a node with
//! a left and a right part, each of them such an id again.

use std::collections::HashMap;

use super::read::Capture;
use crate::abi::{Addr, Endian, Width};
use crate::catalogue::{ArgKind, Effects, EventDef, FieldDef, Product, uia_events};

/// The table of characters.
pub const CHARS: &str = "xdc_runtime_Text_charTab__A";
/// The table of nodes, of two 16-bit ids each.
pub const NODES: &str = "xdc_runtime_Text_nodeTab__A";
/// 0 where the texts were left out of the program.
pub const LOADED: &str = "xdc_runtime_Text_isLoaded__C";
/// Mark of an id that is a node.
pub const NODE: u16 = 0x8000;
/// How deep parts may have parts.
pub const DEPTH: usize = 8;
/// The longest string that is read.
pub const LONGEST: usize = 128;
/// The longest text that is made.
const MOST: usize = 512;
/// How deep format strings may name each other.
const NESTED: usize = 3;

/// Where the texts of a program are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tables {
    /// No symbols say.
    None,
    /// They are not in the program.
    LeftOut,
    /// At the start of the characters, and of the nodes of ropes.
    At { chars: Addr, nodes: Option<Addr> },
}

/// The texts of a capture.
#[derive(Debug, Default)]
pub(super) struct Texts {
    strings: HashMap<Addr, String>,
    nodes: HashMap<u16, (u16, u16)>,
    chars: Option<Addr>,
    width: u32,
}

impl Texts {
    pub fn of(capture: &Capture) -> Self {
        let Tables::At { chars, nodes } = capture.names else { return Self::new(None, capture.word) };
        let mut all = Self::new(Some(chars), capture.word);
        for (address, bytes) in &capture.texts {
            all.add_text(*address, bytes);
        }
        for (address, bytes) in &capture.nodes {
            all.add_node(address.wrapping_sub(nodes.unwrap_or(0)), bytes, capture.logger.endian);
        }
        all
    }

    pub fn new(chars: Option<Addr>, word: Width) -> Self {
        Self { chars, width: if word == Width::W8 { 64 } else { 32 }, ..Self::default() }
    }

    pub fn add_text(&mut self, address: Addr, bytes: &[u8]) {
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        let text = String::from_utf8_lossy(bytes.get(..end).unwrap_or(&[])).into_owned();
        self.strings.insert(address, text);
    }

    pub fn add_node(&mut self, offset: u64, bytes: &[u8], endian: Endian) {
        let parts = endian.u16(bytes, 0).zip(endian.u16(bytes, 2));
        if let (Some(parts), Ok(index)) = (parts, u16::try_from(offset / 4)) {
            self.nodes.insert(index, parts);
        }
    }

    /// The string at an address.
    pub fn at(&self, address: Addr) -> Option<&str> {
        self.strings.get(&address).map(String::as_str)
    }

    /// The text of an id, all its parts put together.
    pub fn rope(&self, id: u16) -> Option<String> {
        let mut out = String::new();
        self.parts(id, 0, &mut out)?;
        Some(out).filter(|t| !t.is_empty())
    }

    fn parts(&self, id: u16, depth: usize, out: &mut String) -> Option<()> {
        if depth > DEPTH || out.len() > MOST {
            return None;
        }
        if id & NODE == 0 {
            out.push_str(self.at(self.chars?.checked_add(id.into())?)?);
            return Some(());
        }
        let (left, right) = self.nodes.get(&(id & !NODE)).copied()?;
        self.parts(left, depth.saturating_add(1), out)?;
        self.parts(right, depth.saturating_add(1), out)
    }

    /// Ids of parts whose text or parts are not here yet.
    pub fn missing(&self, id: u16, depth: usize, out: &mut Vec<u16>) {
        if depth > DEPTH {
            return;
        }
        if id & NODE == 0 {
            if self.chars.and_then(|c| self.at(c.checked_add(id.into())?)).is_none() {
                out.push(id);
            }
            return;
        }
        match self.nodes.get(&(id & !NODE)) {
            Some((left, right)) => {
                self.missing(*left, depth.saturating_add(1), out);
                self.missing(*right, depth.saturating_add(1), out);
            }
            None => out.push(id),
        }
    }

    /// The name of a module; `None` for a number that the program did not name.
    pub fn module(&self, id: u16) -> Option<String> {
        if id & NODE == 0 { None } else { self.rope(id) }
    }

    /// What a format string makes of its arguments.
    pub fn say(&self, format: &str, args: &[u64]) -> String {
        let mut args = Args { all: args, at: 0, half: false };
        let mut out = String::new();
        self.print(format, &mut args, 0, &mut out);
        out
    }

    fn print(&self, format: &str, args: &mut Args<'_>, depth: usize, out: &mut String) {
        for piece in pieces(format) {
            if out.len() > MOST {
                return;
            }
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Spec(spec) => self.one(&spec, args, depth, out),
            }
        }
    }

    fn one(&self, spec: &Spec, args: &mut Args<'_>, depth: usize, out: &mut String) {
        let string = |value: u64, out: &mut String| match self.at(value) {
            Some(text) => out.push_str(text),
            None => out.push_str(&format!("{value:#x}")),
        };
        match spec.conversion {
            Conversion::Site => {
                let (file, line) = (args.next(), args.next());
                // A call without a place has 0 for its file.
                if file != 0 {
                    string(file, out);
                    out.push_str(&format!(":{line}: "));
                }
            }
            Conversion::Nested => {
                let value = args.next();
                match self.at(value).filter(|_| depth < NESTED) {
                    Some(inner) => self.print(inner, args, depth.saturating_add(1), out),
                    None if value == 0 => {}
                    None => string(value, out),
                }
            }
            Conversion::Str => string(args.next(), out),
            Conversion::Label => out.push_str(&format!("{:#x}", args.next())),
            Conversion::Half => out.push_str(&args.half().to_string()),
            Conversion::Char => {
                let c = u32::try_from(args.next()).ok().and_then(char::from_u32).unwrap_or('?');
                out.push(c);
            }
            Conversion::Int => {
                let unused = 64u32.saturating_sub(self.width);
                let signed = i64::from_ne_bytes(args.next().to_ne_bytes());
                let signed = signed.checked_shl(unused).and_then(|v| v.checked_shr(unused)).unwrap_or(0);
                spec.pad(signed.to_string(), out);
            }
            Conversion::Unsigned => spec.pad(args.next().to_string(), out),
            Conversion::Octal => spec.pad(format!("{:o}", args.next()), out),
            Conversion::Hex => spec.pad(format!("{:x}", args.next()), out),
            Conversion::Upper => spec.pad(format!("{:X}", args.next()), out),
            Conversion::Pointer => spec.pad(format!("{:x}", args.next()), out),
            // How a floating number was put into a word depends on the target.
            Conversion::Float => out.push_str(&format!("{:#x}", args.next())),
        }
    }
}

/// Arguments as a format string takes them.
struct Args<'a> {
    all: &'a [u64],
    at: usize,
    half: bool,
}

impl Args<'_> {
    fn next(&mut self) -> u64 {
        let value = self.all.get(self.at).copied().unwrap_or(0);
        self.at = self.at.saturating_add(1);
        value
    }

    /// Two lengths share a word: the low half is that of the whole snapshot, the high one of this record.
    fn half(&mut self) -> u64 {
        let value = self.all.get(self.at).copied().unwrap_or(0);
        if self.half {
            self.at = self.at.saturating_add(1);
        }
        self.half = !self.half;
        if self.half { value & 0xFFFF } else { (value >> 16) & 0xFFFF }
    }
}

/// What a conversion does with its argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conversion {
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

/// A conversion with its width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spec {
    conversion: Conversion,
    width: usize,
    zero: bool,
    left: bool,
}

impl Spec {
    fn pad(&self, text: String, out: &mut String) {
        let missing = self.width.saturating_sub(text.len());
        match (self.left, self.zero) {
            (true, _) => {
                out.push_str(&text);
                out.extend(std::iter::repeat_n(' ', missing));
            }
            (_, true) => {
                let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |d| ("-", d));
                out.push_str(sign);
                out.extend(std::iter::repeat_n('0', missing));
                out.push_str(digits);
            }
            _ => {
                out.extend(std::iter::repeat_n(' ', missing));
                out.push_str(&text);
            }
        }
    }
}

enum Piece<'a> {
    Text(&'a str),
    Spec(Spec),
}

/// Cuts a format string into text and conversions; what is no conversion is text.
fn pieces(format: &str) -> Vec<Piece<'_>> {
    let mut list = Vec::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        let (text, from) = rest.split_at_checked(at).unwrap_or((rest, ""));
        if !text.is_empty() {
            list.push(Piece::Text(text));
        }
        let body = from.strip_prefix('%').unwrap_or("");
        if let Some(after) = body.strip_prefix('%') {
            list.push(Piece::Text("%"));
            rest = after;
            continue;
        }
        match spec(body) {
            Some((spec, after)) => {
                list.push(Piece::Spec(spec));
                rest = after;
            }
            None => {
                list.push(Piece::Text("%"));
                rest = body;
            }
        }
    }
    if !rest.is_empty() {
        list.push(Piece::Text(rest));
    }
    list
}

fn spec(text: &str) -> Option<(Spec, &str)> {
    let flags_end = text.find(|c: char| !matches!(c, '-' | '+' | ' ' | '#' | '0')).unwrap_or(text.len());
    let (flags, rest) = text.split_at_checked(flags_end)?;
    let digits_end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, rest) = rest.split_at_checked(digits_end)?;
    let rest = match rest.strip_prefix('.') {
        Some(precision) => precision.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    let long = rest.trim_start_matches(['l', 'z', 'j']);
    let made = |conversion, after| {
        let width = digits.parse::<usize>().unwrap_or(0).min(64);
        Some((Spec { conversion, width, zero: flags.contains('0'), left: flags.contains('-') }, after))
    };
    if let Some(special) = long.strip_prefix('$') {
        let mut chars = special.chars();
        let conversion = match chars.next()? {
            'L' => Conversion::Label,
            'F' => Conversion::Site,
            'S' => Conversion::Nested,
            _ => return None,
        };
        return made(conversion, chars.as_str());
    }
    let mut chars = long.chars();
    let mut letter = chars.next()?;
    if letter == 'h' {
        // `%hd` is an ordinary conversion, a lone `%h` half of a word.
        match chars.clone().next() {
            Some(c @ ('d' | 'i' | 'u' | 'x' | 'X' | 'o')) => {
                chars.next();
                letter = c;
            }
            _ => return made(Conversion::Half, chars.as_str()),
        }
    }
    let conversion = match letter {
        'd' | 'i' => Conversion::Int,
        'u' => Conversion::Unsigned,
        'o' => Conversion::Octal,
        'x' => Conversion::Hex,
        'X' => Conversion::Upper,
        'p' => Conversion::Pointer,
        'c' => Conversion::Char,
        's' => Conversion::Str,
        'f' | 'e' | 'g' | 'E' | 'G' => Conversion::Float,
        _ => return None,
    };
    made(conversion, chars.as_str())
}

/// An argument as a text names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Argument {
    label: String,
    conversion: Conversion,
}

/// The arguments of a format string, each with the word before it: `oldtsk: 0x%x` is `oldtsk`.
fn arguments(format: &str) -> Vec<Argument> {
    let mut list = Vec::new();
    let mut before = "";
    for piece in pieces(format) {
        match piece {
            Piece::Text(text) => before = text,
            Piece::Spec(spec) => {
                let text = before.strip_suffix("0x").unwrap_or(before);
                let text = text.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                let start =
                    text.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |i| i.saturating_add(1));
                let label =
                    text.get(start..).filter(|l| l.starts_with(|c: char| c.is_ascii_alphabetic())).unwrap_or("");
                list.push(Argument { label: label.to_owned(), conversion: spec.conversion });
                before = "";
            }
        }
    }
    list
}

/// The arguments of a declared event, from `label:%x`.
fn declared(specs: &[&str]) -> Vec<Argument> {
    specs.iter().flat_map(|s| arguments(&s.replacen(":%", " %", 1))).collect()
}

/// The name that a text begins with: `LM_switch` of `LM_switch: oldtsk: 0x%x`.
fn head(format: &str) -> &str {
    let end = format.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(format.len());
    format.get(..end).filter(|h| h.starts_with(|c: char| c.is_ascii_alphabetic())).unwrap_or("")
}

/// What an event means whose text this is: a declared one where the text is of one, else what the text itself says.
/// `modules` are the names of the modules that inserted it.
pub(super) fn definition(id: u16, format: &str, modules: &[String]) -> EventDef {
    let (name, own) = (head(format), arguments(format));
    let same = |specs: &[&str]| {
        let theirs = declared(specs);
        theirs.len() == own.len()
            && theirs.iter().zip(&own).all(|(a, b)| a.conversion == b.conversion && a.label == b.label)
    };
    let of_module = uia_events().iter().filter(|d| modules.iter().any(|m| m == d.module));
    let mut by_name = of_module.filter(|d| d.event == name);
    let mut by_text = uia_events().iter().filter(|d| !d.specs.is_empty() && same(&d.specs));
    // Events of one module that differ in nothing but their names are called by the module.
    let alike = || {
        let first = by_text.next()?;
        let mut def = first.def.clone();
        let mut rest = by_text.peekable();
        if rest.peek().is_some() {
            if !rest.all(|d| d.module == first.module && d.def.fields == def.fields) {
                return None;
            }
            def.name = first.module.rsplit('.').next().unwrap_or(first.module).to_owned();
            def.macro_name = String::new();
            def.effects = Effects::mark();
        }
        Some(def)
    };
    if let Some(mut def) = by_name.next().map(|d| d.def.clone()).or_else(alike) {
        def.id = id.into();
        def.label = format.to_owned();
        return def;
    }
    let mut fields: Vec<Option<FieldDef>> = Vec::new();
    let mut add = |label: &str, kind| {
        let plain = if label.is_empty() { format!("arg{}", fields.len().saturating_add(1)) } else { label.to_owned() };
        let taken = fields.iter().flatten().any(|f| f.name == plain);
        let name = if taken { format!("{plain}{}", fields.len().saturating_add(1)) } else { plain };
        fields.push(Some(FieldDef::new(&name, kind, None)));
    };
    let mut half = false;
    for Argument { label, conversion } in &own {
        match conversion {
            Conversion::Site => {
                add("file", ArgKind::Str);
                add("line", ArgKind::Dec);
            }
            Conversion::Int | Conversion::Char => add(label, ArgKind::Int),
            Conversion::Unsigned => add(label, ArgKind::Dec),
            Conversion::Str | Conversion::Nested => add(label, ArgKind::Str),
            Conversion::Pointer => add(label, ArgKind::Ptr),
            Conversion::Half if half => {}
            Conversion::Half => add(label, ArgKind::Hex),
            Conversion::Octal | Conversion::Hex | Conversion::Upper | Conversion::Float | Conversion::Label => {
                add(label, ArgKind::Hex);
            }
        }
        half = *conversion == Conversion::Half && !half;
    }
    let name = if name.is_empty() { format!("text_{id}") } else { name.to_owned() };
    EventDef {
        id: id.into(),
        name,
        macro_name: String::new(),
        product: Product::User,
        class: modules.first().cloned().unwrap_or_default(),
        fields,
        effects: Effects::mark(),
        late: 0,
        unused: false,
        label: format.to_owned(),
    }
}

/// True where a format string takes strings: then its arguments alone say little.
pub(super) fn points(format: &str) -> bool {
    pieces(format).iter().any(|p| match p {
        Piece::Spec(spec) => matches!(spec.conversion, Conversion::Str | Conversion::Site | Conversion::Nested),
        Piece::Text(_) => false,
    })
}

/// Which words of an event are addresses of strings, by its format string; the strings that are here already may name
/// more.
pub(super) fn pointers(texts: &Texts, format: &str, args: &[u64], out: &mut Vec<Addr>) {
    fn walk(texts: &Texts, format: &str, args: &mut Args<'_>, depth: usize, out: &mut Vec<Addr>) {
        for piece in pieces(format) {
            let Piece::Spec(spec) = piece else { continue };
            match spec.conversion {
                Conversion::Half => drop(args.half()),
                Conversion::Site => {
                    out.push(args.next());
                    args.next();
                }
                Conversion::Str => out.push(args.next()),
                Conversion::Nested => {
                    let value = args.next();
                    out.push(value);
                    if let Some(inner) = texts.at(value).filter(|_| depth < NESTED) {
                        walk(texts, inner, args, depth.saturating_add(1), out);
                    }
                }
                _ => drop(args.next()),
            }
        }
    }
    let mut args = Args { all: args, at: 0, half: false };
    walk(texts, format, &mut args, 0, out);
    out.retain(|a| *a != 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts() -> Texts {
        let mut texts = Texts::new(Some(0x1000), Width::W4);
        texts.add_text(0x1001, b"ti.sysbios.knl.\0");
        texts.add_text(0x1011, b"Task\0");
        texts.add_text(0x5000, b"value %d of %s\0");
        texts.add_text(0x5100, b"sensor\0");
        texts.add_text(0x5200, b"main.c\0");
        texts.add_node(4, &[0x01, 0, 0x11, 0], Endian::Little);
        texts.add_node(8, &[0x02, 0x80, 0x02, 0x80], Endian::Little);
        texts
    }

    #[test]
    fn parts_are_put_together_and_circles_end() {
        assert_eq!(texts().module(0x8001).as_deref(), Some("ti.sysbios.knl.Task"));
        assert_eq!(texts().rope(0x8002), None, "a node that names itself");
        assert_eq!(texts().module(0x11), None, "an unnamed module");
    }

    #[test]
    fn format_strings_take_their_arguments() {
        let say = |f: &str, a: &[u64]| texts().say(f, a);
        assert_eq!(say("a %d b 0x%08x %u%%", &[0xFFFF_FFFE, 0xAB, 7]), "a -2 b 0x000000ab 7%");
        assert_eq!(say("%$F%$S!", &[0x5200, 42, 0x5000, 5, 0x5100]), "main.c:42: value 5 of sensor!");
        assert_eq!(say("%-4d|%4d|%04d", &[7, 7, 0xFFFF_FFF9]), "7   |   7|-007");
        assert_eq!(say("%s %d", &[0x9999]), "0x9999 0");
        assert_eq!(say("100% %q %", &[]), "100% %q %");
        assert_eq!(say("%h of %h %x", &[0x0028_0060, 1]), "96 of 40 1");
        assert_eq!(say("%hd %lx", &[3, 4]), "3 4");
    }

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
