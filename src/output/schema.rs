//! The JSON Schema of all lines of `--format json`. `schema.json` is its source: edit that file. Tests compare it with the
//! columns of all reports and with what the program prints, and make `docs/json.md` of it.

/// A JSON Schema (draft 2020-12) of one line of `--format json`: each field with its type, unit and meaning. Each column of a
/// report refers to a definition `cell_KIND`, where KIND is a [`Kind`](crate::report::Kind).
pub const JSON_SCHEMA: &str = include_str!("schema.json");
