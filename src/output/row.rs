//! Joins names once for every sink: who, what, and what the arguments say.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::rc::Rc;

use super::View;
use super::escape::escape_into;
use super::text::{add, add_decimal, add_hex};
use super::window::Inserter;
use crate::abi::{Addr, Endian};
use crate::catalogue::user::Part;
use crate::catalogue::{ArgKind, Effect, EventDef, FieldDef, Product};
use crate::query::context_word;
use crate::trace::{ContextId, ContextKind, DefId, Event, ObjectId};

/// How many addresses without an object are remembered: a trace full of stray pointers takes no more memory.
const REMEMBERED: usize = 1 << 16;

/// Numbers below this are found by indexing: a Cortex-M has at most 496 exceptions.
const EXCEPTIONS: usize = 512;

/// One argument, joined with its definition and names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arg<'a> {
    /// Number of its word, from 0.
    pub word: usize,
    /// Full name of the field.
    pub name: &'a str,
    /// Its short name, as a table has it.
    pub label: &'a str,
    /// How to read it.
    pub kind: ArgKind,
    /// The word as it is stored.
    pub value: u64,
    /// What it says. Hostile: escape before printing.
    pub text: &'a str,
    /// True where the word is not to be relied on.
    pub doubtful: bool,
    /// False for a word without a description, which is called by its number.
    pub is_described: bool,
}

/// One argument of a table. Label and text are hostile: escape before printing.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShownArg<'a> {
    pub label: &'a str,
    pub text: &'a str,
    /// True for a text that may be broken between its words: a message, and not a name.
    pub is_prose: bool,
}

/// Joins events with names. Keeps what it has joined: one look-up an object, not one an event.
#[derive(Debug, Default)]
pub(super) struct Rows {
    contexts: Vec<Option<Who>>,
    objects: Vec<Option<Box<str>>>,
    strays: HashMap<(Pointed, Addr), Option<Box<str>>>,
    /// Of the numbers that processors have, and of all others.
    exceptions: Exceptions,
    orders: Rc<Vec<Vec<usize>>>,
    text: String,
    label: String,
    /// Whether the newest events are among those that were read, once it was asked for.
    pub(super) end_is_known: Option<bool>,
}

/// What a context is called.
#[derive(Debug, Clone)]
struct Who {
    text: Rc<str>,
    /// False where only its kind or address is known.
    is_name: bool,
}

/// Names of exceptions: those of small numbers in a list, where one that was not looked up yet is `None`.
type Exceptions = (Vec<Option<Option<Rc<str>>>>, HashMap<u32, Option<Rc<str>>>);

/// What an address is taken to point to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Pointed {
    Object,
    Thread,
    Code,
}

/// One word of an event, and the definition that describes it.
#[derive(Clone, Copy)]
struct Word<'d> {
    def: &'d EventDef,
    index: usize,
    value: u64,
    /// The whole payload.
    words: &'d [u64],
    /// An address without a name comes with its type.
    typed: bool,
}

impl<'d> Word<'d> {
    /// The field that begins at a word; `None` where none does, or the payload ends before it.
    fn at(view: &View<'_>, def: &'d EventDef, index: usize, words: &'d [u64], typed: bool) -> Option<Self> {
        let value = def.field(index)?.takes.value(words, index, view.trace.about.endian)?;
        Some(Self { def, index, value, words, typed })
    }

    /// True where it names the thread that inserted the event.
    fn repeats_who(&self, view: &View<'_>, event: &Event, field: &FieldDef) -> bool {
        view.trace.contexts.get(event.context).is_some_and(|c| {
            let by_one = matches!(field.kind, ArgKind::Ptr | ArgKind::ThreadPtr) && c.address == self.value;
            let by_two = || self.def.effects.named_with(self.index, self.words) == Some(c.address);
            c.kind == ContextKind::Thread && (by_one || by_two())
        })
    }
}

/// Which words of an event are shown although its definition does not describe them.
#[derive(Clone, Copy)]
enum Undescribed<'d> {
    /// None: the definition of a kernel's event describes all that mean anything.
    None,
    /// All before this one: after them are zeros.
    Before(usize),
    /// What the application filled, and did not describe.
    Filled(&'d EventDef),
}

impl<'d> Undescribed<'d> {
    fn of(def: Option<&'d EventDef>, words: &[u64]) -> Self {
        match def {
            Some(def) if def.product != Product::User => Self::None,
            Some(def) if def.fields.iter().any(Option::is_some) => Self::Filled(def),
            _ => Self::Before(words.iter().rposition(|w| *w != 0).map_or(0, |last| last.saturating_add(1))),
        }
    }

    fn has(self, index: usize, word: u64) -> bool {
        match self {
            Self::None => false,
            Self::Before(end) => index < end,
            Self::Filled(def) => word != 0 && def.field(index).is_none(),
        }
    }
}

/// The fields of a definition in the order in which a table shows them: what happened first; raw addresses and stack
/// pointers, which say least, last.
fn order_of(def: &EventDef) -> Vec<usize> {
    let rank = |f: &FieldDef| match f.kind {
        ArgKind::StackPtr => 2,
        ArgKind::Addr | ArgKind::Code => 1,
        _ => 0,
    };
    let mut list: Vec<(u8, usize)> =
        def.fields.iter().enumerate().filter_map(|(i, f)| Some((rank(f.as_ref()?), i))).collect();
    list.sort_unstable();
    list.into_iter().map(|(_, i)| i).collect()
}

/// The place of a dense number in a list that grows to it; foreign numbers have none.
pub(super) fn place<T: Clone>(list: &mut Vec<Option<T>>, index: u32, len: usize) -> Option<&mut Option<T>> {
    let index = usize::try_from(index).ok().filter(|i| *i < len)?;
    if index >= list.len() {
        list.resize(len, None);
    }
    list.get_mut(index)
}

impl Rows {
    /// Nothing joined yet.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Who inserted an event: as [`Rows::who`], but an ISR is called by its exception where that is known. Hostile:
    /// escape before printing.
    pub(super) fn who_of(&mut self, view: &View<'_>, event: &Event) -> &str {
        match event.isr.filter(|n| self.exception(view, *n).is_some()) {
            Some(number) => self.exception(view, number).map_or("ISR", |name| name),
            None => self.who(view, event.context),
        }
    }

    /// Adds who inserted an event, escaped: as [`Rows::who_of`], and with `behind` also whom it interrupted.
    pub(super) fn add_who(&mut self, view: &View<'_>, inserter: Inserter, behind: bool, out: &mut String) {
        let Inserter { context, isr, interrupted } = inserter;
        match isr.filter(|n| self.exception(view, *n).is_some()) {
            Some(number) => escape_into(self.exception(view, number).map_or("ISR", |name| name), out),
            None => escape_into(self.who(view, context), out),
        };
        if let Some(thread) = interrupted.filter(|_| behind) {
            out.push('<');
            escape_into(self.who(view, thread), out);
        }
    }

    /// The name of who inserted an event: as [`Rows::name`], but an ISR is called by its exception where that is known.
    pub(super) fn name_of(&mut self, view: &View<'_>, event: &Event) -> Option<Rc<str>> {
        let exception = event.isr.and_then(|n| self.exception(view, n)).cloned();
        exception.or_else(|| self.name(view, event.context))
    }

    /// What the exception of this number is called.
    pub(super) fn exception(&mut self, view: &View<'_>, number: u32) -> Option<&Rc<str>> {
        let name = || view.names.exception(number).map(Rc::from);
        let (dense, others) = &mut self.exceptions;
        if let Some(known) = place(dense, number, EXCEPTIONS) {
            return known.get_or_insert_with(name).as_ref();
        }
        // Interrupts are few; damage makes many numbers.
        if others.len() >= REMEMBERED {
            others.clear();
        }
        others.entry(number).or_insert_with(name).as_ref()
    }

    /// What a context is called. Hostile: escape before printing.
    pub(super) fn who(&mut self, view: &View<'_>, id: ContextId) -> &str {
        self.context(view, id).map_or("?", |who| &who.text)
    }

    /// The name of a thread or another context that has one; `None` where only its kind or address is known.
    pub(super) fn name(&mut self, view: &View<'_>, id: ContextId) -> Option<Rc<str>> {
        self.context(view, id).filter(|who| who.is_name).map(|who| Rc::clone(&who.text))
    }

    fn context(&mut self, view: &View<'_>, id: ContextId) -> Option<&Who> {
        let all = &view.trace.contexts;
        let context = all.get(id)?;
        let known = place(&mut self.contexts, id.0, all.len())?;
        Some(known.get_or_insert_with(|| {
            let own = context.name.as_deref().filter(|n| !n.is_empty());
            let (text, is_name) = match (own, context_word(context.kind)) {
                (Some(own), _) => (own.into(), true),
                (None, Some(word)) => (word.into(), context.kind == ContextKind::Idle),
                (None, None) => match view.names.object(context.address) {
                    Some(symbol) => (symbol.into(), context.kind == ContextKind::Thread),
                    None => (format!("{:#x}", context.address).into(), false),
                },
            };
            Who { text, is_name }
        }))
    }

    /// True where the first argument of an event is the object, or the other thread, that it is about.
    pub(super) fn leads_with_object(&mut self, view: &View<'_>, event: &Event) -> bool {
        let Some((id, def)) = event.def.and_then(|d| Some((d, view.catalogue.def(d)?))) else { return false };
        let orders = self.orders(view, id);
        let order = orders.get(id.index()).map_or(&[][..], Vec::as_slice);
        let words = view.trace.words(event);
        let first = order.iter().find_map(|word| {
            let of = Word::at(view, def, *word, words, false)?;
            def.field(*word).filter(|field| !of.repeats_who(view, event, field))
        });
        first.is_some_and(|field| matches!(field.kind, ArgKind::Ptr | ArgKind::ThreadPtr))
    }

    /// What the event is called: its definition's name, or one made from its id.
    pub(super) fn event<'v>(view: &View<'v>, event: &Event) -> Cow<'v, str> {
        match event.def.and_then(|d| view.catalogue.def(d)) {
            Some(def) => def.name.as_str().into(),
            None => view.catalogue.made_up_name(event.id).into(),
        }
    }

    /// Every argument, in the order of the words: those that the definition names, and the words that it does not describe
    /// where a table shows them too.
    pub(super) fn args(&mut self, view: &View<'_>, event: &Event, mut each: impl FnMut(&Arg<'_>)) {
        let words = view.trace.words(event);
        let def = event.def.and_then(|d| view.catalogue.def(d));
        let raw = Undescribed::of(def, words);
        let (mut text, mut label) = (std::mem::take(&mut self.text), std::mem::take(&mut self.label));
        for (word, stored) in words.iter().enumerate() {
            let field = def.and_then(|def| Some((Word::at(view, def, word, words, true)?, def.field(word)?)));
            text.clear();
            let (name, short, kind, value) = if let Some((of, field)) = field {
                self.say(view, event, of, field, &mut text);
                (&field.name, &field.label, field.kind, of.value)
            } else if raw.has(word, *stored) {
                let kind = self.say_raw(view, word, *stored, &mut label, &mut text);
                (&label, &label, kind, *stored)
            } else {
                continue;
            };
            let (doubtful, is_described) = (is_doubtful(event, word), field.is_some());
            each(&Arg { word, name, label: short, kind, value, text: &text, doubtful, is_described });
        }
        (self.text, self.label) = (text, label);
    }

    /// As [`Rows::shown_args`], label and text alone.
    pub(super) fn table_args(
        &mut self,
        view: &View<'_>,
        event: &Event,
        mut each: impl FnMut(&str, &str) -> ControlFlow<()>,
    ) {
        self.shown_args(view, event, |arg| each(arg.label, arg.text));
    }

    /// The arguments that a table shows: without those that repeat the context, the most useful ones first; the words
    /// themselves where the event has no description; a sentence, where the event has one, without a label; until
    /// `each` breaks: a narrow table has no room for most of them.
    pub(super) fn shown_args(
        &mut self,
        view: &View<'_>,
        event: &Event,
        mut each: impl FnMut(ShownArg<'_>) -> ControlFlow<()>,
    ) {
        let words = view.trace.words(event);
        let Some((id, def)) = event.def.and_then(|d| Some((d, view.catalogue.def(d)?))) else {
            return self.raw_args(view, event, Undescribed::of(None, words), words, &mut each);
        };
        if let Some(said) = self.sentence(view, event) {
            let _ = each(ShownArg { label: "", text: &said, is_prose: true });
            return;
        }
        let orders = self.orders(view, id);
        let order = orders.get(id.index()).map_or(&[][..], Vec::as_slice);
        let mut text = std::mem::take(&mut self.text);
        let shown = order.iter().try_for_each(|word| {
            let (Some(of), Some(field)) = (Word::at(view, def, *word, words, false), def.field(*word)) else {
                return ControlFlow::Continue(());
            };
            if of.repeats_who(view, event, field) {
                return ControlFlow::Continue(());
            }
            text.clear();
            self.say(view, event, of, field, &mut text);
            if is_doubtful(event, *word) {
                text.push('?');
            }
            let is_prose = matches!(field.kind, ArgKind::Text | ArgKind::Str);
            each(ShownArg { label: &field.label, text: &text, is_prose })
        });
        self.text = text;
        if shown.is_continue() {
            self.raw_args(view, event, Undescribed::of(Some(def), words), words, &mut each);
        }
    }

    /// The sentence with an event's arguments, where its description has one. Hostile: escape before printing.
    pub(super) fn sentence(&mut self, view: &View<'_>, event: &Event) -> Option<String> {
        let def = view.catalogue.def(event.def?)?;
        let template = view.catalogue.template(def.id)?;
        let words = view.trace.words(event);
        let mut out = String::new();
        for part in &template.parts {
            let word = match part {
                Part::Text(text) => {
                    out.push_str(text);
                    continue;
                }
                Part::Word(i) => *i,
                Part::Field(name) => {
                    def.fields.iter().position(|f| f.as_ref().is_some_and(|f| f.name == *name)).unwrap_or(usize::MAX)
                }
            };
            let Some(value) = words.get(word) else {
                out.push('?');
                continue;
            };
            match def.field(word) {
                Some(field) => {
                    let of = Word { def, index: word, value: *value, words, typed: true };
                    self.say(view, event, of, field, &mut out);
                }
                None => add_decimal(&mut out, *value),
            }
            if is_doubtful(event, word) {
                out.push('?');
            }
        }
        Some(out)
    }

    /// The orders of all definitions, this one among them.
    fn orders(&mut self, view: &View<'_>, id: DefId) -> Rc<Vec<Vec<usize>>> {
        if id.index() >= self.orders.len() {
            self.orders = Rc::new(view.catalogue.iter().map(order_of).collect());
        }
        Rc::clone(&self.orders)
    }

    /// Words that no definition describes.
    fn raw_args(
        &mut self,
        view: &View<'_>,
        event: &Event,
        raw: Undescribed<'_>,
        words: &[u64],
        each: &mut impl FnMut(ShownArg<'_>) -> ControlFlow<()>,
    ) {
        let (mut text, mut label) = (std::mem::take(&mut self.text), std::mem::take(&mut self.label));
        for (i, word) in words.iter().enumerate().filter(|(i, word)| raw.has(*i, **word)) {
            text.clear();
            self.say_raw(view, i, *word, &mut label, &mut text);
            if is_doubtful(event, i) {
                text.push('?');
            }
            if each(ShownArg { label: &label, text: &text, is_prose: false }).is_break() {
                break;
            }
        }
        (self.text, self.label) = (text, label);
    }

    /// Adds what a word without a description says, and sets its label. Where it is an object's address it is taken for one.
    fn say_raw(&mut self, view: &View<'_>, index: usize, word: u64, label: &mut String, text: &mut String) -> ArgKind {
        label.clear();
        label.push('i');
        add_decimal(label, index.saturating_add(1));
        let object = view.trace.objects.id_at(word).filter(|_| word != 0);
        match object.map(|id| self.object(view, id)).filter(|name| !name.is_empty()) {
            Some(name) => {
                text.push_str(name);
                ArgKind::Ptr
            }
            None => {
                add_hex(text, word, 1);
                ArgKind::Hex
            }
        }
    }

    /// Adds what a word says.
    fn say(&mut self, view: &View<'_>, event: &Event, of: Word<'_>, field: &FieldDef, out: &mut String) {
        let Word { def, index: word, value, words, .. } = of;
        if field.kind == ArgKind::Text {
            let characters = characters(view, words.get(word..).unwrap_or(&[]));
            return out.push_str(&String::from_utf8_lossy(&characters));
        }
        if let Some(words) = &field.words {
            if let Some(own) = words.word(value) {
                return out.push_str(own);
            }
            if words.bits && value != 0 {
                return bits(words, value, out);
            }
        }
        if let Some(own) = event.isr.filter(|_| numbers_isr(def, word)) {
            // The application numbers its interrupts as it likes: as exceptions, as interrupts of the chip (16 fewer), or
            // neither, and then its number is no exception.
            let same = value == u64::from(own) || value.checked_add(16) == Some(u64::from(own));
            if let Some(name) = self.exception(view, own).filter(|_| same) {
                return out.push_str(name);
            }
        }
        self.say_kind(view, of, field, out);
    }

    /// Adds what a word says by its kind alone.
    fn say_kind(&mut self, view: &View<'_>, of: Word<'_>, field: &FieldDef, out: &mut String) {
        let Word { def, index: word, value, typed, .. } = of;
        match field.kind {
            ArgKind::Dec | ArgKind::Size | ArgKind::Ticks | ArgKind::State => add_decimal(out, value),
            ArgKind::Ip => {
                let [.., a, b, c, d] = value.to_be_bytes();
                add(out, format_args!("{a}.{b}.{c}.{d}"));
            }
            ArgKind::ThreadPtr if value == 0 => {
                // No thread runs next, or no thread has it.
                let next = def.effects.iter().any(|(e, f)| e == Effect::Run && f == Some(word));
                out.push_str(if next { "idle" } else { "none" });
            }
            ArgKind::Ptr | ArgKind::ThreadPtr if value != 0 => {
                let what = if field.kind == ArgKind::Ptr { Pointed::Object } else { Pointed::Thread };
                if let Some(name) = self.pointed(view, what, value) {
                    return out.push_str(name);
                }
                if typed {
                    let known = view.trace.objects.at(value).and_then(|o| o.type_name);
                    let word = if what == Pointed::Thread { "thread" } else { &field.label };
                    add(out, format_args!("{} ", known.unwrap_or(word)));
                }
                add_hex(out, value, 1);
            }
            ArgKind::Code if value != 0 => match self.stray(view, Pointed::Code, value) {
                Some(name) => out.push_str(name),
                None => add_hex(out, value, 1),
            },
            ArgKind::Int => {
                // Two's complement of the stored width.
                let bits = u32::try_from(view.trace.about.word.bytes()).unwrap_or(8).saturating_mul(8);
                let unused = 64u32.saturating_sub(bits);
                let signed = i64::from_ne_bytes(value.to_ne_bytes()).checked_shl(unused).unwrap_or(0);
                add_decimal(out, signed.checked_shr(unused).unwrap_or(0));
            }
            ArgKind::Str => match view.trace.text(value) {
                Some(text) => out.push_str(text),
                None => add_hex(out, value, 1),
            },
            ArgKind::Process => match view.trace.objects.id_at(value).map(|id| self.object(view, id)) {
                Some(name) if !name.is_empty() => out.push_str(name),
                _ => add_decimal(out, value),
            },
            _ => add_hex(out, value, 1),
        }
    }

    /// The name of what is at an address, where it has one.
    fn pointed(&mut self, view: &View<'_>, what: Pointed, address: Addr) -> Option<&str> {
        // The memory of a thread may serve another object by now.
        let fits = |id| what != Pointed::Thread || view.trace.objects.get(id).is_some_and(|o| o.is_thread);
        match view.trace.objects.id_at(address).filter(|id| fits(*id)) {
            Some(id) if !self.object(view, id).is_empty() => Some(self.object(view, id)),
            _ => self.stray(view, what, address),
        }
    }

    /// The same for an address that the registry does not name.
    fn stray(&mut self, view: &View<'_>, what: Pointed, address: Addr) -> Option<&str> {
        if self.strays.len() >= REMEMBERED && !self.strays.contains_key(&(what, address)) {
            self.strays.clear();
        }
        let known = self.strays.entry((what, address)).or_insert_with(|| {
            let thread = || {
                let id = view.trace.contexts.find(ContextKind::Thread, address)?;
                view.trace.contexts.get(id)?.name.as_deref().filter(|n| !n.is_empty()).map(str::to_owned)
            };
            let name = match what {
                Pointed::Thread => thread().or_else(|| view.names.object(address)),
                Pointed::Object => view.names.object(address),
                Pointed::Code => view.names.code(address),
            };
            name.map(String::into_boxed_str)
        });
        known.as_deref()
    }

    /// What a registered object is called; empty where it has no name.
    fn object(&mut self, view: &View<'_>, id: ObjectId) -> &str {
        let all = &view.trace.objects;
        let known = place(&mut self.objects, id.0, all.len());
        let (Some(known), Some(object)) = (known, all.get(id)) else { return "" };
        known.get_or_insert_with(|| {
            let name = Some(object.name.clone()).filter(|n| !n.is_empty());
            let name = name.or_else(|| view.names.object(object.address)).unwrap_or_default();
            if object.deleted && !name.is_empty() { format!("{name}(deleted)") } else { name }.into_boxed_str()
        })
    }
}

/// The characters that words hold in the target's memory, up to a zero byte.
fn characters(view: &View<'_>, words: &[u64]) -> Vec<u8> {
    let width = view.trace.about.word.bytes();
    let mut all = Vec::with_capacity(words.len().saturating_mul(width));
    for word in words {
        match view.trace.about.endian {
            Endian::Little => all.extend_from_slice(word.to_le_bytes().get(..width).unwrap_or(&[])),
            Endian::Big => all.extend_from_slice(word.to_be_bytes().get(8usize.saturating_sub(width)..).unwrap_or(&[])),
        }
    }
    let end = all.iter().position(|b| *b == 0).unwrap_or(all.len());
    all.truncate(end);
    all
}

/// True for the word in which the application numbers an interrupt.
fn numbers_isr(def: &EventDef, word: usize) -> bool {
    def.effects.iter().any(|(e, at)| matches!(e, Effect::IsrEnter | Effect::IsrExit) && at == Some(word))
}

/// True for a word (from 0) that is not to be relied on.
pub(super) fn is_doubtful(event: &Event, word: usize) -> bool {
    u32::try_from(word).ok().and_then(|w| event.doubtful.checked_shr(w)).is_some_and(|bits| bits & 1 == 1)
}

/// Adds a set of bits in words: `a|b|0x40`.
fn bits(words: &crate::catalogue::Enumeration, value: u64, out: &mut String) {
    let mut rest = value;
    let start = out.len();
    for (bit, word) in words.words.iter().filter(|(bit, _)| *bit != 0 && value & bit == *bit) {
        out.push_str(if out.len() > start { "|" } else { "" });
        out.push_str(word);
        rest &= !bit;
    }
    if rest != 0 {
        out.push_str(if out.len() > start { "|" } else { "" });
        add_hex(out, rest, 1);
    }
}
