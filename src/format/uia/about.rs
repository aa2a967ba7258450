//! What is said of a trace beside its events: what is missing, and what `info` tells.

use super::layout;
use super::read::Capture;
use super::ring::Order;
use super::ring::Shape;
use super::text::Tables;
use crate::abi::{Addr, Width};
use crate::code::Code;
use crate::trace::{Issue, Place};

/// What was counted while the records were put in order.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub events: usize,
    /// Numbers that are missing between records.
    pub gaps: u64,
    /// The first event behind such a gap.
    pub first_gap: Option<u64>,
    /// True where sequence numbers have five bits.
    pub five_bits: bool,
    /// Records of snapshots that their logger wrote over.
    pub overwritten: u64,
    /// Events that contradict those before them in who runs.
    pub contradicting: u64,
    /// The first of them.
    pub first_contradicting: Option<u64>,
    /// Snapshots with less data than they state.
    pub incomplete: u64,
}

/// Says what is missing.
pub(super) fn complain(capture: &Capture, order: &Order, tally: &Tally, base: Addr, issues: &mut Vec<Issue>) {
    let mut say = |code, count: u64, message: String, place: Place| {
        if count > 0 {
            issues.push(Issue::new(code, message).times(count).at(place));
        }
    };
    let anywhere = Place::default();
    if capture.logger.shape == Shape::Lap && order.damaged {
        say(
            Code::PacketDamaged,
            1,
            if order.wrapped {
                "the packet's header is damaged: where the older events end was found by what they say of each other, and some may be missing"
            } else {
                "the packet's header is damaged: whether older events lie behind the newest is not known, and none are shown"
            }
            .to_owned(),
            Place::address(base),
        );
    }
    for lost in &order.lost {
        say(
            Code::ChainBroken,
            1,
            format!("{} bytes are no records: the lengths there contradict each other", lost.len),
            Place {
                address: Some(base.saturating_add(order.slot(lost.at).saturating_mul(4))),
                offset: None,
                seq: (lost.before < tally.events).then_some(lost.before as u64),
            },
        );
    }
    let gap = Place { seq: tally.first_gap, ..anywhere };
    let dropped = capture.logger.dropped.unwrap_or(0);
    let n = tally.gaps;
    let more = if tally.five_bits { "; the numbers have five bits, so 32 more may be missing at each gap" } else { "" };
    say(Code::SequenceGap, n, format!("{n} events are missing between others by their sequence numbers{more}"), gap);
    say(Code::EventsDropped, dropped, format!("the logger counted {dropped} events that it did not record"), anywhere);
    let n = tally.contradicting;
    say(
        Code::SlotsIncoherent,
        n,
        format!(
            "{n} events contradict those before them in who runs: a task switch leaves another task than the one that ran, or an interrupt begins twice or ends without a beginning; events between them are missing, or were written over, and who runs before each is doubtful"
        ),
        Place { seq: tally.first_contradicting, ..anywhere },
    );
    let n = tally.overwritten;
    say(
        Code::SnapshotOverwritten,
        n,
        format!(
            "{n} records of snapshots were overwritten by the next record of the same snapshot, as this logger does with those that need more than one: only the last part is here"
        ),
        anywhere,
    );
    let n = tally.incomplete;
    say(Code::SnapshotIncomplete, n, format!("{n} snapshots hold less data than they state"), anywhere);
    if capture.word == Width::W8 {
        say(
            Code::LayoutInferred,
            1,
            "arguments are taken to be of eight bytes, as pointers are on this target: no trace of a 64-bit one was seen"
                .to_owned(),
            anywhere,
        );
    }
}

/// What is known of the logger, for `info`.
pub(super) fn facts(capture: &Capture, order: &Order, held: usize, base: Addr) -> Vec<(&'static str, String)> {
    let logger = &capture.logger;
    let header = capture.header.0;
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
    let kinds: Vec<String> = kinds.iter().map(|k| format!("{k} {}", layout::header_type(*k).name)).collect();
    let mut facts = vec![
        ("found by", capture.how.clone()),
        ("logger", format!("{} at {header:#x}{instance}{state}", logger.by.name())),
        ("layout", format!("{}-endian, {shape}, {} bytes at {base:#x}", logger.endian.name(), order.bytes.len())),
        ("record types", if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") }),
        ("fill", format!("{held} events{joined} in {used} bytes; {wrapped}")),
    ];
    if let Some(dropped) = logger.dropped {
        facts.push(("dropped", format!("{dropped} events, by the logger's own count")));
    }
    if !order.records.iter().any(|r| r.header.kind().stamp.unwrap_or(0) > 0) {
        facts.push(("clock", "the records have no time stamps".to_owned()));
    }
    let names = match capture.names {
        Tables::At { .. } => "from the text tables of the ELF",
        Tables::LeftOut => "not in the program (Text.isLoaded is false): numbers are shown",
        Tables::None => "no text tables were given (--elf): numbers are shown",
    };
    facts.push(("names", names.to_owned()));
    facts.push(("objects", "none: these loggers keep no registry".to_owned()));
    facts
}
