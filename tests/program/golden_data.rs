//! What programs read: events and reports as JSON and CSV, of one capture of each system, compared with goldens.

#![cfg(feature = "cli")]

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::golden::{check, data};
use crate::support::machine::installed;

const SOURCES: [(&str, &str); 4] = [
    ("cm3", "cm3.elf cm3.core"),
    ("smp", "smp.elf smp.core"),
    ("uia", "--elf uia-stop.elf --image uia-stop.ram.bin@0x20000000"),
    ("qnx", "qnx-ring.bin"),
];

#[test]
fn events_and_reports_of_each_system() {
    for (name, source) in SOURCES {
        for format in ["json", "csv"] {
            // The whole list of cm3 is a golden of its own.
            let list = format!("list --from -40 --format {format} {source}");
            check(&format!("data-{name}-list-{format}"), &[list]);
            let reports = ["report", "latency --every * --span 3..4", "objects", "objects --use"];
            check(
                &format!("data-{name}-reports-{format}"),
                &reports.map(|r| format!("{r} --format {format} {source}")),
            );
        }
    }
}

/// The rows of a CSV text by the names of its head.
fn csv(text: &str) -> Vec<Vec<(String, String)>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let head = reader.headers().unwrap().clone();
    let row = |row: csv::StringRecord| head.iter().zip(&row).map(|(n, c)| (n.to_owned(), c.to_owned())).collect();
    reader.records().map(|r| row(r.unwrap())).collect()
}

/// Every cell of the events as CSV is the field of that name in JSON.
#[test]
fn csv_and_json_say_the_same() {
    for (name, source) in SOURCES {
        let json = data(&format!("list --format json {source}"));
        let events: Vec<Value> = json
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .filter(|line: &Value| line["type"] == "event")
            .collect();
        let rows = csv(&data(&format!("list --format csv {source}")));
        assert_eq!(events.len(), rows.len(), "{name}");
        for (event, row) in events.iter().zip(&rows) {
            for (column, cell) in row.iter().filter(|(column, _)| column != "args") {
                let value = match column.as_str() {
                    "words" => Value::from(words(event)),
                    _ => field(event, column).clone(),
                };
                let said = match &value {
                    Value::Null => String::new(),
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let doubtful = column.ends_with(".text") && cell.strip_suffix('?') == Some(&said);
                assert!(*cell == said || doubtful, "{name}: {column} of {event}: {cell}");
            }
        }
    }
}

fn words(event: &Value) -> String {
    let all = event["words"].as_array().unwrap().iter();
    all.map(|word| word.as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

/// A field by the name of its column: `context.name`, `args.2.text`.
fn field<'v>(event: &'v Value, column: &str) -> &'v Value {
    column.split('.').fold(event, |value, part| match part.parse::<usize>() {
        Ok(number) => &value[number.saturating_sub(1)],
        Err(_) => &value[part],
    })
}

/// Python's reader sees the same cells, and none that a spreadsheet would run.
#[test]
fn python_reads_the_csv_and_finds_no_formula() {
    require!(installed("python3"));
    let script = "import csv,sys\nrows=list(csv.reader(sys.stdin))\nassert rows\n\
                  for r in rows[1:]:\n assert len(r)==len(rows[0]),r\n \
                  for c in r:\n  assert not c or c[0] not in '=+-@\\t\\r' or c[1:].lstrip('-').isdigit(),r\nprint(len(rows))";
    for (name, source) in SOURCES {
        let text = data(&format!("list --format csv {source}"));
        let mut python =
            Command::new("python3").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        python.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let out = python.wait_with_output().unwrap();
        assert!(out.status.success(), "{name}");
        assert_eq!(String::from_utf8(out.stdout).unwrap().trim(), (csv(&text).len() + 1).to_string(), "{name}");
    }
}
