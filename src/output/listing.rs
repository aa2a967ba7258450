//! What is listed beside events: the registry and the catalogue.

use std::io::{self, Write};

use super::{Format, Out, TableOptions, View, json, report_writer};
use crate::catalogue::Catalogue;
use crate::report::{Cell, Column, Kind, Report};
use crate::trace::Issue;

const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind }
}

/// Writes the object registry: `object` lines in JSON, else a table.
///
/// # Errors
/// Where the writer fails.
pub fn objects(
    format: Format,
    out: &mut dyn Write,
    view: &View<'_>,
    options: &TableOptions,
    issues: &[Issue],
) -> io::Result<()> {
    if format == Format::Json {
        let mut out = Out::new(out);
        json::trace(&mut out.buf, view.trace, view.source, view.digits());
        for object in view.trace.objects.iter() {
            json::object(&mut out.buf, object, view.digits());
            out.row()?;
        }
        for issue in issues {
            json::issue(&mut out.buf, issue, view.digits());
        }
        json::last(&mut out.buf, 0, issues.len());
        return out.flush();
    }
    let mut report = Report {
        name: "objects",
        columns: vec![
            column("address", Kind::Address),
            column("object_type", Kind::Text),
            column("name", Kind::Text),
            column("deleted", Kind::Flag),
            column("priority", Kind::Count),
            column("param1", Kind::Address),
            column("param2", Kind::Address),
        ],
        ..Report::default()
    };
    for object in view.trace.objects.iter() {
        let unknown = || format!("type_{}", object.type_code);
        report.rows.push(vec![
            Cell::Address(object.address),
            Cell::Text(object.type_name.map_or_else(unknown, str::to_owned)),
            Cell::Text(object.name.clone()),
            Cell::Flag(object.deleted),
            object.priority.map_or(Cell::Empty, |p| Cell::Count(u64::from(p))),
            Cell::Address(object.param1),
            Cell::Address(object.param2),
        ]);
    }
    let mut writer = report_writer(format, out, options, view.trace.about.word, view.names);
    writer.report(&report)?;
    writer.finish(issues)
}

/// Writes the `trace` line of JSON output.
///
/// # Errors
/// Where the writer fails.
pub fn write_trace(out: &mut dyn Write, view: &View<'_>) -> io::Result<()> {
    let mut line = Vec::new();
    json::trace(&mut line, view.trace, view.source, view.digits());
    out.write_all(&line)
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
            Cell::Text(def.class.clone()),
            Cell::Text(def.product.name().to_owned()),
            Cell::Text(def.effects.to_text()),
            Cell::Text(def.macro_name.clone()),
        ]);
    }
    report
}
