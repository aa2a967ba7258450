//! `info`: what is known of the source, the trace and the kernel.

use std::io::{self, Write};

use crate::bytes::hex;
use crate::catalogue::mask_text;
use crate::elf::ElfKind;
use crate::error::Error;
use crate::kernel::{Entries, Pointers};
use crate::output::{Format, TableOptions, View, issue_text, report_writer};
use crate::report::Report;
use crate::session::{CodeMatch, Identity, Loaded, Target};
use crate::trace::{Counts, Direction, Known, Trace};

/// What a debugger hands us: a process or a core, which only it knows.
pub(super) const DEBUGGER: &str = "the memory of the debugger's target, through the debugger";

/// The newest slots that are read of a live target.
pub(super) const SAMPLE: u64 = 256;

/// Everything that `info` prints beside the trace itself.
pub struct Info {
    identity: Identity,
    others: Vec<u64>,
    elf: Option<String>,
    build_id: Option<String>,
    load: Option<String>,
    live: bool,
    /// Why ELF and memory were not compared, where nothing of them was.
    not_compared: &'static str,
    /// How the application's events got their names.
    events: Vec<String>,
    /// What the fault registers record.
    faults: Vec<String>,
}

/// Reads it.
///
/// # Errors
/// Where the link fails, or a register that was typed does not exist.
pub fn read(target: &mut Target, loaded: &Loaded) -> Result<Info, Error> {
    let faults = target.faults()?;
    let identity = target.identity(&loaded.trace);
    let others = target.other_traces(&loaded.trace);
    let load = target.load_offset();
    Ok(Info {
        identity,
        others,
        elf: target.elf().map(|e| e.describe()),
        build_id: target.elf().and_then(|e| e.build_id()).map(|id| hex(&id)),
        load: (!load.how.is_empty()).then(|| format!("{:#x}: {}", load.value, load.how)),
        live: target.is_live(),
        not_compared: not_compared(target, &loaded.trace),
        events: target.event_names().sources().to_vec(),
        faults,
    })
}

impl Info {
    /// Prints it as rows of name and value.
    pub(super) fn print(
        &self,
        format: Format,
        out: &mut dyn Write,
        view: &View<'_>,
        options: &TableOptions,
    ) -> io::Result<()> {
        let mut rows = self.rows(view);
        if !format.has_issues() {
            // What changes nothing of any result is said here, and nowhere else.
            let about_source = view.trace.issues.iter().filter(|issue| issue.is_about_source());
            rows.extend(about_source.map(|issue| ("note", issue_text(issue))));
        }
        let mut writer = report_writer(format, out, options, view.trace.about.word, view.names);
        writer.begin(view)?;
        writer.report(&Report::facts("info", "Trace", rows))?;
        writer.finish(&view.trace.issues)
    }

    fn rows(&self, view: &View<'_>) -> Vec<(&'static str, String)> {
        let trace = view.trace;
        let about = &trace.about;
        let source = match view.source {
            "stdio:" => DEBUGGER.to_owned(),
            name => format!("{name} ({})", if self.live { "live target" } else { "file" }),
        };
        let mut rows = vec![("source", source), ("format", about.format.to_owned())];
        rows.extend(about.facts.iter().map(|(what, value)| (*what, value.clone())));
        rows.extend(about.base.map(|base| ("header", format!("{base:#x}"))));
        // A format whose records are no slots, or have no stamps, says so itself.
        let said = |what: &str| about.facts.iter().any(|(own, _)| *own == what);
        let usual: [(&'static str, &dyn Fn() -> String); 3] = [
            ("clock", &|| clock(trace)),
            ("fill", &|| fill(trace)),
            ("objects", &|| format!("{} in the registry", trace.objects.len())),
        ];
        rows.extend(usual.into_iter().filter(|(what, _)| !said(what)).map(|(what, say)| (what, say())));
        rows.extend(self.identity.version.as_ref().map(|v| ("kernel", v.clone())));
        rows.extend(
            self.identity.enable_bits.map(|bits| ("event mask", format!("{bits:#010x} ({})", mask_text(bits)))),
        );
        rows.extend(self.elf.as_ref().map(|e| ("ELF", e.clone())));
        rows.extend(self.build_id.as_ref().map(|id| ("build id", id.clone())));
        rows.extend(self.load.as_ref().map(|l| ("load offset", l.clone())));
        rows.push(("ELF and memory", self.match_of_elf()));
        if !self.events.is_empty() {
            rows.push(("user events", self.events.join("; ")));
        }
        rows.extend(self.faults.iter().map(|line| ("fault", line.clone())));
        let others: Vec<String> = self.others.iter().map(|a| format!("{a:#x}")).collect();
        rows.push(("other traces", if others.is_empty() { "none found".to_owned() } else { others.join(", ") }));
        rows
    }

    /// Whether ELF and memory match.
    pub(super) const fn identity(&self) -> &Identity {
        &self.identity
    }

    fn match_of_elf(&self) -> String {
        let Identity { agreement, code, entries, pointers, another, .. } = &self.identity;
        let mut agree: Vec<String> = another.iter().cloned().collect();
        agree.extend(agreement.map(|a| format!("{} of {} thread names agree", a.same, a.compared)));
        agree.extend(entries.as_ref().map(Entries::describe));
        agree.extend(code.map(CodeMatch::describe));
        agree.extend(pointers.map(Pointers::describe));
        let agree = agree.join(", ");
        let holds = self.identity.issue().is_none();
        match (agree.is_empty(), holds, &self.elf) {
            (false, true, _) => format!("match: {agree}"),
            (false, false, _) if self.identity.is_another() => {
                format!("mismatch: {agree}: {}this ELF is of another build", self.identity.load.or_wrong())
            }
            (false, false, _) => format!("doubtful: {agree}: this ELF may be of another build"),
            (true, _, Some(_)) => format!("not compared: {}", self.not_compared),
            (true, _, None) => "no ELF was given".to_owned(),
        }
    }
}

/// Why nothing of the ELF could be compared with the memory.
fn not_compared(target: &Target, trace: &Trace) -> &'static str {
    let is_moved = target.elf().is_some_and(|elf| elf.kind() == ElfKind::Dyn) && target.load_offset().how.is_empty();
    if target.is_buffer() {
        "a trace buffer alone holds none of the program's memory"
    } else if is_moved {
        "it is not known where the program was loaded (--load-offset)"
    } else if trace.objects.iter().any(|object| object.is_thread) {
        "this memory holds none of the ELF's code, constants and pointers, and no names of threads that are in the ELF"
    } else {
        "this memory holds none of the ELF's code and constants, and the trace names no thread"
    }
}

fn clock(trace: &Trace) -> String {
    let clock = &trace.clock;
    if !clock.runs() {
        return "does not run: all stamps that were read are equal".to_owned();
    }
    let way = match clock.direction {
        Direction::Up => "up",
        Direction::Down => "down",
    };
    let how = match clock.direction_known {
        Known::Given => "given",
        Known::Detected => "detected",
        Known::Assumed => "assumed",
    };
    let period = clock.period.map_or(String::new(), |p| format!(", starts over after {p} ticks"));
    let rate = match (clock.counts, clock.hz) {
        (Counts::Events(_), _) => "no rate".to_owned(),
        (_, Some(hz)) => format!("{hz} Hz"),
        (_, None) => "rate not known (--hz)".to_owned(),
    };
    format!("counts {way} ({how}: {}), mask {:#x}{period}, {rate}", clock.reason, clock.mask)
}

/// How much of the buffer holds events, and how long they lasted.
pub(super) fn fill(trace: &Trace) -> String {
    let about = &trace.about;
    let wrapped = if about.wrapped { "wrapped: older events are overwritten" } else { "not yet wrapped" };
    let unread = trace.unread_slots();
    // Ticks count from the first event that was read.
    let newest = trace.newest().filter(|_| trace.clock.runs()).map(|newest| (newest.ticks, about.held));
    let span = match newest {
        None => String::new(),
        Some((ticks, held)) if held > SAMPLE && trace.len() <= SAMPLE => {
            format!(
                ", {ticks} ticks over the newest {} events, which are all that was read: `list` reads the others",
                trace.len()
            )
        }
        Some((ticks, _)) => {
            let read = if unread > 0 { " of those that were read" } else { "" };
            format!(", {ticks} ticks from the oldest to the newest{read}")
        }
    };
    let events = about.held.saturating_sub(about.empty);
    let empty = if about.empty > 0 { format!("; {} others hold none", about.empty) } else { String::new() };
    let unread = if unread > 0 { format!("; {unread} of them cannot be read") } else { String::new() };
    format!("{events} of {} slots hold events ({wrapped}{empty}{unread}){span}", about.capacity)
}
