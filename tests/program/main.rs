//! The program from its command line: files in, text and files out, exit codes and messages.
#![allow(missing_docs, clippy::restriction, reason = "tests say what they expect by failing")]

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod bounds;
mod diagnosis;
mod documents;
mod dumps;
mod elf_and_memory;
mod error_messages;
mod event_table;
mod evidence;
mod evidence_pie;
mod found_objects;
mod golden_cli;
mod golden_data;
mod html_page;
mod input_files;
mod interrupts;
mod issue_codes;
mod json_page;
mod json_schema;
mod markdown;
mod names;
mod output_files;
mod pages;
mod pictures;
mod plain_hex;
mod readme;
mod report_tables;
mod safety;
mod setup;
mod tutorial;
mod windows;
