//! What is listed beside events: the registry and the catalogue.

use std::io::{self, Write};

use super::{Format, Reader, TableOptions, View, report_writer};
use crate::abi::Addr;
use crate::catalogue::{Catalogue, Show};
use crate::report::{Cell, Column, Kind, Report};
use crate::trace::{Issue, Object};

const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind }
}

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
    Report {
        name: "unregistered",
        columns: vec![column("object", Kind::Object), column("object_type", Kind::Text), column("now", Kind::Text)],
        rows: unregistered(view, in_memory).map(row).collect(),
        ..Report::default()
    }
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
    Report {
        name: "objects",
        columns: vec![
            column("address", Kind::Address),
            column("object_type", Kind::Text),
            column("name", Kind::Text),
            column("deleted", Kind::Flag),
            column("priority", Kind::Count),
            column("param1", Kind::Address),
            column("param2", Kind::Address),
            column("now", Kind::Text),
        ],
        rows: view.trace.objects.iter().map(row).chain(besides).collect(),
        ..Report::default()
    }
}

/// The registry as people read it: what has no name of its own is called by its variable, and parameters say what they
/// are. That an object is deleted is shown there as well: it must not get lost where a long name is cut.
fn registry_for_people(view: &View<'_>, in_memory: &[InMemory]) -> Report {
    let row = |object: &Object| {
        let symbol = || view.names.object(object.address).filter(|_| object.name.is_empty());
        let mut words = if object.deleted { vec!["deleted".to_owned()] } else { Vec::new() };
        words.extend(parameters(view, object));
        vec![
            Cell::Address(object.address),
            type_name(object),
            Cell::Text(symbol().unwrap_or_else(|| object.name.clone())),
            priority(object),
            Cell::Text(words.join(" ")),
            Cell::Text(now(object, in_memory).unwrap_or_default().to_owned()),
        ]
    };
    let besides = unregistered(view, in_memory).map(|s| {
        let name = s.name.clone().or_else(|| view.names.object(s.address)).unwrap_or_default();
        vec![
            Cell::Address(s.address),
            Cell::Text(s.object_type.clone()),
            Cell::Text(name),
            Cell::Empty,
            Cell::Text("not in the registry".to_owned()),
            Cell::Text(s.state.clone()),
        ]
    });
    let mut report = Report {
        name: "objects",
        columns: vec![
            column("address", Kind::Address),
            column("type", Kind::Text),
            column("name", Kind::Text),
            column("pri", Kind::Count),
            column("parameters", Kind::Text),
            column("now", Kind::Text),
        ],
        rows: view.trace.objects.iter().map(row).chain(besides).collect(),
        ..Report::default()
    };
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
#[must_use]
pub fn catalogue(catalogue: &Catalogue) -> Report {
    let mut report = Report {
        name: "events",
        columns: vec![
            column("id", Kind::Count),
            column("name", Kind::Event),
            column("fields", Kind::Text),
            column("class", Kind::Text),
            column("product", Kind::Text),
            column("effects", Kind::Text),
            column("macro", Kind::Text),
        ],
        ..Report::default()
    };
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
