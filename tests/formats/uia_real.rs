//! What TI's loggers left in memory, where the folder of real traces is there: every event through the program's JSON.

#![cfg(feature = "cli")]
#![allow(clippy::precedence)]

use crate::support;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The JSON lines of a command in the folder of the traces, with the options of a case.
fn json(dir: &Path, command: &[&str], source: &str) -> Vec<Value> {
    let out = Command::new(env!("CARGO_BIN_EXE_tx-trace"))
        .current_dir(dir)
        .args(command)
        .args(["--format", "json", &format!("@{source}")])
        .output()
        .unwrap();
    assert!(out.status.success(), "{source}: {}", String::from_utf8_lossy(&out.stdout));
    String::from_utf8(out.stdout).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

fn hex(value: &Value) -> u64 {
    value.as_str().map_or(0, |t| u64::from_str_radix(t.strip_prefix("0x").unwrap(), 16).unwrap())
}

/// An event as the expected lists have it.
fn row(event: &Value) -> String {
    let words: Vec<String> = event["words"].as_array().unwrap().iter().map(|w| format!("{:x}", hex(w))).collect();
    format!(
        "{}\t{}\t{}\t{}\t{:#x}\t0x{:04x}\t0x{:04x}\t{}",
        event["header_type"],
        event["length"],
        event["prev_length"],
        event["sequence"],
        hex(&event["stamp"]),
        event["id"].as_u64().unwrap(),
        event["module"]["id"].as_u64().unwrap(),
        words.join(" ")
    )
}

fn events(lines: &[Value]) -> Vec<String> {
    lines.iter().filter(|l| l["type"] == "event").map(row).collect()
}

#[test]
fn every_event_of_the_expected_lists() {
    let Some(dir) = support::real_traces() else { return };
    let dir = dir.join("uia");
    let mut cases = 0;
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "source") {
            continue;
        }
        cases += 1;
        let name = path.file_name().unwrap().to_str().unwrap();
        let expected = std::fs::read_to_string(path.with_extension("expected.tsv")).unwrap();
        let expected: Vec<String> = expected.lines().skip(1).map(|l| l.trim_end_matches('\n').to_owned()).collect();
        let lines = json(&dir, &["list"], name);
        assert_eq!(events(&lines), expected, "{name}");
        assert_eq!(lines[0]["format"], "uia");
        assert_eq!(lines[0]["events"], expected.len());
        assert_eq!(lines[0]["wrapped"], name.contains("n64"), "{name}");
        assert!(!lines.iter().any(|l| l["severity"] == "lost"), "{name}: {lines:?}");
        // The newest are the tail, with the same numbers.
        let last = json(&dir, &["last", "3"], name);
        assert_eq!(events(&last), expected[expected.len().saturating_sub(3)..], "{name}");
        let seq = last.iter().rfind(|l| l["type"] == "event").unwrap()["seq"].as_u64().unwrap();
        assert_eq!(seq as usize, expected.len() - 1);
        // The same by what describes the logger, without its symbols, and by a search.
        let headers: &[&str] = if name.starts_with("loggermin") {
            &["0x20020000", "0x20020020"]
        } else {
            &["0x200201a0", "0x200201e0", "0x20020210"]
        };
        for header in headers {
            assert_eq!(events(&json(&dir, &["list", "--header", header], name)), expected, "{name} {header}");
        }
        assert_eq!(events(&json(&dir, &["list", "--scan"], name)), expected, "{name} by a search");
        // One logger is one trace, however often it is described.
        let info = json(&dir, &["info"], name);
        let others = info.iter().find(|l| l["what"] == "other traces").unwrap();
        assert_eq!(others["value"], "none found", "{name}");
    }
    assert!(cases >= 6, "{cases} cases");
}
