//! The program from its command line: files in, text and files out, exit codes and messages.

#[path = "../support/mod.rs"]
mod support;

mod bounds;
mod diagnosis;
mod dumps;
mod error_messages;
mod evidence;
mod golden_cli;
mod input_files;
mod interrupts;
mod issue_codes;
mod names;
mod output_files;
mod readme;
mod safety;
