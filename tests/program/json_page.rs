//! `docs/json.md` is made of the schema, with lines that the program prints. `UPDATE_GOLDEN=1 cargo test --test program
//! json_page` writes it anew.

#![cfg(feature = "cli")]

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::support::golden::{data, updating};
use crate::support::schema::{definitions, schema};

/// A line of each type: its definition, the command that prints it, and what tells it from the others.
const EXAMPLES: [(&str, &str, &str); 11] = [
    ("trace", "last 1 --format json cm3.elf cm3.core", "\"type\":\"trace\""),
    ("object", "objects --format json cm3.elf cm3.core", "bus_mutex"),
    ("event", "last 8 --format json cm3.elf cm3.core", "\"seq\":252"),
    ("event", "last 1 --format json --elf uia-stop.elf --image uia-stop.ram.bin@0x20000000", "\"type\":\"event\""),
    ("event", "last 1 --format json qnx-ring.bin", "\"type\":\"event\""),
    ("row_inversions", "inversions --format json cm3.elf cm3.core", "\"type\":\"row\""),
    ("note", "blocked --format json cm3.elf cm3.core", "\"type\":\"note\""),
    ("finding", "explain --format json failure.elf failure-deadlock.core.gz", "\"type\":\"finding\""),
    ("issue", "last 1 --format json cm3.core", "\"type\":\"issue\""),
    ("error", "last --format json no-such-file", "\"type\":\"error\""),
    ("end", "last 1 --format json cm3.elf cm3.core", "\"type\":\"end\""),
];

/// The text above the schema's fields.
const HEAD: &str = include_str!("json_page_head.md");

/// The type of a field in words.
fn kind(of: &Value, schema: &Value) -> String {
    if let Some(name) = of["$ref"].as_str() {
        let name = name.strip_prefix("#/$defs/").unwrap();
        return match name.strip_prefix("cell_").unwrap_or(name) {
            "hex" => "hex".to_owned(),
            _ if name == "named" || schema["$defs"][name]["$ref"] == "#/$defs/named" => {
                "{address, name} or null".to_owned()
            }
            "thread_times" => "list of {thread, ticks}, or null".to_owned(),
            _ => kind(&schema["$defs"][name], schema),
        };
    }
    if let Some(value) = of.get("const") {
        return format!("`{value}`");
    }
    if let Some(all) = of["enum"].as_array() {
        let all: Vec<String> =
            all.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), |t| format!("`{t}`"))).collect();
        return all.join(", ");
    }
    if let Some(all) = of["anyOf"].as_array() {
        return all.iter().map(|one| kind(one, schema)).collect::<Vec<_>>().join(" or ");
    }
    let names: Vec<&str> = match &of["type"] {
        Value::Array(all) => all.iter().map(|v| v.as_str().unwrap()).collect(),
        one => vec![one.as_str().unwrap()],
    };
    names.join(" or ").replace("array", "list").replace("string", "text").replace("boolean", "true, false")
}

/// The rows of a table for the fields of an object, and of objects in it.
fn fields(of: &Value, before: &str, schema: &Value, out: &mut String) {
    let required = of["required"].as_array().unwrap();
    for (name, field) in ordered(of) {
        let optional = if required.contains(&Value::from(name)) { "" } else { ", optional" };
        let about = field["description"].as_str().unwrap_or_default();
        writeln!(out, "| `{before}{name}` | {}{optional} | {about} |", kind(field, schema)).unwrap();
        if field["properties"].is_object() {
            fields(field, &format!("{before}{name}."), schema, out);
        }
        if field["items"]["properties"].is_object() {
            fields(&field["items"], &format!("{before}{name}[]."), schema, out);
        }
    }
}

/// The fields of an object in the order of the file: the parser sorts them.
fn ordered(of: &Value) -> Vec<(&str, &Value)> {
    let all = of["properties"].as_object().unwrap();
    let required = of["required"].as_array().unwrap();
    let place = |name: &str| required.iter().position(|r| r == name).unwrap_or(usize::MAX);
    let mut all: Vec<(&str, &Value)> = all.iter().map(|(name, field)| (name.as_str(), field)).collect();
    all.sort_by_key(|(name, _)| place(name));
    all
}

fn page() -> String {
    let schema = schema();
    let mut out = HEAD.to_owned();
    let mut rows = false;
    for name in definitions(&schema) {
        let of = &schema["$defs"][&name];
        let about = of["description"].as_str().unwrap();
        match name.strip_prefix("row_") {
            Some(report) => {
                if !std::mem::replace(&mut rows, true) {
                    let row = &schema["$defs"]["row"];
                    let (title, about) = (row["title"].as_str().unwrap(), row["description"].as_str().unwrap());
                    writeln!(out, "\n## `row`: {title}\n\n{about}").unwrap();
                    writeln!(out, "\nEach has `type`, `report` and, in `follow --report`, `interval`.").unwrap();
                }
                writeln!(out, "\n### `{report}`\n\n{about}").unwrap();
            }
            None => writeln!(out, "\n## `{name}`: {}\n\n{about}", of["title"].as_str().unwrap()).unwrap(),
        }
        for (_, command, mark) in EXAMPLES.iter().filter(|(def, ..)| *def == name) {
            let text = data(command);
            let line =
                text.lines().find(|l| l.contains(mark)).unwrap_or_else(|| panic!("{command}: no {mark}\n{text}"));
            writeln!(out, "\n```json\n{line}\n```").unwrap();
        }
        writeln!(out, "\n| field | type | |\n|---|---|---|").unwrap();
        let mut table = String::new();
        fields(of, "", &schema, &mut table);
        for line in table.lines().filter(|line| !is_common(line, &name)) {
            writeln!(out, "{line}").unwrap();
        }
    }
    out
}

/// True for the fields of every row.
fn is_common(line: &str, name: &str) -> bool {
    let of_rows = ["| `report` |", "| `interval` |"];
    line.starts_with("| `type` |")
        || name.starts_with("row_") && name != "row_interval" && of_rows.iter().any(|field| line.starts_with(field))
        || name == "row_interval" && line.starts_with(of_rows[0])
}

#[test]
fn the_page_says_what_the_schema_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/json.md");
    let page = page();
    if updating() {
        std::fs::write(&path, &page).unwrap();
    }
    assert!(std::fs::read_to_string(&path).unwrap_or_default() == page, "UPDATE_GOLDEN=1 writes docs/json.md");
}
