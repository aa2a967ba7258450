//! What is said of a trace beside its events.

use super::super::DecodeOptions;
use super::layout::{self, Shape};
use super::read::{Capture, Origin};
use crate::code::Code;
use crate::trace::Issue;

/// The only release whose rings were checked against its own listing.
const VERIFIED: std::ops::Range<u16> = 60..70;

impl Capture {
    /// The shape of a ring's buffers.
    pub(super) const fn shape(&self) -> Option<Shape> {
        match self.origin {
            Origin::File { .. } => None,
            Origin::Ring { shape, .. } => Some(shape),
        }
    }
}

/// The release whose numbers the events have: 64 is 6.4.
pub(super) fn release(capture: &Capture, options: &DecodeOptions) -> u16 {
    let own = match &capture.origin {
        Origin::File { head, .. } => head.release.unwrap_or(64),
        Origin::Ring { shape, .. } => shape.release(),
    };
    options.release.unwrap_or(own)
}

/// `71` is 7.1.
fn release_name(number: u16) -> String {
    format!("{}.{}", number / 10, number % 10)
}

/// What of the release is in doubt; `unknown` is the number of events that are in none of its tables.
pub(super) fn doubts(capture: &Capture, release: u16, unknown: u64) -> Vec<Issue> {
    let mut issues = Vec::new();
    if unknown > 0 {
        let text = "events are not in the table of this release: they are shown as 32-bit words (--qnx-version)";
        issues.push(Issue::new(Code::UnknownEvent, format!("{unknown} {text}")).times(unknown));
    }
    if !VERIFIED.contains(&release) || capture.shape().is_some_and(|s| s != Shape::Narrow) {
        let text = format!(
            "no trace of QNX {} was available for tests: layout and names are not verified",
            release_name(release)
        );
        issues.push(Issue::new(Code::UnverifiedRelease, text));
    }
    issues
}

/// What is known of the ring or the file, for `info`.
pub(super) fn facts(capture: &Capture, options: &DecodeOptions) -> Vec<(&'static str, String)> {
    let mut facts = vec![("found by", capture.how.clone())];
    let order = capture.endian.name();
    match &capture.origin {
        Origin::File { head, .. } => {
            facts.push(("layout", format!("{order}-endian, a file of the trace logger (.kev)")));
            let said = [("release", &head.release_text), ("machine", &head.machine), ("logged", &head.date)];
            facts.extend(said.into_iter().filter(|(_, t)| !t.is_empty()).map(|(what, text)| (what, text.clone())));
        }
        Origin::Ring { shape, start, base, buffers, sequences, written } => {
            let (name, bytes, room) = (shape.name(), layout::BUFFER, shape.capacity());
            facts.push((
                "layout",
                format!(
                    "{order}-endian, {name} shape: {buffers} buffers of {bytes} bytes, room for {room} elements each"
                ),
            ));
            let mut said = match (sequences.first(), sequences.last()) {
                (Some(a), Some(b)) => format!("{} of {buffers} hold events, numbered {a} to {b}", sequences.len()),
                _ => format!("none of {buffers} holds events"),
            };
            if let Some(written) = written {
                said.push_str(&format!("; buffer {written} is being written"));
            }
            facts.push(("buffers", said));
            let from = if options.release.is_some() { "--qnx-version" } else { "the shape of its buffers" };
            facts.push(("release", format!("{} (from {from})", release_name(release(capture, options)))));
            if *base != 0 && *base != start & shape.pointer().max() {
                let text = format!("the ring is at {start:#x}, and the kernel addresses it at {base:#x}");
                facts.push(("copy", text));
            }
        }
    }
    facts
}
