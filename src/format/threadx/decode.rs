//! Decodes captured bytes to a trace, without reading memory.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "numbers of slots and cores; stamps and addresses are computed with checks"
)]

use std::collections::HashMap;
use std::ops::Range;

use super::super::DecodeOptions;
use super::capture::{Capture, Torn};
use super::clock;
use super::coherence::EventRanges;
use super::cores;
use super::doubts::{self, Doubts, OddEvents};
use super::entries::{Entries, Inferred};
use super::entry::{Codec, PRIORITY_UNUSED};
use super::ids::Ids;
use super::layout::{self, TraceLayout};
use super::order::{Ring, Slots};
use super::pointer::{Judge, Ordered};
use super::prescan::{self, PreScan, Rules};
use super::steps::View;
use super::{mask, order_name, registry};
use crate::abi::Width;
use crate::catalogue::{ArgKind, Catalogue};
use crate::code::Code;
use crate::error::Error;
use crate::trace::{About, Context, ContextId, ContextKind, Contexts, Issue, Object, ObjectTable, Place, Trace, many};

/// One capture in ring order, before its clock is judged.
struct Prepared {
    g: TraceLayout,
    codec: Codec,
    ring: Ring,
    scan: PreScan,
    ranges: Option<EventRanges>,
    objects: ObjectTable,
    cores: u16,
    facts: Vec<(&'static str, String)>,
    /// The first events of joined buffers before which others are missing.
    gaps: Vec<u64>,
    /// The first events of joined buffers of another program than the one before.
    breaks: Vec<u64>,
    issues: Vec<Issue>,
}

/// Decodes a capture.
pub(super) fn decode(capture: &Capture, catalogue: &Catalogue, options: &DecodeOptions) -> Result<Trace, Error> {
    let ids = Ids::of(catalogue);
    let prepared = prepare(capture, &ids, options)?;
    Ok(finish(capture, prepared, ids, catalogue, options))
}

/// Decodes the captures of buffers that one run filled one after the other.
pub(super) fn join(captures: &[Capture], catalogue: &Catalogue, options: &DecodeOptions) -> Result<Trace, Error> {
    let ids = Ids::of(catalogue);
    let mut all: Option<Prepared> = None;
    for capture in captures {
        let next = prepare(capture, &ids, options)?;
        all = Some(match all {
            None => next,
            Some(before) => append(before, next)?,
        });
    }
    let none = || Error::failed(Code::Usage, "no trace buffer was given", "give one with --trace");
    let (last, mut prepared) = captures.last().zip(all).ok_or_else(none)?;
    let direction = options.direction.unwrap_or_else(|| prepared.scan.votes().direction().0);
    let rules = Rules { codec: prepared.codec, direction, ids: &ids, previous: false };
    prepared.scan = PreScan::of(&prepared.ring, rules, &[]);
    prepared.facts.push(("joined", format!("{} buffers", captures.len())));
    Ok(finish(last, prepared, ids, catalogue, options))
}

fn prepare(capture: &Capture, ids: &Ids, options: &DecodeOptions) -> Result<Prepared, Error> {
    let mut issues = capture.issues.clone();
    let g = capture.layout;
    let objects = registry::read(capture, &mut issues);
    let mut codec = Codec { endian: g.endian, word: g.word, mask: g.time_mask, cores: 1 };
    let mut facts = facts(capture);
    let cores = cores(capture, &Slots::of(capture, &g, codec), codec, ids, &mut facts, &mut issues);
    codec.cores = cores;
    codec.mask = mask::believed(&Slots::of(capture, &g, codec), codec, &mut issues);
    let slots = Slots::of(capture, &g, codec);
    let direction = options.direction.unwrap_or_else(|| slots.direction());
    let rules = Rules { codec, direction, ids, previous: options.previous };
    let scan = |ring: &Ring| PreScan::of(ring, rules, &[]);
    let ordered = if capture.is_batch {
        let ring = Ring::batch(capture);
        Ordered { scan: scan(&ring), ring, ranges: None }
    } else if options.previous {
        let ring = previous_run(&slots, capture, direction, (ids, &objects), codec, &mut issues)?;
        Ordered { scan: scan(&ring), ring, ranges: None }
    } else {
        let judge = Judge { slots: &slots, g: &g, codec, ids, options };
        judge.order(capture, &torn(capture), &mut issues)
    };
    let Ordered { ring, scan, ranges } = ordered;
    Ok(Prepared { g, codec, ring, scan, ranges, objects, cores, facts, gaps: Vec::new(), breaks: Vec::new(), issues })
}

/// Puts a buffer behind those before it: what both hold is taken once, and a gap is reported.
fn append(mut before: Prepared, next: Prepared) -> Result<Prepared, Error> {
    let (a, b) = (before.codec, next.codec);
    if (a.endian, a.word, before.g.time_mask) != (b.endian, b.word, next.g.time_mask) {
        return Err(Error::failed(
            Code::DifferentRuns,
            "the trace buffers differ in byte order, width or time mask: they are not of one run",
            "give the buffers of one run, oldest first",
        ));
    }
    let shared = before.ring.shared_with(&next.ring, a);
    let held = before.ring.held;
    if let Some(names) = other_program(&before.objects, &next.objects).filter(|_| shared == 0) {
        let issue = Issue::new(
            Code::DifferentRuns,
            format!(
                "the joined buffers are of different programs: no thread of one is in the other ({names}); the time between them is not known, and 0 ticks are counted"
            ),
        );
        before.issues.insert(0, issue.at(Place::seq(held)));
        before.gaps.push(held);
        before.breaks.push(held);
    } else if shared == 0
        && let (Some(last), Some(first)) = (before.scan.last_stamp(), next.scan.first_stamp())
    {
        let direction = before.scan.votes().direction().0;
        let clock = super::order::rough_clock(a.mask, direction);
        let step = clock.step(last, first);
        let usual = before.scan.steps.longest().max(next.scan.steps.longest()).unwrap_or(0);
        if step > usual {
            // A clock that counts events shows how many are missing.
            let slots = before.scan.counts_events(direction).and_then(|each| step.checked_div(each));
            let missing =
                slots.map_or("events may be".to_owned(), |n| many(n.saturating_sub(1), "event is", "events are"));
            let issue = Issue::new(
                Code::JoinedGap,
                format!(
                    "{missing} missing between two of the joined buffers, {step} ticks apart if they are of one run"
                ),
            );
            before.issues.push(issue.at(Place::seq(held)));
            before.gaps.push(held);
        }
    }
    before.ring.append(next.ring, shared);
    for object in next.objects.iter() {
        if !before.objects.iter().any(|o| o.address == object.address && o.name == object.name) {
            before.objects.push(object.clone());
        }
    }
    before.issues.extend(next.issues);
    before.g.capacity += next.g.capacity;
    before.cores = before.cores.max(next.cores);
    before.codec.mask = a.mask.max(b.mask);
    before.scan = next.scan;
    before.ranges = None;
    Ok(before)
}

/// A thread of each of two registries, where these have no thread in common: at the same address, of the same name. The
/// buffers of one run have the kernel's timer thread, at least.
fn other_program(before: &ObjectTable, next: &ObjectTable) -> Option<String> {
    let threads = |table: &ObjectTable| -> Vec<(u64, String)> {
        table.iter().filter(|object| object.is_thread).map(|object| (object.address, object.name.clone())).collect()
    };
    let (a, b) = (threads(before), threads(next));
    let (first, other) = a.first().zip(b.first())?;
    let name = |(address, name): &(u64, String)| format!("{name} at {address:#x}");
    (!a.iter().any(|thread| b.contains(thread))).then(|| format!("{}; {}", name(first), name(other)))
}

fn finish(capture: &Capture, prepared: Prepared, ids: Ids, catalogue: &Catalogue, options: &DecodeOptions) -> Trace {
    let port = port(capture, &prepared, &ids, catalogue);
    let Prepared { g, codec, ring, mut scan, ranges, objects, cores, mut facts, mut gaps, breaks, mut issues } =
        prepared;
    let mut found = clock::find(&scan, codec, options, (capture.place.kernel.core_clock, port), &mut issues);
    facts.extend(found.rate.take());
    let mut doubts = Doubts::default();
    if !options.previous {
        doubts = self::doubts(&ring, codec, &ids, &found, (&scan, ranges));
        doubts.count_none(&breaks);
        doubts.report(&odd(&scan, capture, &objects), &mut issues);
    }
    found.clock.doubts = doubts.count();
    report_gaps(&scan, &mut issues);
    gaps.append(&mut scan.gaps);
    gaps.sort_unstable();
    let mut contexts = std::mem::take(&mut scan.contexts);
    let previous = options.previous.then(|| infer_contexts(&mut contexts, &objects));
    registry::name_contexts(&mut contexts, &objects);
    let seen = scan.cores.keys().next_back().map_or(1, |core| core + 1);
    let about = About {
        format: "threadx",
        endian: g.endian,
        word: g.word,
        pointer: capture.place.at.pointer,
        base: Some(g.header),
        capacity: g.capacity,
        held: ring.held,
        empty: scan.unused.count + scan.damaged.count,
        wrapped: ring.wrapped,
        origin: ring.first_seq(scan.skipped_front),
        cores: cores.max(seen),
        facts,
    };
    let oldest_doubt = if ring.wrapped { oldest_doubt(capture, &ring, &mut issues) } else { 0 };
    let source = Entries {
        runs: ring.runs,
        codec,
        clock: found.clock.clone(),
        doubts,
        per_core: found.per_core,
        stores_interrupted: scan.stores_interrupted(&objects),
        contexts: contexts.index(),
        ids,
        damaged: scan.damaged.count > 0,
        count: scan.events,
        oldest_doubt,
        last_of: scan.last_of,
        newest: scan.newest,
        previous,
    };
    let mut trace = Trace::new(about, found.clock, contexts, objects, issues, Box::new(source));
    trace.gaps = gaps;
    trace.issues.extend(registry::full(capture, &trace, catalogue));
    trace
}

/// The steps of the clock that are not to be believed. There are none where no stamp goes back, or jumps to the newest event.
fn doubts(
    ring: &Ring,
    codec: Codec,
    ids: &Ids,
    found: &clock::Found,
    (scan, known): (&PreScan, Option<EventRanges>),
) -> Doubts {
    let forward = scan.backward(found.clock.direction).0 == 0 && !scan.steps.ends_with_jump(&found.clock);
    if !found.clock.runs() || !scan.has_outliers && forward {
        return Doubts::default();
    }
    let cores: Vec<u16> = scan.cores.keys().copied().collect();
    let view = View { ring, codec, ids, clock: &found.clock, core: None };
    doubts::find(view, found.per_core.then_some(cores.as_slice()), known)
}

/// The events that no kernel inserts.
fn odd(scan: &PreScan, capture: &Capture, objects: &ObjectTable) -> OddEvents {
    // An entry that was never used would have been given to them.
    let has_room = registry::has_room(capture);
    let is_unknown = |context: &Context| context.kind == ContextKind::Thread && objects.at(context.address).is_none();
    let unknown = scan.contexts.iter().filter(|(_, context)| has_room && is_unknown(context));
    let last_of = |id: ContextId| scan.last_of.get(usize::try_from(id.0).ok()?).copied();
    let lasts = unknown.filter_map(|(id, _)| last_of(id));
    let unregistered = lasts.clone().count() as u64;
    let first = scan.odd.first.into_iter().chain(lasts.filter(|seq| *seq != u64::MAX)).min();
    OddEvents { events: scan.odd.count, first, unregistered }
}

/// Number of cores, whose numbers are in the ids' top bytes; 1 where there are none.
fn cores(
    capture: &Capture,
    slots: &Slots<'_>,
    codec: Codec,
    ids: &Ids,
    facts: &mut Vec<(&'static str, String)>,
    issues: &mut Vec<Issue>,
) -> u16 {
    match capture.place.kernel.cores {
        Some(1) => 1,
        Some(n) => {
            facts.push(("cores", format!("{n}: _tx_thread_current_ptr is an array of as many")));
            u16::try_from(n).unwrap_or(u16::MAX)
        }
        None => {
            let Some(found) = cores::of(slots.iter().map(|(_, b)| b), codec, ids) else { return 1 };
            let n = found.count;
            let known = match found.unknown {
                0 => "all ids are known without them".to_owned(),
                unknown => format!("all but {unknown} of {} ids are known without them", found.events),
            };
            facts.push(("cores", format!("{n}: inferred from the top bytes of the event ids")));
            issues.push(Issue::new(
                Code::CoresInferred, format!("the top bytes of the event ids are assumed to be the numbers of {n} cores, as SMP kernels store them: {known}"),
            ));
            n
        }
    }
}

/// Slots that were being written while they were read.
fn torn(capture: &Capture) -> Vec<Range<u64>> {
    let Some(Torn { first, count }) = capture.torn else { return Vec::new() };
    let capacity = capture.layout.capacity;
    let end = first + count;
    vec![first..end.min(capacity), 0..end.saturating_sub(capacity)]
}

/// The slots of the run before a reset.
fn previous_run(
    slots: &Slots<'_>,
    capture: &Capture,
    direction: crate::trace::Direction,
    (ids, objects): (&Ids, &ObjectTable),
    codec: Codec,
    issues: &mut Vec<Issue>,
) -> Result<Ring, Error> {
    let plausible = |slot: &[u8]| {
        let entry = codec.read(slot);
        let thread = entry.priority & 0x8000_0000 != 0 && entry.priority & PRIORITY_UNUSED == 0;
        let other = entry.priority == 0 || objects.at(entry.priority).is_some_and(|o| o.is_thread);
        (thread || other) && (entry.id != 0 || entry.stamp != 0) && ids.has_meaning(entry.id)
    };
    let ring = Ring::previous(slots, direction, &plausible);
    if ring.held == 0 {
        return Err(Error::not_found(
            Code::NoPreviousRun,
            format!(
                "no slot of the trace at {:#x} holds an event of the run before the last start",
                capture.layout.header
            ),
            "they are there only until this run has filled the buffer, and where RAM outlived the reset",
        ));
    }
    issues.push(
        Issue::new(
            Code::PreviousRun, "these events are of the run before the last start: who inserted them was overwritten, names come from this run's registry and from priorities, and are marked '?'",
        )
        .times(ring.held),
    );
    Ok(ring)
}

/// What is known of the port.
fn port(capture: &Capture, prepared: &Prepared, ids: &Ids, catalogue: &Catalogue) -> clock::Port {
    let Prepared { ring, codec, scan, objects, .. } = prepared;
    if capture.place.kernel.has_linux_time {
        clock::Port::Linux
    } else if scan.steps.most < clock::SECOND_IN_NS && is_hosted(ring, *codec, ids, catalogue, objects) {
        clock::Port::Hosted
    } else {
        clock::Port::Any
    }
}

/// True where threads run on stacks that the kernel did not give them: a port to an operating system.
fn is_hosted(ring: &Ring, codec: Codec, ids: &Ids, catalogue: &Catalogue, objects: &ObjectTable) -> bool {
    let (mut inside, mut outside) = (0u32, 0u32);
    let slots = ring.runs.iter().flat_map(|r| r.bytes.chunks_exact(codec.size()));
    for slot in slots.take(4096) {
        let entry = codec.read(slot);
        let Some(def) = ids.known(entry.id).def.and_then(|d| catalogue.def(d)) else { continue };
        // A thread that is registered without a stack has none that a pointer could be outside of.
        let with_stack = |o: &&Object| o.is_thread && !o.deleted && o.param2 > 0;
        let Some(thread) = objects.at(entry.context).filter(with_stack) else { continue };
        let pointers = def
            .fields
            .iter()
            .zip(entry.info)
            .filter_map(|(f, w)| f.as_ref().is_some_and(|f| f.kind == ArgKind::StackPtr).then_some(w));
        for pointer in pointers.filter(|p| *p != 0) {
            let is_inside = pointer.checked_sub(thread.param1).is_some_and(|offset| offset <= thread.param2);
            *if is_inside { &mut inside } else { &mut outside } += 1;
        }
    }
    outside >= 8 && inside == 0
}

fn report_gaps(scan: &PreScan, issues: &mut Vec<Issue>) {
    if scan.unused.count > 0 {
        issues.push(
            Issue::new(
                Code::UnusedSlot,
                format!(
                    "{} no event: something cleared the memory, and what was in there is lost",
                    many(
                        scan.unused.count,
                        "slot in the middle of the ring holds",
                        "slots in the middle of the ring hold"
                    )
                ),
            )
            .times(scan.unused.count)
            .at(Place { seq: scan.unused.first, ..Place::default() }),
        );
    }
    if scan.damaged.count > 0 {
        issues.push(
            Issue::new(
                Code::SlotOverwritten,
                format!(
                    "{} overwritten, and left out",
                    many(
                        scan.damaged.count,
                        "slot holds no valid event: it was",
                        "slots hold no valid event: they were"
                    )
                ),
            )
            .times(scan.damaged.count)
            .at(Place { seq: scan.damaged.first, ..Place::default() }),
        );
    }
}

/// Events that the mask leaves out are still filled in late: into the slot at the current pointer, which is the oldest.
fn oldest_doubt(capture: &Capture, ring: &Ring, issues: &mut Vec<Issue>) -> u8 {
    let Some(bits) = capture.place.kernel.enable_bits else { return 0 };
    let mut doubt = 0u8;
    let mut off = Vec::new();
    for (bit, word, name) in [(0x1, 0b1000, "internal"), (0x2, 0b0010, "block pool"), (0x4, 0b0010, "byte pool")] {
        if bits & bit == 0 {
            doubt |= word;
            off.push(name);
        }
    }
    if doubt != 0 && ring.runs.first().is_some_and(|r| r.first_seq == 0) {
        issues.push(
            Issue::new(
                Code::FilteredEventsOverwrite, format!(
                    "the event mask leaves out {} events, whose late words the kernel then writes into the oldest event: its {} not to be relied on",
                    off.join(" and "),
                    if doubt == 0b1010 { "i2 and i4 are" } else if doubt & 0b1000 != 0 { "i4 is" } else { "i2 is" }
                ),
            )
            .at(Place::seq(0)),
        );
    }
    doubt
}

/// Contexts of a run whose context words were cleared: a thread by a priority that no other has.
fn infer_contexts(contexts: &mut Contexts, objects: &ObjectTable) -> Inferred {
    let threads = prescan::threads(objects);
    let mut by_priority: HashMap<u16, Vec<&Object>> = HashMap::new();
    for thread in threads.values() {
        if let Some(priority) = thread.priority {
            by_priority.entry(priority).or_default().push(thread);
        }
    }
    let mut inferred = Inferred {
        unknown: contexts.intern(ContextKind::Unknown, 0),
        isr: contexts.intern(ContextKind::Unknown, layout::CONTEXT_ISR),
        ..Inferred::default()
    };
    for (priority, threads) in by_priority {
        if let [thread] = threads.as_slice() {
            inferred.by_priority.insert(priority, contexts.intern(ContextKind::Unknown, thread.address));
        }
    }
    for address in threads.keys() {
        inferred.interrupted.insert(*address, contexts.intern(ContextKind::Thread, *address));
    }
    inferred
}

fn facts(capture: &Capture) -> Vec<(&'static str, String)> {
    let g = &capture.layout;
    let mut facts = vec![
        ("found by", capture.place.at.how.clone()),
        (
            "layout",
            format!(
                "{}, ULONG of {} bytes, {} registry entries of {} bytes (names of {}), {} slots of {} bytes",
                order_name(g.endian),
                g.word.bytes(),
                g.objects,
                g.object_size(),
                g.name_size,
                g.capacity,
                g.entry_size()
            ),
        ),
    ];
    // TraceX takes events to directly follow the registry, and an entry's name not to be filled up.
    let entry = layout::object_head(Width::W4) + usize::from(g.name_size);
    let read = g.registry_len() / entry * entry;
    let gap = g.ring.wrapping_sub(g.registry).saturating_sub(read as u64);
    if gap > 0 && g.word == Width::W4 {
        facts.push(("gap", format!("{gap} bytes between the last object, as TraceX counts them, and the first event")));
    }
    if super::usbx::is_old(capture) {
        facts.push(("USBX", "before 6.1.8 by _ux_version_id: its events have the numbers of then".to_owned()));
    }
    if g.fields.base != g.header & g.word.max() {
        facts.push((
            "copy",
            format!(
                "the header is at {:#x} and says {:#x}: a copy of a buffer, decoded as it is",
                g.header, g.fields.base
            ),
        ));
    } else if capture.place.at.pointer == Some(Width::W8) && g.word == Width::W4 {
        facts.push(("pointers", "64-bit addresses, cut to their low 32 bits in the trace".to_owned()));
    }
    facts
}
