//! Every line of `--format json` is described by the schema that the program prints: those of all goldens, of every command on
//! every capture, and of the real traces where their folder is there.

#![cfg(feature = "cli")]

use std::path::{Path, PathBuf};

use super::golden_cli::SOURCES;
use crate::support::golden::data;
use crate::support::machine::Scratch;
use crate::support::real_traces;
use crate::support::schema::Schema;

/// The captures of other systems than ThreadX.
const OTHERS: [&str; 6] = [
    "--elf uia-stop.elf --image uia-stop.ram.bin@0x20000000",
    "uia-stop.ram.bin",
    "--symbol ti_uia_loggers_LoggerMin_Module__state__V=0x20000000 --image uia-min.ram.bin@0x20000000",
    "qnx-ring.bin",
    "qnx.kev",
    "smp.trx",
];

/// Every command that has events or reports, except those for live targets.
const COMMANDS: [&str; 13] = [
    "list",
    "last 3",
    "show 0 -1",
    "info",
    "objects",
    "objects --use",
    "threads",
    "threads --bt",
    "explain",
    "report",
    "report --tracex",
    "latency --every * --span isr_enter..isr_exit",
    "control show",
];

/// What no capture of ours shows: live targets and real traces do.
const UNMET: &[&str] = &[
    "row_control.address",
    "row_control.bytes",
    "row_filex",
    "row_filex_tracex",
    "row_interval",
    "row_netx",
    "row_netx_tracex",
    "row_threads_tracex.copies",
    "row_unregistered",
];

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()) {
        if entry.is_dir() { files(&entry, found) } else { found.push(entry) }
    }
    found.sort();
}

fn check(schema: &Schema, line: &str) -> usize {
    let count = schema.check_all(line, &data(line));
    assert!(count > 0, "{line}: no line of JSON");
    count
}

#[test]
fn every_line_of_the_goldens_and_captures_is_in_the_schema() {
    let schema = Schema::new();
    let mut goldens = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden"), &mut goldens);
    // A report that is made up, to show each kind of cell.
    goldens.retain(|path| !path.ends_with("output_report.json"));
    let texts = goldens.iter().map(|path| (path, std::fs::read_to_string(path).unwrap()));
    let count: usize = texts.map(|(path, text)| schema.check_all(&path.display().to_string(), &text)).sum();
    assert!(count > 900, "{count}");
    for source in SOURCES.iter().map(|(_, source)| *source).chain(OTHERS) {
        for command in COMMANDS {
            check(&schema, &format!("{command} --format json {source}"));
        }
    }
    let scratch = Scratch::new("json-schema");
    let events = scratch.path("events.tsv");
    let table = "id\tname\ti1\ti2\ti3\ti4\tlabel\n4105\tAPP_LATE\tmisses\tseen:flags\t\t\tlate {misses}\n";
    std::fs::write(&events, table).unwrap();
    let events = events.display();
    for line in [
        "events --format json",
        "last --format json cm3.core cm3.ram.bin",
        "last --format json no-such-file",
        "threads --format json --reg cfsr=0x8200 --reg hfsr=0x40000000 --reg bfar=0xe0200000 cm3.elf cm3.core",
        &format!("list --format json --class user --events {events} cm3.elf cm3.core"),
    ] {
        check(&schema, line);
    }
    assert_eq!(schema.unmet(), UNMET, "fields of the schema that nothing prints, or that are printed now");
}

#[test]
fn every_line_of_the_real_traces_is_in_the_schema() {
    let Some(dir) = real_traces() else { return };
    let (schema, mut all) = (Schema::new(), Vec::new());
    files(&dir, &mut all);
    let mut count = 0;
    for path in all {
        let name = path.display();
        let source = match path.extension().and_then(|e| e.to_str()) {
            Some("source") => format!("@{name}"),
            Some("trx") => name.to_string(),
            Some("bin") if name.to_string().contains("qnx") => name.to_string(),
            _ => continue,
        };
        count += 1;
        for command in COMMANDS {
            check(&schema, &format!("{command} --format json {source}"));
        }
    }
    assert!(count > 10, "{count} traces");
}

/// A consumer is promised that fields may be added; the tests are stricter.
#[test]
fn a_field_that_is_not_described_is_found() {
    let schema = Schema::new();
    assert!(schema.check(r#"{"type":"end","events":0,"issues":0}"#).is_ok());
    for wrong in [
        r#"{"type":"end","events":0,"issues":0,"more":1}"#,
        r#"{"type":"end","events":0}"#,
        r#"{"type":"end","events":-1,"issues":0}"#,
        r#"{"type":"row","report":"stats","counter":"events","value":"1"}"#,
        r#"{"type":"row","report":"no such report"}"#,
        r#"{"type":"nothing"}"#,
    ] {
        assert!(schema.check(wrong).is_err(), "{wrong}");
    }
}
