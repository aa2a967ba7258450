//! The columns that reports declare are those of the JSON Schema, also where a report has no rows.

use serde_json::Value;
use tx_trace::analysis::{Name, ReportRequest, reports};
use tx_trace::output::catalogue;
use tx_trace::query::{Filters, Query};
use tx_trace::report::{Kind, Report};

use super::query_and_output::fixture::story;
use crate::support::schema::schema;

/// The definition that a column of this kind refers to.
fn definition(kind: Kind) -> &'static str {
    match kind {
        Kind::Text | Kind::Word => "text",
        Kind::Count | Kind::Counter => "count",
        Kind::Ticks => "ticks",
        Kind::Address => "address",
        Kind::Flag => "flag",
        Kind::Real(_) | Kind::Percent(_) => "real",
        Kind::Thread => "thread",
        Kind::Object => "object",
        Kind::Event => "event",
        Kind::Seq => "seq",
        Kind::Interrupt => "interrupt",
        Kind::Code => "code",
        Kind::ThreadTimes => "thread_times",
        Kind::Frames => "frames",
        Kind::Registers => "registers",
        Kind::FaultBits => "fault_bits",
    }
}

/// What is wrong with the schema of a report.
fn wrong(report: &Report, schema: &Value) -> Vec<String> {
    let fields = &schema["$defs"][format!("row_{}", report.name)]["properties"];
    let check = |(name, kind): (&str, Kind)| {
        let what = format!("{}.{name}", report.name);
        let about = fields[name]["description"].as_str();
        let Some(of) = fields[name]["$ref"].as_str() else {
            return Some(format!("{what}: not in src/output/schema.json"));
        };
        let of = of.strip_prefix("#/$defs/cell_").unwrap_or(of);
        // Text that lists names is a text; an interrupt may be an object.
        let is_of_kind =
            of == definition(kind) || (of, kind) == ("list", Kind::Text) || (of, kind) == ("interrupt", Kind::Object);
        if !is_of_kind {
            return Some(format!("{what}: {of} in the schema, {} here", definition(kind)));
        }
        about.is_none().then(|| format!("{what}: no description"))
    };
    report.columns.iter().map(|c| (c.name, c.kind)).filter_map(check).collect()
}

#[test]
fn a_column_of_a_report_was_not_in_the_schema() {
    let (made, schema) = (story(None), schema());
    let query = Query::compile(&Filters::default(), &made.trace, &made.catalogue).unwrap();
    let every = vec!["*".to_owned()];
    let spans = vec!["3..4".to_owned()];
    let mut all = vec![catalogue(&made.catalogue)];
    for tracex in [false, true] {
        let names = Name::ALL.to_vec();
        let request = ReportRequest { names, tracex, every: every.clone(), spans: spans.clone(), last: 0 };
        all.extend(reports(&made.trace, &made.catalogue, &query, &request).unwrap());
    }
    assert!(all.len() > 15, "{}", all.len());
    let wrong: Vec<String> = all.iter().flat_map(|report| wrong(report, &schema)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
