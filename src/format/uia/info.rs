//! Facts about a trace beside its events: what is missing, and what `info` prints.

use super::index::Index;
use super::layout;
use super::order::Shape;
use super::read::Capture;
use super::text::Tables;
use crate::abi::Width;
use crate::code::Code;
use crate::trace::{Issue, Place, many};

/// Adds an issue for each kind of loss and doubt.
pub(super) fn add_issues(capture: &Capture, index: &Index, issues: &mut Vec<Issue>) {
    damage(capture, index, issues);
    let tally = &index.tally;
    let mut say = |code, count: u64, message: String, seq: Option<u64>| {
        if count > 0 {
            issues.push(Issue::new(code, message).times(count).at(Place { seq, ..Place::default() }));
        }
    };
    let n = tally.gaps;
    let more = if tally.five_bits { "; the numbers have five bits, so 32 more may be missing at each gap" } else { "" };
    let text = format!("{} missing between others by their sequence numbers{more}", many(n, "event is", "events are"));
    say(Code::SequenceGap, n, text, tally.first_gap);
    let n = capture.logger.dropped.unwrap_or(0);
    let text = format!("the logger counted {} that it did not record", many(n, "event", "events"));
    say(Code::EventsDropped, n, text, None);
    let n = tally.contradicting;
    let text = format!(
        "{} those before in who runs: a task switch leaves another task than the one that ran, or an interrupt begins twice or ends without a beginning; events between are missing, or were overwritten, and who runs before each is doubtful",
        many(n, "event contradicts", "events contradict")
    );
    say(Code::SlotsIncoherent, n, text, tally.first_contradicting);
    let n = tally.cut_short;
    let text = format!(
        "{} before the argument that names a task or an interrupt: who runs from there on is not known",
        many(n, "event ends", "events end")
    );
    say(Code::EventIncomplete, n, text, tally.first_cut_short);
    let n = tally.overwritten;
    let text = format!(
        "{} overwritten by the next record of the same snapshot, as this logger does with those that need more than one: only the last part is here",
        many(n, "record of a snapshot was", "records of snapshots were")
    );
    say(Code::SnapshotOverwritten, n, text, None);
    let n = tally.incomplete;
    say(
        Code::SnapshotIncomplete,
        n,
        format!("{} less data than stated", many(n, "snapshot holds", "snapshots hold")),
        None,
    );
    if capture.word == Width::W8 {
        let text = "arguments are assumed to have eight bytes, as pointers have on this target: no trace of a 64-bit one was seen";
        say(Code::LayoutInferred, 1, text.to_owned(), None);
    }
}

/// Adds an issue for each part of the buffer that is not records.
fn damage(capture: &Capture, index: &Index, issues: &mut Vec<Issue>) {
    let (order, base) = (&capture.order, capture.logger.base);
    if capture.logger.shape == Shape::Lap && order.damaged {
        let text = if order.wrapped {
            "the packet's header is damaged: where the older events end was found by what they say of each other, and some may be missing"
        } else {
            "the packet's header is damaged: whether older events follow the newest is not known, and none are shown"
        };
        issues.push(Issue::new(Code::PacketDamaged, text).at(Place::address(base)));
    }
    for lost in &order.lost {
        let text = format!("{} bytes are not records: the lengths there contradict each other", lost.len);
        let place = Place {
            address: order.slot(lost.at).checked_mul(4).and_then(|offset| base.checked_add(offset)),
            offset: None,
            seq: (lost.before < index.entries.len()).then_some(lost.before as u64),
        };
        issues.push(Issue::new(Code::ChainBroken, text).at(place));
    }
}

/// What is known of the logger, for `info`.
pub(super) fn facts(capture: &Capture, index: &Index) -> Vec<(&'static str, String)> {
    let (logger, order, header) = (&capture.logger, &capture.order, capture.header);
    let (base, held) = (logger.base, index.entries.len());
    let instance = logger.instance.map_or(String::new(), |i| format!(", instance {i}"));
    let state = match logger.enabled {
        Some(false) => ", switched off",
        Some(true) => ", recording",
        None => "",
    };
    let shape = match logger.shape {
        Shape::Circular => "a ring of records",
        Shape::Packets => "packets of records, read out while the target runs",
        Shape::Lap => "one packet, overwritten from its start when it is full",
    };
    let records = order.records.len();
    let joined = if records == held { String::new() } else { format!(" (of {records} records)") };
    let used: usize = order.records.iter().map(|r| usize::from(r.header.length)).sum();
    let wrapped = if order.wrapped { "older events were overwritten" } else { "nothing was overwritten yet" };
    let mut kinds: Vec<u8> = order.records.iter().map(|r| r.header.number).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let kinds: Vec<String> = kinds.iter().map(|k| format!("{k} {}", layout::header_name(*k))).collect();
    let mut facts = vec![
        ("found by", capture.how.clone()),
        ("logger", format!("{} at {header:#x}{instance}{state}", logger.kind.name())),
        ("layout", format!("{}-endian, {shape}, {} bytes at {base:#x}", logger.endian.name(), order.bytes.len())),
        ("record types", if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") }),
        ("fill", format!("{held} events{joined} in {used} bytes; {wrapped}")),
    ];
    if let Some(dropped) = logger.dropped {
        facts.push(("dropped", format!("{dropped} events, by the logger's own count")));
    }
    if !order.records.iter().any(|r| r.header.kind().stamp.is_some_and(|bytes| bytes > 0)) {
        facts.push(("clock", "the records have no time stamps".to_owned()));
    }
    let names = match capture.texts.tables {
        Tables::At { .. } => "from the text tables of the ELF",
        Tables::LeftOut => "not in the program (Text.isLoaded is false): numbers are shown",
        Tables::None => "no text tables were given (--elf): numbers are shown",
    };
    facts.push(("names", names.to_owned()));
    facts.push(("objects", "none: these loggers keep no registry".to_owned()));
    facts
}
