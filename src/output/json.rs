//! JSON Lines: `trace`, `object`, `event`, `row`, `issue`, `error`, `end`. The keys are a contract with users.

use std::cell::RefCell;
use std::io::{self, BufWriter, Write};
use std::rc::Rc;

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde_json::ser::{CharEscape, Formatter};

use super::escape::is_plain;
use super::row::Rows;
use super::text::HexBuffer;
use super::window::Window;
use super::{EventSink, View, buffered, is_hostile};
use crate::error::Error;
use crate::trace::{Context, ContextKind, Event, Extra, Issue, Object, Trace};

/// The number that goes up when the meaning of a key changes; new keys leave it as it is.
pub const SCHEMA: u64 = 1;

/// Writes one value as a line.
///
/// # Errors
/// Where the writer fails.
pub fn line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    line_with(&mut Vec::new(), out, value)
}

/// The same in a buffer that is used again: a value is written in many small parts.
fn line_with(line: &mut Vec<u8>, out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    line.clear();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut *line, Lines::default()))?;
    line.push(b'\n');
    out.write_all(line)
}

/// Compact JSON in which nothing is raw that a terminal would obey, and a whole number has no fraction.
#[derive(Default)]
struct Lines {
    /// True within a key: keys are our own words.
    key: bool,
}

impl Formatter for Lines {
    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.key = true;
        if first { Ok(()) } else { out.write_all(b",") }
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.key = false;
        Ok(())
    }

    fn write_f64<W: ?Sized + Write>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        write!(out, "{value}")
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        if self.key || is_plain(fragment) {
            return out.write_all(fragment.as_bytes());
        }
        let mut plain = 0;
        for (at, c) in fragment.char_indices().filter(|(_, c)| is_hostile(*c)) {
            out.write_all(fragment.get(plain..at).unwrap_or_default().as_bytes())?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            plain = at.saturating_add(c.len_utf8());
        }
        out.write_all(fragment.get(plain..).unwrap_or_default().as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, out: &mut W, escape: CharEscape) -> io::Result<()> {
        match escape {
            CharEscape::Quote => out.write_all(b"\\\""),
            CharEscape::ReverseSolidus => out.write_all(b"\\\\"),
            CharEscape::Solidus => out.write_all(b"/"),
            CharEscape::LineFeed => out.write_all(b"\\n"),
            CharEscape::CarriageReturn => out.write_all(b"\\r"),
            CharEscape::Tab => out.write_all(b"\\t"),
            CharEscape::Backspace => out.write_all(b"\\u0008"),
            CharEscape::FormFeed => out.write_all(b"\\u000c"),
            CharEscape::AsciiControl(byte) => write!(out, "\\u{byte:04x}"),
        }
    }
}

/// An address, a stamp or a word: hexadecimal of the stored width.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Hex(pub u64, pub usize);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(HexBuffer::default().format(self.0, self.1))
    }
}

/// The line that comes first: what the trace says of itself.
#[derive(Serialize)]
#[serde(tag = "type", rename = "trace")]
struct TraceLine<'a> {
    schema: u64,
    format: &'a str,
    source: &'a str,
    byte_order: &'a str,
    ulong: usize,
    base: Option<Hex>,
    capacity: u64,
    events: u64,
    wrapped: bool,
    time_mask: Hex,
    direction: &'a str,
    period: Option<u64>,
    hz: Option<f64>,
    origin: u64,
    objects: usize,
}

/// Writes the line that comes first.
pub(super) fn trace(out: &mut dyn Write, trace: &Trace, source: &str, digits: usize) -> io::Result<()> {
    let (about, clock) = (&trace.about, &trace.clock);
    let value = TraceLine {
        schema: SCHEMA,
        format: about.format,
        source,
        byte_order: about.endian.name(),
        ulong: digits / 2,
        base: about.base.map(|base| Hex(base, digits)),
        capacity: about.capacity,
        events: about.held.saturating_sub(about.empty),
        wrapped: about.wrapped,
        time_mask: Hex(clock.mask, digits),
        direction: clock.direction.name(),
        period: clock.period,
        hz: clock.hz,
        origin: about.origin,
        objects: trace.objects.len(),
    };
    line(out, &value)
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "object")]
struct ObjectLine<'a> {
    address: Hex,
    object_type: std::borrow::Cow<'a, str>,
    name: Option<&'a str>,
    deleted: bool,
    priority: Option<u16>,
    param1: Hex,
    param2: Hex,
    now: Option<&'a str>,
}

/// Writes one registered object; `now` is its current state in memory, where known.
pub(super) fn object(out: &mut dyn Write, object: &Object, now: Option<&str>, digits: usize) -> io::Result<()> {
    let value = ObjectLine {
        address: Hex(object.address, digits),
        object_type: object.type_name.map_or_else(|| format!("type_{}", object.type_code).into(), Into::into),
        name: Some(object.name.as_str()).filter(|name| !name.is_empty()),
        deleted: object.deleted,
        priority: object.priority,
        param1: Hex(object.param1, digits),
        param2: Hex(object.param2, digits),
        now,
    };
    line(out, &value)
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "issue")]
struct IssueLine<'a> {
    code: &'a str,
    severity: &'a str,
    count: u64,
    message: &'a str,
    #[serde(rename = "where")]
    place: PlaceValue,
}

#[derive(Serialize)]
struct PlaceValue {
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<Hex>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
}

/// Writes one issue.
pub(super) fn issue(out: &mut dyn Write, issue: &Issue, digits: usize) -> io::Result<()> {
    let place = &issue.place;
    let value = IssueLine {
        code: issue.code.name(),
        severity: issue.severity.name(),
        count: issue.count,
        message: &issue.message,
        place: PlaceValue { address: place.address.map(|a| Hex(a, digits)), offset: place.offset, seq: place.seq },
    };
    line(out, &value)
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "end")]
struct EndLine {
    events: u64,
    issues: usize,
}

/// Writes the line that comes last.
pub(super) fn end(out: &mut dyn Write, events: u64, issues: usize) -> io::Result<()> {
    line(out, &EndLine { events, issues })
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "error")]
struct ErrorLine<'a> {
    code: &'a str,
    message: &'a str,
    tried: &'a [String],
    hint: Option<&'a str>,
}

/// Writes the `error` line of JSON output.
///
/// # Errors
/// Where the writer fails.
pub fn write_error(out: &mut dyn Write, error: &Error) -> io::Result<()> {
    let hint = Some(error.hint.as_str()).filter(|h| !h.is_empty());
    let value = ErrorLine { code: error.code.name(), message: &error.message, tried: &error.tried, hint };
    line(out, &value)?;
    out.flush()
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "event")]
struct EventLine<'a> {
    seq: u64,
    slot: u64,
    ticks: i64,
    delta: Option<i64>,
    stamp: Option<Hex>,
    core: u16,
    context: Option<ContextValue<'a>>,
    priority: Option<u16>,
    threshold: Option<u16>,
    interrupted: Option<Interrupted>,
    id: u32,
    name: Option<&'a str>,
    #[serde(rename = "macro")]
    macro_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    says: Option<String>,
    args: Args<'a>,
    words: Words<'a>,
    #[serde(flatten)]
    extras: Extras<'a>,
}

/// Who inserted the event.
struct ContextValue<'a> {
    context: &'a Context,
    name: Option<Rc<str>>,
    isr: Option<u32>,
    extras: &'a [ExtraField],
    digits: usize,
}

impl Serialize for ContextValue<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        let kind = self.context.kind;
        map.serialize_entry("kind", &(kind != ContextKind::Unknown).then(|| kind.name()))?;
        map.serialize_entry("address", &Hex(self.context.address, self.digits))?;
        map.serialize_entry("name", &self.name.as_deref())?;
        if let Some(number) = self.isr {
            map.serialize_entry("isr", &number)?;
        }
        for (name, value) in self.extras {
            if let Some(name) = name.strip_prefix(OF_CONTEXT) {
                map.serialize_entry(name, value)?;
            }
        }
        map.end()
    }
}

/// Whom an interrupt interrupted.
struct Interrupted {
    address: Hex,
    name: Option<Rc<str>>,
}

impl Serialize for Interrupted {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(2))?;
        map.serialize_entry("address", &self.address)?;
        map.serialize_entry("name", &self.name.as_deref())?;
        map.end()
    }
}

/// The arguments, each written as soon as its text is known.
struct Args<'a> {
    /// Borrowed once, while the list is written.
    rows: RefCell<&'a mut Rows>,
    view: &'a View<'a>,
    event: &'a Event,
}

impl Serialize for Args<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let digits = self.view.digits();
        let mut list = to.serialize_seq(None)?;
        let mut written = Ok(());
        self.rows.borrow_mut().args(self.view, self.event, |arg| {
            let value =
                if arg.kind.is_number() { Number::Plain(arg.value) } else { Number::Hex(Hex(arg.value, digits)) };
            let doubtful = arg.doubtful.then_some(true);
            let value = ArgValue { name: arg.name, kind: arg.kind.name(), value, text: arg.text, doubtful };
            if written.is_ok() {
                written = list.serialize_element(&value);
            }
        });
        written?;
        list.end()
    }
}

#[derive(Serialize)]
struct ArgValue<'a> {
    name: &'a str,
    kind: &'static str,
    value: Number,
    text: &'a str,
    /// The word is not to be relied on; absent where it is: few are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    doubtful: Option<bool>,
}

/// The value of an argument: a number for some kinds, else hexadecimal.
#[derive(Serialize)]
#[serde(untagged)]
enum Number {
    Plain(u64),
    Hex(Hex),
}

struct Words<'a>(&'a [u64], usize);

impl Serialize for Words<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(Some(self.0.len()))?;
        self.0.iter().try_for_each(|word| list.serialize_element(&Hex(*word, self.1)))?;
        list.end()
    }
}

/// The prefix of extra fields of the context.
const OF_CONTEXT: &str = "context.";

/// The value of a field that only one format's events have.
#[derive(Serialize, PartialEq, Eq)]
#[serde(untagged)]
enum ExtraValue {
    Null,
    Number(u64),
    Hex(Hex),
    Text(String),
}

impl ExtraValue {
    fn new(value: Extra<'_>, digits: usize) -> Self {
        match value {
            Extra::Null => Self::Null,
            Extra::Number(n) => Self::Number(n),
            Extra::Hex(n) => Self::Hex(Hex(n, digits)),
            Extra::Text(text) => Self::Text(text.to_owned()),
        }
    }
}

/// A field that only one format's events have.
type ExtraField = (&'static str, ExtraValue);

/// The fields that only this format's events have. `object.part` is a field of an object; an object without any part is
/// null. Fields of the context are left to it.
struct Extras<'a>(&'a [ExtraField]);

/// The object and the part that the name of a field states.
fn split(name: &'static str) -> (Option<&'static str>, &'static str) {
    name.split_once('.').map_or((None, name), |(object, part)| (Some(object), part))
}

impl Serialize for Extras<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        let fields = self.0.chunk_by(|(a, _), (b, _)| split(a).0.is_some() && split(a).0 == split(b).0);
        for parts in fields.filter(|parts| parts.first().is_some_and(|(n, _)| !n.starts_with(OF_CONTEXT))) {
            match parts {
                [(name, value), ..] if split(name).0.is_none() => {
                    map.serialize_entry(name, value)?;
                }
                [(name, _), ..] => map.serialize_entry(split(name).0.unwrap_or(name), &Parts(parts))?,
                [] => {}
            }
        }
        map.end()
    }
}

/// The parts of one object.
struct Parts<'a>(&'a [ExtraField]);

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.0.iter().all(|(_, value)| *value == ExtraValue::Null) {
            return to.serialize_none();
        }
        to.collect_map(self.0.iter().map(|(name, value)| (split(name).1, value)))
    }
}

/// Writes events as JSON Lines.
pub struct Json<W: Write> {
    out: BufWriter<W>,
    line: Vec<u8>,
    rows: Rows,
    events: u64,
    /// Issues that were written where they were met.
    issues: usize,
}

impl<W: Write> Json<W> {
    /// JSON Lines that are written to `out`.
    pub fn new(out: W) -> Self {
        Self { out: buffered(out), line: Vec::new(), rows: Rows::new(), events: 0, issues: 0 }
    }
}

impl<W: Write> EventSink for Json<W> {
    fn begin(&mut self, view: &View<'_>, _: &Window) -> io::Result<()> {
        trace(&mut self.out, view.trace, view.source, view.digits())
    }

    fn event(&mut self, view: &View<'_>, event: &Event) -> io::Result<()> {
        let (all, digits) = (view.trace, view.digits());
        let mut extras = Vec::new();
        all.extras(event, |name, value| extras.push((name, ExtraValue::new(value, digits))));
        let context = all.contexts.get(event.context).map(|context| ContextValue {
            context,
            name: self.rows.name_of(view, event),
            isr: event.isr,
            extras: &extras,
            digits,
        });
        let interrupted = event.interrupted.and_then(|id| {
            let address = Hex(all.contexts.get(id)?.address, digits);
            Some(Interrupted { address, name: self.rows.name(view, id) })
        });
        let def = event.def.and_then(|d| view.catalogue.def(d));
        let value = EventLine {
            seq: event.seq,
            slot: event.slot,
            ticks: event.ticks,
            delta: event.delta,
            stamp: event.stamp.map(|s| Hex(s, view.stamp_digits())),
            core: event.core,
            context,
            priority: event.priority,
            threshold: event.threshold,
            interrupted,
            id: event.id,
            name: def.map(|d| d.name.as_str()),
            macro_name: def.map(|d| d.macro_name.as_str()).filter(|m| !m.is_empty()),
            says: self.rows.sentence(view, event),
            args: Args { rows: RefCell::new(&mut self.rows), view, event },
            words: Words(all.words(event), digits),
            extras: Extras(&extras),
        };
        line_with(&mut self.line, &mut self.out, &value)?;
        self.events = self.events.saturating_add(1);
        Ok(())
    }

    fn renew(&mut self) {
        self.rows = Rows::new();
    }

    fn issue(&mut self, view: &View<'_>, one: &Issue) -> io::Result<()> {
        self.issues = self.issues.saturating_add(1);
        issue(&mut self.out, one, view.digits())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, view: &View<'_>, issues: &[Issue]) -> io::Result<()> {
        for one in issues {
            issue(&mut self.out, one, view.digits())?;
        }
        end(&mut self.out, self.events, issues.len().saturating_add(self.issues))?;
        self.out.flush()
    }
}
