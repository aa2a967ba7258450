//! `events`: the catalogue, and what the application's events are called.

use std::io::Write;
use std::sync::Arc;

use super::Outcome;
use super::args;
use super::command::format_of;
use super::message;
use super::plan::{EventsTask, EventsText, Output};
use super::sink::Sink;
use crate::catalogue::Product;
use crate::catalogue::user::UserEvents;
use crate::code::Code;
use crate::error::Error;
use crate::output::{self, TableOptions};
use crate::query::Filters;
use crate::session::events::EventNames;

/// Lists events.
pub fn run(task: &EventsTask, output: &Output) -> Result<Outcome, Error> {
    let mut catalogue = task.format.catalogue(task.names);
    let ids = || catalogue.user_ids().unwrap_or(0..=u32::MAX);
    let mut names = EventNames::open(&task.files, task.enums.clone(), task.elf.as_deref(), ids)?;
    names.from_files(&mut catalogue)?;
    if let Some(path) = &task.elf {
        let elf = Arc::new(crate::session::open_elf(path)?);
        message::issues(crate::session::cut_short(path, &elf).as_slice());
        names.all_from_elf(&elf, &mut catalogue)?;
    }
    message::issues(names.issues());
    if task.user {
        for told in names.told() {
            message::say(&format!("tx-trace: {told}"));
        }
    }
    if let Some(text) = task.text {
        return write_text(text, &names.collect(&catalogue), output);
    }
    let mut report = output::catalogue(&catalogue);
    let mut filters = Filters::default();
    for word in &task.words {
        filters.add(crate::query::Key::Event, word)?;
    }
    for class in &task.class {
        filters.add(crate::query::Key::Class, class)?;
    }
    let keep = crate::query::definitions(&filters, &catalogue)?;
    let mut kept = keep.into_iter().zip(catalogue.iter().map(|d| !task.user || d.product == Product::User));
    report.rows.retain(|_| kept.next().is_none_or(|(fits, own)| fits && own));
    if report.rows.is_empty() {
        let what = match (task.user, task.words.is_empty() && task.class.is_empty()) {
            (true, true) => "no event of the application is known: --elf FILE or --events FILE names them".to_owned(),
            (user, _) => {
                let asked: Vec<&str> = task.words.iter().chain(&task.class).map(String::as_str).collect();
                let whose = if user { "the application" } else { "the catalogue" };
                format!("no event of {whose} is meant by {}; `tx-trace events` lists them all", asked.join(" "))
            }
        };
        message::say(&format!("tx-trace: {}", output::escape(&what)));
    }
    let mut sink = Sink::open(output, None)?;
    let options = TableOptions { width: sink.width(output), paint: sink.paint(output), ..TableOptions::default() };
    if output.format == args::Format::Table {
        // As with events: three columns in 80, one more from 120, all from 200.
        report.truncate_columns(match options.width {
            ..120 => 3,
            120..200 => 4,
            _ => usize::MAX,
        });
    }
    let no_names = output::NoNames;
    let any = !report.rows.is_empty();
    {
        let mut writer =
            output::report_writer(format_of(output.format), &mut sink, &options, crate::abi::Width::W4, &no_names);
        writer.report(&report)?;
        writer.finish(&[])?;
    }
    sink.finish()?;
    Ok(if any { Outcome::Done } else { Outcome::No })
}

/// Writes the application's events as what `--events` reads.
fn write_text(text: EventsText, user: &UserEvents, output: &Output) -> Result<Outcome, Error> {
    if user.events.is_empty() {
        return Err(Error::not_found(
            Code::NoUserEvents,
            "no event of the application is known",
            "--elf FILE or --events FILE names them",
        ));
    }
    let text = match text {
        EventsText::Tsv => user.to_tsv(),
        EventsText::Trxc => user.to_trxc(),
    };
    let mut sink = Sink::open(output, None)?;
    sink.write_all(text.as_bytes())?;
    sink.finish()?;
    Ok(Outcome::Done)
}
