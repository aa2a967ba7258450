//! Lines of `--format json` against the schema that the program prints, made strict: a field that it does not describe is an
//! error.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;
use tx_trace::output::JSON_SCHEMA;

const PLACE: &str = "http://localhost/schema.json";

/// The schema, and which of its fields were met.
pub struct Schema {
    schemas: Schemas,
    /// By the name of the definition: those of lines, and of rows of reports.
    lines: BTreeMap<String, SchemaIndex>,
    any: SchemaIndex,
    met: RefCell<BTreeSet<String>>,
}

/// The schema as JSON.
pub fn schema() -> Value {
    serde_json::from_str(JSON_SCHEMA).unwrap()
}

/// The names of the definitions of all lines, in the order of the schema.
pub fn definitions(schema: &Value) -> Vec<String> {
    let refs = |of: &Value| -> Vec<String> {
        let all = of["oneOf"].as_array().unwrap().iter();
        all.map(|one| one["$ref"].as_str().unwrap().strip_prefix("#/$defs/").unwrap().to_owned()).collect()
    };
    let mut all = Vec::new();
    for name in refs(schema) {
        match name.as_str() {
            "row" => all.extend(refs(&schema["$defs"]["row"])),
            _ => all.push(name),
        }
    }
    all
}

/// Refuses fields that are not described.
fn tighten(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(tighten);
            if map.get("properties").is_some_and(Value::is_object) && map.contains_key("required") {
                map.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
        }
        Value::Array(list) => list.iter_mut().for_each(tighten),
        _ => {}
    }
}

impl Schema {
    /// The strict copy.
    pub fn new() -> Self {
        let mut schema = schema();
        let names = definitions(&schema);
        tighten(&mut schema);
        let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
        compiler.add_resource(PLACE, schema).unwrap();
        let mut compile = |part: &str| {
            compiler.compile(&format!("{PLACE}{part}"), &mut schemas).unwrap_or_else(|e| panic!("{part}: {e:#}"))
        };
        let any = compile("");
        let lines = names.into_iter().map(|name| (name.clone(), compile(&format!("#/$defs/{name}")))).collect();
        Self { schemas, lines, any, met: RefCell::default() }
    }

    /// Checks one line.
    pub fn check(&self, line: &str) -> Result<(), String> {
        let value: Value = serde_json::from_str(line).map_err(|e| format!("{e}: {line}"))?;
        let kind = value["type"].as_str().ok_or_else(|| format!("no type: {line}"))?;
        let name = match value["report"].as_str() {
            Some(report) if kind == "row" => format!("{kind}_{report}"),
            _ => kind.to_owned(),
        };
        let index = self.lines.get(&name).ok_or_else(|| format!("not in the schema: {name}: {line}"))?;
        self.schemas.validate(&value, *index).map_err(|e| format!("{name}: {e:#}\n{line}"))?;
        let mut met = self.met.borrow_mut();
        let first = met.insert(name.clone());
        met.extend(value.as_object().unwrap().keys().map(|key| format!("{name}.{key}")));
        if first {
            // The whole schema chooses among all lines: once for each is enough.
            self.schemas.validate(&value, self.any).map_err(|e| format!("{name} among all lines: {e:#}\n{line}"))?;
        }
        Ok(())
    }

    /// Checks the lines of a text that are JSON; returns how many these were.
    pub fn check_all(&self, what: &str, text: &str) -> usize {
        let lines = text.lines().filter(|line| line.starts_with("{\"type\":"));
        lines.map(|line| self.check(line).unwrap_or_else(|e| panic!("{what}: {e}"))).count()
    }

    /// Definitions and fields that no line had.
    pub fn unmet(&self) -> Vec<String> {
        let (schema, met) = (schema(), self.met.borrow());
        let fields = |name: &String| {
            let of = schema["$defs"][name]["properties"].as_object().unwrap().clone();
            std::iter::once(name.clone())
                .chain(of.into_iter().map(|(field, _)| format!("{name}.{field}")))
                .collect::<Vec<_>>()
        };
        let missing: Vec<String> = self.lines.keys().flat_map(fields).filter(|field| !met.contains(field)).collect();
        // Of a line that never came the name is enough.
        let is_part = |field: &String| field.split_once('.').is_some_and(|(name, _)| missing.iter().any(|m| m == name));
        // `follow --report` adds it to every row.
        let is_interval = |field: &String| field.ends_with(".interval");
        missing.iter().filter(|field| !is_part(field) && !is_interval(field)).cloned().collect()
    }
}
