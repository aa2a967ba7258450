//! What is listed beside events: the registry and the catalogue.

use std::io::{self, Write};

use super::{Format, Reader, TableOptions, View, report_writer};
use crate::abi::Addr;
use crate::catalogue::{Catalogue, EventDef, Show, threadx_object_named};
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
    Report::table(
        "unregistered",
        "Objects that are not in the registry",
        unregistered(view, in_memory),
        &[
            (Column::new("object", Kind::Object), &|s| Cell::named(s.address, s.name.clone())),
            (Column::new("object_type", Kind::Word).titled("type"), &|s| Cell::text(&s.object_type)),
            (Column::new("now", Kind::Text), &|s| Cell::text(&s.state)),
        ],
    )
}

fn type_name(object: &Object) -> String {
    object.type_name.map_or_else(|| format!("type_{}", object.type_code), str::to_owned)
}

/// The registry as it is stored.
fn registry(view: &View<'_>, in_memory: &[InMemory]) -> Report {
    let registered = view.trace.objects.iter().map(|object| {
        let name = Some(object.name.as_str());
        (object.address, type_name(object), name, Some(object), now(object, in_memory))
    });
    let besides = unregistered(view, in_memory)
        .map(|s| (s.address, s.object_type.clone(), s.name.as_deref(), None, Some(s.state.as_str())));
    Report::table(
        "objects",
        "Objects",
        registered.chain(besides),
        &[
            (Column::new("address", Kind::Address), &|o| Cell::Address(o.0)),
            (Column::new("object_type", Kind::Word).titled("type"), &|o| Cell::text(&o.1)),
            (Column::new("name", Kind::Text), &|o| Cell::some_text(o.2)),
            (Column::new("deleted", Kind::Flag), &|o| Cell::flag(o.3.map(|object| object.deleted))),
            (Column::new("priority", Kind::Count), &|o| Cell::count(o.3.and_then(|object| object.priority))),
            (Column::new("param1", Kind::Address), &|o| Cell::address(o.3.map(|object| object.param1))),
            (Column::new("param2", Kind::Address), &|o| Cell::address(o.3.map(|object| object.param2))),
            (Column::new("now", Kind::Text), &|o| o.4.map_or(Cell::Empty, Cell::text)),
        ],
    )
}

/// The registry as people read it, by type and name, what is deleted last: what has no name of its own is called by its variable, and parameters say what they
/// are. That an object is deleted is shown there as well: it must not get lost where a long name is cut.
fn registry_for_people(view: &View<'_>, in_memory: &[InMemory]) -> Report {
    // By kind, name and address, what is deleted last; then what is shown of it.
    let registered = view.trace.objects.iter().map(|object| {
        let symbol = view.names.object(object.address).filter(|_| object.name.is_empty());
        let name = symbol.unwrap_or_else(|| object.name.clone());
        let mut words = if object.deleted { vec!["deleted".to_owned()] } else { Vec::new() };
        words.extend(parameters(view, object));
        let kind = object.type_name.unwrap_or_default().to_owned();
        let order = (object.type_code, kind, object.deleted, name, object.address);
        (order, type_name(object), object.priority, words.join(" "), now(object, in_memory).unwrap_or_default())
    });
    let besides = unregistered(view, in_memory).map(|s| {
        let name = s.name.clone().or_else(|| view.names.object(s.address)).unwrap_or_default();
        let code = threadx_object_named(&s.object_type).map_or(u32::MAX, |t| t.code);
        let order = (code, s.object_type.clone(), false, name, s.address);
        (order, s.object_type.clone(), None, "not in the registry".to_owned(), s.state.as_str())
    });
    let mut rows: Vec<_> = registered.chain(besides).collect();
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    let mut report = Report::table(
        "objects",
        "Objects",
        &rows,
        &[
            (Column::new("address", Kind::Address), &|o| Cell::Address(o.0.4)),
            (Column::new("type", Kind::Word), &|o| Cell::text(&o.1)),
            (Column::new("name", Kind::Text), &|o| Cell::text(&o.0.3)),
            (Column::new("pri", Kind::Count), &|o| Cell::count(o.2)),
            (Column::new("parameters", Kind::Text), &|o| Cell::text(&o.3)),
            (Column::new("now", Kind::Text), &|o| Cell::text(o.4)),
        ],
    );
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
    let fields = |def: &EventDef| {
        let all = (1..).zip(&def.fields).filter_map(|(i, field)| Some((i, field.as_ref()?)));
        let all = all.map(|(i, field)| format!("i{i}={}:{}", field.name, field.kind.name()));
        all.collect::<Vec<String>>().join(" ")
    };
    Report::table(
        "events",
        "Events that are known",
        catalogue.iter(),
        &[
            (Column::new("id", Kind::Count), &|def| Cell::Count(def.id.into())),
            (Column::new("name", Kind::Event), &|def| Cell::text(&def.name)),
            (Column::new("fields", Kind::Text), &|def| Cell::Text(fields(def))),
            (Column::new("class", Kind::Text), &|def| Cell::some_text(Some(def.class.as_str()))),
            (Column::new("product", Kind::Text), &|def| Cell::text(def.product.name())),
            (Column::new("effects", Kind::Text), &|def| Cell::Text(def.effects.to_text())),
            (Column::new("macro", Kind::Text), &|def| Cell::some_text(Some(def.macro_name.as_str()))),
        ],
    )
}
