//! What is listed beside events: the registry and the catalogue.

use std::io::{self, Write};

use super::{Format, Reader, TableOptions, View, report_writer};
use crate::abi::Addr;
use crate::catalogue::{Catalogue, Show, threadx_object_named};
use crate::report::{Cell, Column, Kind, Report};
use crate::trace::{Issue, Object};

/// An object as memory has it, beside the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InMemory {
    /// Its address, as the trace stores addresses.
    pub address: Addr,
    /// Its type, as the registry calls it.
    pub object_type: String,
    /// Its name, where one is known. Hostile text: escape before printing.
    pub name: Option<String>,
    /// Its state in words.
    pub state: String,
}

/// The current state of an object; one that is deleted has none.
pub(super) fn now<'s>(object: &Object, in_memory: &'s [InMemory]) -> Option<&'s str> {
    let found = in_memory.iter().find(|s| s.address == object.address && !object.deleted);
    found.map(|s| s.state.as_str())
}

/// What memory has and the registry has not.
fn unregistered<'s>(view: &'s View<'_>, in_memory: &'s [InMemory]) -> impl Iterator<Item = &'s InMemory> {
    in_memory.iter().filter(|s| view.trace.objects.at(s.address).is_none_or(|o| o.deleted))
}

/// Writes the object registry: in the format's own form (`object` lines in JSON) or as a report. `in_memory` has the
/// objects' current states, where memory was read.
///
/// # Errors
/// Where the writer fails.
pub fn objects(
    format: Format,
    out: &mut dyn Write,
    view: &View<'_>,
    options: &TableOptions,
    in_memory: &[InMemory],
    issues: &[Issue],
) -> io::Result<()> {
    let mut writer = report_writer(format, out, options, view.trace.about.word, view.names);
    writer.begin(view)?;
    let written = writer.objects(view, in_memory)?;
    writer.report(&match format.reader() {
        _ if written => not_registered(view, in_memory),
        Reader::Program => registry(view, in_memory),
        Reader::Terminal | Reader::Page => registry_for_people(view, in_memory),
    })?;
    writer.finish(issues)
}

/// What memory has and the registry has not, as rows.
fn not_registered(view: &View<'_>, in_memory: &[InMemory]) -> Report {
    let text = |text: &str| Cell::Text(text.to_owned());
    let row = |s: &InMemory| vec![Cell::Named(s.address, s.name.clone()), text(&s.object_type), text(&s.state)];
    let columns = [
        Column::new("object", Kind::Object),
        Column::new("object_type", Kind::Word).titled("type"),
        Column::new("now", Kind::Text),
    ];
    let rows = unregistered(view, in_memory).map(row).collect();
    Report { rows, ..Report::new("unregistered", "Objects that are not in the registry", columns) }
}

/// Text; empty text is not there.
fn some_text(text: &str) -> Cell {
    if text.is_empty() { Cell::Empty } else { Cell::Text(text.to_owned()) }
}

fn type_name(object: &Object) -> Cell {
    Cell::Text(object.type_name.map_or_else(|| format!("type_{}", object.type_code), str::to_owned))
}

fn priority(object: &Object) -> Cell {
    object.priority.map_or(Cell::Empty, |p| Cell::Count(u64::from(p)))
}

/// The registry as it is stored.
fn registry(view: &View<'_>, in_memory: &[InMemory]) -> Report {
    let row = |object: &Object| {
        vec![
            Cell::Address(object.address),
            type_name(object),
            some_text(&object.name),
            Cell::Flag(object.deleted),
            priority(object),
            Cell::Address(object.param1),
            Cell::Address(object.param2),
            now(object, in_memory).map_or(Cell::Empty, |state| Cell::Text(state.to_owned())),
        ]
    };
    let besides = unregistered(view, in_memory).map(|s| {
        vec![
            Cell::Address(s.address),
            Cell::Text(s.object_type.clone()),
            some_text(s.name.as_deref().unwrap_or_default()),
            Cell::Empty,
            Cell::Empty,
            Cell::Empty,
            Cell::Empty,
            Cell::Text(s.state.clone()),
        ]
    });
    let columns = [
        Column::new("address", Kind::Address),
        Column::new("object_type", Kind::Word).titled("type"),
        Column::new("name", Kind::Text),
        Column::new("deleted", Kind::Flag),
        Column::new("priority", Kind::Count),
        Column::new("param1", Kind::Address),
        Column::new("param2", Kind::Address),
        Column::new("now", Kind::Text),
    ];
    let rows = view.trace.objects.iter().map(row).chain(besides).collect();
    Report { rows, ..Report::new("objects", "Objects", columns) }
}

/// The registry as people read it, by type and name, what is deleted last: what has no name of its own is called by its variable, and parameters say what they
/// are. That an object is deleted is shown there as well: it must not get lost where a long name is cut.
fn registry_for_people(view: &View<'_>, in_memory: &[InMemory]) -> Report {
    let named = |object: &Object| {
        let symbol = || view.names.object(object.address).filter(|_| object.name.is_empty());
        symbol().unwrap_or_else(|| object.name.clone())
    };
    let row = |object: &Object, name: String| {
        let mut words = if object.deleted { vec!["deleted".to_owned()] } else { Vec::new() };
        words.extend(parameters(view, object));
        vec![
            Cell::Address(object.address),
            type_name(object),
            Cell::Text(name),
            priority(object),
            Cell::Text(words.join(" ")),
            Cell::Text(now(object, in_memory).unwrap_or_default().to_owned()),
        ]
    };
    let besides = unregistered(view, in_memory).map(|s| {
        let name = s.name.clone().or_else(|| view.names.object(s.address)).unwrap_or_default();
        let row = vec![
            Cell::Address(s.address),
            Cell::Text(s.object_type.clone()),
            Cell::Text(name.clone()),
            Cell::Empty,
            Cell::Text("not in the registry".to_owned()),
            Cell::Text(s.state.clone()),
        ];
        let code = threadx_object_named(&s.object_type).map_or(u32::MAX, |t| t.code);
        ((code, s.object_type.clone(), false, name, s.address), row)
    });
    let registered = view.trace.objects.iter().map(|object| {
        let name = named(object);
        let kind = object.type_name.unwrap_or_default().to_owned();
        ((object.type_code, kind, object.deleted, name.clone(), object.address), row(object, name))
    });
    let mut rows: Vec<_> = registered.chain(besides).collect();
    rows.sort_by(|(a, _), (b, _)| a.cmp(b));
    let columns = [
        Column::new("address", Kind::Address),
        Column::new("type", Kind::Word),
        Column::new("name", Kind::Text),
        Column::new("pri", Kind::Count),
        Column::new("parameters", Kind::Text),
        Column::new("now", Kind::Text),
    ];
    let mut report = Report::new("objects", "Objects", columns);
    report.rows = rows.into_iter().map(|(_, row)| row).collect();
    report.nothing = "no object is registered".to_owned();
    if in_memory.is_empty() {
        report.truncate_columns(5);
    }
    report
}

/// The parameters of an object by name: `stack=0x20002c60 size=768`.
fn parameters(view: &View<'_>, object: &Object) -> Vec<String> {
    let all = match view.catalogue.object_type(object.type_code) {
        Some(known) => known.parameters([object.param1, object.param2], u64::try_from(view.digits() / 2).unwrap_or(8)),
        // What they mean is not known.
        None => {
            let all = [("param1", object.param1, Show::Hex), ("param2", object.param2, Show::Hex)];
            all.into_iter().filter(|(_, value, _)| *value != 0).collect()
        }
    };
    let say = |(name, value, show): &(&str, u64, Show)| match show {
        Show::Hex => format!("{name}={value:#x}"),
        Show::Dec | Show::Flag => format!("{name}={value}"),
    };
    all.iter().map(say).collect()
}

/// The catalogue as a report: ids, names, who inserts them, fields, effects.
pub fn catalogue(catalogue: &Catalogue) -> Report {
    let columns = [
        Column::new("id", Kind::Count),
        Column::new("name", Kind::Event),
        Column::new("fields", Kind::Text),
        Column::new("class", Kind::Text),
        Column::new("product", Kind::Text),
        Column::new("effects", Kind::Text),
        Column::new("macro", Kind::Text),
    ];
    let mut report = Report::new("events", "Events that are known", columns);
    for def in catalogue.iter() {
        let fields: Vec<String> = def
            .fields
            .iter()
            .enumerate()
            .filter_map(|(i, f)| Some((i, f.as_ref()?)))
            .map(|(i, f)| format!("i{}={}:{}", i.saturating_add(1), f.name, f.kind.name()))
            .collect();
        report.rows.push(vec![
            Cell::Count(u64::from(def.id)),
            Cell::Text(def.name.clone()),
            Cell::Text(fields.join(" ")),
            some_text(&def.class),
            Cell::Text(def.product.name().to_owned()),
            Cell::Text(def.effects.to_text()),
            some_text(&def.macro_name),
        ]);
    }
    report
}
