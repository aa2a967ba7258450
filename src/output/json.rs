//! JSON Lines by hand: `trace`, `object`, `event`, `issue`, `error`, `end`. The keys are a contract with users.

use std::collections::HashMap;
use std::io::{self, Write};

use super::row::Rows;
use super::window::Window;
use super::{EventSink, Flow, Out, View, is_hostile, num};
use crate::error::Error;
use crate::trace::{Event, Extra, Issue, Object, Trace};

/// The number that goes up when the meaning of a key changes; new keys leave it as it is.
pub(super) const SCHEMA: u64 = 1;

/// Adds a string in quotes. Names come out exactly, but nothing that a terminal would obey comes out raw.
pub(super) fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    if text.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'"' && b != b'\\') {
        out.extend_from_slice(text.as_bytes());
    } else {
        for c in text.chars() {
            match c {
                '"' => out.extend_from_slice(b"\\\""),
                '\\' => out.extend_from_slice(b"\\\\"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\t' => out.extend_from_slice(b"\\t"),
                c if is_hostile(c) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.extend_from_slice(b"\\u");
                        let mut hex = Vec::with_capacity(6);
                        num::hex(&mut hex, u64::from(*unit), 4);
                        out.extend_from_slice(hex.get(2..).unwrap_or(&[]));
                    }
                }
                c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }
    out.push(b'"');
}

/// Adds an address, a stamp or a word: hexadecimal of the stored width, in quotes.
#[inline]
pub(super) fn hex(out: &mut Vec<u8>, value: u64, digits: u32) {
    out.push(b'"');
    num::hex(out, value, digits);
    out.push(b'"');
}

/// Adds `,"key":`.
#[inline]
pub(super) fn key(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// Adds what is there, or null.
pub(super) fn or_null<T>(out: &mut Vec<u8>, value: Option<T>, write: impl FnOnce(&mut Vec<u8>, T)) {
    match value {
        Some(value) => write(out, value),
        None => out.extend_from_slice(b"null"),
    }
}

pub(super) fn boolean(out: &mut Vec<u8>, value: bool) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

/// Adds a number that may have a fraction; what is no number is null.
pub(super) fn real(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() { out.extend_from_slice(value.to_string().as_bytes()) } else { out.extend_from_slice(b"null") }
}

fn begin(out: &mut Vec<u8>, kind: &str) {
    out.extend_from_slice(b"{\"type\":");
    string(out, kind);
}

fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"}\n");
}

/// The line that comes first: what the trace says of itself.
pub(super) fn trace(out: &mut Vec<u8>, trace: &Trace, source: &str, digits: u32) {
    let (about, clock) = (&trace.about, &trace.clock);
    begin(out, "trace");
    key(out, "schema");
    num::dec(out, SCHEMA);
    key(out, "format");
    string(out, about.format);
    key(out, "source");
    string(out, source);
    key(out, "byte_order");
    string(out, about.endian.name());
    key(out, "ulong");
    num::dec(out, u64::from(digits / 2));
    key(out, "base");
    hex(out, about.base, digits);
    key(out, "capacity");
    num::dec(out, about.capacity);
    key(out, "events");
    num::dec(out, about.held.saturating_sub(about.empty));
    key(out, "wrapped");
    boolean(out, about.wrapped);
    key(out, "time_mask");
    hex(out, clock.mask, digits);
    key(out, "direction");
    string(out, clock.direction.name());
    key(out, "period");
    or_null(out, clock.period, num::dec);
    key(out, "hz");
    or_null(out, clock.hz, real);
    key(out, "origin");
    num::dec(out, about.origin);
    key(out, "objects");
    num::dec(out, u64::try_from(trace.objects.len()).unwrap_or(u64::MAX));
    end(out);
}

/// One registered object.
pub(super) fn object(out: &mut Vec<u8>, object: &Object, now: Option<&str>, digits: u32) {
    begin(out, "object");
    key(out, "address");
    hex(out, object.address, digits);
    key(out, "object_type");
    match object.type_name {
        Some(name) => string(out, name),
        None => string(out, &format!("type_{}", object.type_code)),
    }
    key(out, "name");
    string(out, &object.name);
    key(out, "deleted");
    boolean(out, object.deleted);
    key(out, "priority");
    or_null(out, object.priority, |o, p| num::dec(o, u64::from(p)));
    key(out, "param1");
    hex(out, object.param1, digits);
    key(out, "param2");
    hex(out, object.param2, digits);
    key(out, "now");
    or_null(out, now, string);
    end(out);
}

/// One issue.
pub(super) fn issue(out: &mut Vec<u8>, issue: &Issue, digits: u32) {
    begin(out, "issue");
    key(out, "code");
    string(out, issue.code.name());
    key(out, "severity");
    string(out, issue.severity.name());
    key(out, "count");
    num::dec(out, issue.count);
    key(out, "message");
    string(out, &issue.message);
    key(out, "where");
    out.push(b'{');
    let start = out.len();
    let place = &issue.place;
    if let Some(address) = place.address {
        key(out, "address");
        hex(out, address, digits);
    }
    if let Some(offset) = place.offset {
        key(out, "offset");
        num::dec(out, offset);
    }
    if let Some(seq) = place.seq {
        key(out, "seq");
        num::dec(out, seq);
    }
    if out.get(start) == Some(&b',') {
        out.remove(start);
    }
    out.push(b'}');
    end(out);
}

/// The line that comes last.
pub(super) fn last(out: &mut Vec<u8>, events: u64, issues: usize) {
    begin(out, "end");
    key(out, "events");
    num::dec(out, events);
    key(out, "issues");
    num::dec(out, u64::try_from(issues).unwrap_or(u64::MAX));
    end(out);
}

/// Writes the `error` line of JSON output.
///
/// # Errors
/// Where the writer fails.
pub fn write_error(out: &mut dyn Write, error: &Error) -> io::Result<()> {
    let mut buf = Vec::new();
    begin(&mut buf, "error");
    key(&mut buf, "code");
    string(&mut buf, error.code.name());
    key(&mut buf, "message");
    string(&mut buf, &error.message);
    key(&mut buf, "tried");
    buf.push(b'[');
    for (i, tried) in error.tried.iter().enumerate() {
        if i > 0 {
            buf.push(b',');
        }
        string(&mut buf, tried);
    }
    buf.push(b']');
    key(&mut buf, "hint");
    or_null(&mut buf, Some(error.hint.as_str()).filter(|h| !h.is_empty()), string);
    end(&mut buf);
    out.write_all(&buf)?;
    out.flush()
}

/// Writes events as JSON Lines.
#[derive(Debug)]
pub struct Json<W> {
    out: Out<W>,
    rows: Rows,
    /// The part of each context that never changes, by its number; and of interrupts by theirs.
    contexts: Vec<Option<Box<[u8]>>>,
    interrupts: HashMap<u32, Box<[u8]>>,
    events: u64,
    /// Issues that were told where they were met.
    told: usize,
}

impl<W: Write> Json<W> {
    /// JSON Lines that are written to `out`.
    pub fn new(out: W) -> Self {
        Self {
            out: Out::new(out),
            rows: Rows::new(),
            contexts: Vec::new(),
            interrupts: HashMap::new(),
            events: 0,
            told: 0,
        }
    }

    fn context(&mut self, view: &View<'_>, event: &Event) {
        let out = &mut self.out.buf;
        let Some(context) = view.trace.contexts.get(event.context) else {
            return out.extend_from_slice(b"null");
        };
        let index = usize::try_from(event.context.0).unwrap_or(0);
        if index >= self.contexts.len() {
            self.contexts.resize(view.trace.contexts.len(), None);
        }
        let Some(known) = self.contexts.get_mut(index) else { return out.extend_from_slice(b"null") };
        let rows = &mut self.rows;
        let join = || {
            let mut text = b"{\"kind\":".to_vec();
            string(&mut text, context.kind.name());
            key(&mut text, "address");
            hex(&mut text, context.address, view.digits());
            key(&mut text, "name");
            or_null(&mut text, rows.name_of(view, event), |o, n| string(o, &n));
            if let Some(number) = event.isr {
                key(&mut text, "isr");
                num::dec(&mut text, u64::from(number));
            }
            text.into_boxed_slice()
        };
        // Damage makes many numbers; real interrupts are few.
        if self.interrupts.len() > 512 {
            self.interrupts.clear();
        }
        out.extend_from_slice(match event.isr {
            None => known.get_or_insert_with(join),
            Some(number) => self.interrupts.entry(number).or_insert_with(join),
        });
        view.trace.extras(event, |name, value| {
            if let Some(name) = name.strip_prefix(OF_CONTEXT) {
                key(out, name);
                extra(out, value, view.digits());
            }
        });
        out.push(b'}');
    }

    /// The fields that only this format's events have.
    fn extras(&mut self, view: &View<'_>, event: &Event) {
        let out = &mut self.out.buf;
        // The object that is open, where its value began, and whether any part of it is there.
        let mut open: Option<(&str, usize, bool)> = None;
        let close = |out: &mut Vec<u8>, open: &mut Option<(&str, usize, bool)>| match open.take() {
            Some((_, _, true)) => out.push(b'}'),
            Some((_, start, false)) => {
                out.truncate(start);
                out.extend_from_slice(b"null");
            }
            None => {}
        };
        view.trace.extras(event, |name, value| {
            if name.starts_with(OF_CONTEXT) {
                return;
            }
            let (object, part) = name.split_once('.').map_or((None, name), |(object, part)| (Some(object), part));
            match (&mut open, object) {
                (Some((own, _, any)), Some(object)) if *own == object => {
                    *any |= value != Extra::Null;
                    key(out, part);
                }
                (_, Some(object)) => {
                    close(out, &mut open);
                    key(out, object);
                    open = Some((object, out.len(), value != Extra::Null));
                    out.extend_from_slice(b"{\"");
                    out.extend_from_slice(part.as_bytes());
                    out.extend_from_slice(b"\":");
                }
                (_, None) => {
                    close(out, &mut open);
                    key(out, part);
                }
            }
            extra(out, value, view.digits());
        });
        close(out, &mut open);
    }

    fn interrupted(&mut self, view: &View<'_>, event: &Event) {
        let known = event.interrupted.and_then(|id| Some((id, view.trace.contexts.get(id)?)));
        let name = known.and_then(|(id, _)| self.rows.name(view, id));
        or_null(&mut self.out.buf, known, |out, (_, context)| {
            out.extend_from_slice(b"{\"address\":");
            hex(out, context.address, view.digits());
            key(out, "name");
            or_null(out, name, |o, n| string(o, &n));
            out.push(b'}');
        });
    }

    fn args(&mut self, view: &View<'_>, event: &Event) {
        let digits = view.digits();
        let out = &mut self.out.buf;
        out.push(b'[');
        let mut first = true;
        self.rows.args(view, event, |arg| {
            if !first {
                out.push(b',');
            }
            first = false;
            out.extend_from_slice(b"{\"name\":");
            string(out, arg.name);
            key(out, "kind");
            string(out, arg.kind.name());
            key(out, "value");
            if arg.is_number {
                num::dec(out, arg.value)
            } else {
                hex(out, arg.value, digits)
            }
            key(out, "text");
            string(out, arg.text);
            out.push(b'}');
        });
        out.push(b']');
    }
}

/// What extra fields that belong to the context begin with.
const OF_CONTEXT: &str = "context.";

/// Adds the value of a field that only one format's events have.
fn extra(out: &mut Vec<u8>, value: Extra<'_>, digits: u32) {
    match value {
        Extra::Null => out.extend_from_slice(b"null"),
        Extra::Number(n) => num::dec(out, n),
        Extra::Hex(n) => hex(out, n, digits),
        Extra::Text(text) => string(out, text),
    }
}

impl<W: Write> EventSink for Json<W> {
    fn begin(&mut self, view: &View<'_>, _: &Window) -> io::Result<()> {
        trace(&mut self.out.buf, view.trace, view.source, view.digits());
        Ok(())
    }

    fn event(&mut self, view: &View<'_>, event: &Event) -> io::Result<Flow> {
        let digits = view.digits();
        let out = &mut self.out.buf;
        out.extend_from_slice(b"{\"type\":\"event\",\"seq\":");
        num::dec(out, event.seq);
        key(out, "slot");
        num::dec(out, event.slot);
        key(out, "ticks");
        num::signed(out, event.ticks);
        key(out, "delta");
        or_null(out, event.delta, num::signed);
        key(out, "stamp");
        or_null(out, event.stamp, |o, s| hex(o, s, view.stamp_digits()));
        key(out, "core");
        num::dec(out, u64::from(event.core));
        key(out, "context");
        self.context(view, event);
        let out = &mut self.out.buf;
        key(out, "priority");
        or_null(out, event.priority, |o, p| num::dec(o, u64::from(p)));
        key(out, "threshold");
        or_null(out, event.threshold, |o, p| num::dec(o, u64::from(p)));
        key(out, "interrupted");
        self.interrupted(view, event);
        let out = &mut self.out.buf;
        let def = event.def.and_then(|d| view.catalogue.def(d));
        key(out, "id");
        num::dec(out, u64::from(event.id));
        key(out, "name");
        or_null(out, def, |o, d| string(o, &d.name));
        key(out, "macro");
        or_null(out, def.filter(|d| !d.macro_name.is_empty()), |o, d| string(o, &d.macro_name));
        key(out, "args");
        self.args(view, event);
        let out = &mut self.out.buf;
        key(out, "words");
        out.push(b'[');
        for (i, word) in view.trace.words(event).iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            hex(out, *word, digits);
        }
        out.push(b']');
        self.extras(view, event);
        end(&mut self.out.buf);
        self.events = self.events.saturating_add(1);
        self.out.row()?;
        Ok(Flow::More)
    }

    fn renew(&mut self) {
        self.rows = Rows::new();
        self.contexts.clear();
        self.interrupts.clear();
    }

    fn issue(&mut self, view: &View<'_>, one: &Issue) -> io::Result<()> {
        issue(&mut self.out.buf, one, view.digits());
        self.told = self.told.saturating_add(1);
        self.out.row()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, view: &View<'_>, issues: &[Issue]) -> io::Result<()> {
        for one in issues {
            issue(&mut self.out.buf, one, view.digits());
        }
        last(&mut self.out.buf, self.events, issues.len().saturating_add(self.told));
        self.out.flush()
    }
}
