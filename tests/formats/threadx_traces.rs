//! Traces that a kernel can leave behind, from builders that state the layout for themselves: cores, clocks, rings cut
//! off at any moment, slots that were overwritten.

use crate::support::builder::{Buffer, Entry};
use crate::support::threadx::*;
use tx_trace::catalogue::Names;
use tx_trace::error::Error;
use tx_trace::format::threadx::ThreadX;
use tx_trace::format::{DecodeOptions, Extent, Format};
use tx_trace::mem::segments::{Block, Segments};
use tx_trace::mem::{Memory, ReadError, Region};
use tx_trace::sym::Layers;
use tx_trace::trace::{ContextKind, Severity, Trace};

// ---- Cores ----

fn on_core(core: u64, mut e: Entry) -> Entry {
    e.id |= core << 24;
    e
}

#[test]
fn cores_by_the_symbol_have_contexts_and_deltas_of_their_own() {
    let list = [
        on_core(0, Entry::thread(ALPHA, 5, 5000, 100, [0; 4])),
        on_core(1, Entry::thread(BETA, 9, 5001, 110, [0; 4])),
        on_core(0, Entry::thread(ALPHA, 5, 0x00AB_CDEF, 120, [0; 4])),
        on_core(1, Entry::isr(BETA, 3, 135, [0; 4])),
    ];
    let b = Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(8, &list);
    let t = decode_with(&b, &[("cores", 2)]);
    let e = events(&t);
    assert_eq!(e.iter().map(|e| (e.core, e.id)).collect::<Vec<_>>(), [(0, 5000), (1, 5001), (0, 0xAB_CDEF), (1, 3)]);
    assert_eq!(e.iter().map(|e| e.ticks).collect::<Vec<_>>(), [0, 10, 20, 35]);
    assert_eq!(e.iter().map(|e| e.delta).collect::<Vec<_>>(), [None, None, Some(20), Some(25)]);
    assert_eq!(t.about.cores, 2);
    assert!(codes(&t).is_empty(), "what symbols say is not inferred: {:?}", t.issues);
}

#[test]
fn cores_by_the_ids_alone_are_inferred_and_said() {
    let list: Vec<Entry> = (0..20)
        .map(|i| on_core(i % 4, Entry::thread(ALPHA, 5, [5000, 69, 68][i as usize % 3], 10 * i, [0; 4])))
        .collect();
    let t = decode(&Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(32, &list));
    assert_eq!(t.about.cores, 4);
    assert_eq!(issue(&t, "cores-inferred").severity, Severity::Inferred);
    assert!(events(&t).iter().all(|e| e.def.is_some() || e.id == 5000));
}

#[test]
fn a_single_core_by_the_symbol_keeps_odd_ids_whole() {
    let list = [Entry::thread(ALPHA, 5, 0x0100_0045, 1, [0; 4]), Entry::thread(ALPHA, 5, 5000, 2, [0; 4])];
    let b = Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(8, &list);
    assert_eq!(events(&decode_with(&b, &[("cores", 1)]))[0].id, 0x0100_0045);
    // Without the symbol one unknown id means that the top bytes are no cores.
    let list = [Entry::thread(ALPHA, 5, 0x0100_0045, 1, [0; 4]), Entry::thread(ALPHA, 5, 0x2222_2222, 2, [0; 4])];
    let t = decode(&Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(8, &list));
    assert_eq!((t.about.cores, events(&t)[0].id), (1, 0x0100_0045));
}

#[test]
fn cores_with_clocks_of_their_own_are_timed_each_for_itself() {
    let list: Vec<Entry> = (0..40u64)
        .map(|i| {
            let (core, n) = (i % 2, i / 2);
            on_core(
                core,
                Entry::thread(ALPHA, 5, 5000, if core == 0 { 1000 + n * 10 } else { 900_000 + n * 20 }, [0; 4]),
            )
        })
        .collect();
    let t = decode_with(&Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(64, &list), &[("cores", 2)]);
    issue(&t, "clock-per-core");
    let e = events(&t);
    assert!(e.iter().skip(2).all(|e| e.delta == Some(if e.core == 0 { 10 } else { 20 })), "{e:?}");
    assert!(e.last().unwrap().ticks < 1000);
}

#[test]
fn late_words_that_other_cores_never_fill_in_are_doubtful() {
    // 254 fx_file_write fills in I4, 386 nx_packet_allocate I2.
    let list = [
        on_core(0, Entry::thread(ALPHA, 5, 254, 10, [1, 2, 3, 0])),
        on_core(1, Entry::thread(BETA, 9, 254, 20, [1, 2, 3, 0])),
        on_core(0, Entry::thread(ALPHA, 5, 5000, 30, [0; 4])),
        on_core(1, Entry::thread(BETA, 9, 5000, 40, [0; 4])),
        on_core(0, Entry::thread(ALPHA, 5, 386, 50, [1, 0, 3, 4])),
    ];
    let t = decode_with(&Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(8, &list), &[("cores", 2)]);
    let doubt: Vec<u8> = t.events().map(|e| e.doubtful).collect();
    assert_eq!(doubt, [0, 0b1000, 0, 0, 0b0010], "returned; other core; -; -; still in the call");
}

// ---- The ring ----

#[test]
fn current_pointer_at_the_end_misplaced_unaligned_or_nowhere() {
    let whole = Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(64, &steady(100, 0x9000_0000, 1000));
    let right = stamps(&decode(&whole));
    assert!(right.windows(2).all(|w| w[0] < w[1]));
    let patch = |value: u64| {
        let mut bytes = whole.bytes();
        bytes[32..36].copy_from_slice(&(value as u32).to_le_bytes());
        decode_bytes(&whole, bytes, &[], Extent::All, &DecodeOptions::default()).unwrap()
    };
    for (value, code) in [
        (whole.ring() + 7 * 32, Some("current-misplaced")),
        (whole.current_address() + 5, Some("current-unaligned")),
        (0x1234, Some("current-pointer")),
        (whole.end() + 32, Some("current-pointer")),
    ] {
        let t = patch(value);
        assert_eq!(stamps(&t), right, "{value:#x}");
        assert!(code.is_none_or(|c| codes(&t).contains(&c)), "{value:#x}: {:?}", t.issues);
    }
    // The end is where a ring begins anew.
    let exact = Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(64, &steady(128, 0x9000_0000, 1000));
    let mut bytes = exact.bytes();
    bytes[32..36].copy_from_slice(&(exact.end() as u32).to_le_bytes());
    let t = decode_bytes(&exact, bytes, &[], Extent::All, &DecodeOptions::default()).unwrap();
    assert_eq!((stamps(&t), codes(&t)), (stamps(&decode(&exact)), vec![]));
}

/// On a clock that has not run far, a pointer that was overwritten changed the order, and nobody said so.
#[test]
fn a_pointer_within_young_events_was_taken_at_its_word() {
    let young = Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(64, &steady(100, 5000, 1000));
    assert!(!codes(&decode(&young)).contains(&"current-doubtful"));
    let mut bytes = young.bytes();
    bytes[32..36].copy_from_slice(&(young.ring() as u32 + 7 * 32).to_le_bytes());
    let t = decode_bytes(&young, bytes, &[], Extent::All, &DecodeOptions::default()).unwrap();
    assert_eq!(issue(&t, "current-doubtful").place.address, Some(young.current_address()));
    assert_eq!(t.len(), 64);
}

/// Too few slots were read to see that the pointer leads into the middle of the events: the last two were others.
#[test]
fn last_of_two_events_was_silent_about_a_doubtful_pointer() {
    let young = Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(64, &steady(100, 5000, 1000));
    let mut bytes = young.bytes();
    bytes[32..36].copy_from_slice(&(young.ring() as u32 + 7 * 32).to_le_bytes());
    for n in [1, 2, 5, 20, 63, 64] {
        let decode = |bytes| decode_bytes(&young, bytes, &[], Extent::Newest(n), &DecodeOptions::default()).unwrap();
        let t = decode(bytes.clone());
        assert_eq!(issue(&t, "current-doubtful").place.address, Some(young.current_address()), "last {n}");
        assert_eq!(codes(&decode(young.bytes())), Vec::<&str>::new(), "last {n}");
    }
}

#[test]
fn unused_slots_in_the_middle_leave_a_gap() {
    let mut b = Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(16, &steady(40, 0, 10));
    for slot in [3, 4] {
        b.slots[slot] = Entry::UNUSED;
    }
    let t = decode(&b);
    assert_eq!(issue(&t, "unused-slot").count, 2);
    let seqs: Vec<u64> = t.events().map(|e| e.seq).collect();
    // Slot 8 is the oldest: slots 3 and 4 are seq 11 and 12.
    assert_eq!(seqs, (0..16).filter(|s| *s != 11 && *s != 12).collect::<Vec<_>>());
}

#[test]
fn an_insertion_that_was_cut_off_is_no_event() {
    // Not wrapped: only the context and the priority word of the next event were stored.
    let mut b = Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(16, &steady(5, 100, 10));
    (b.slots[5].context, b.slots[5].priority) = (BETA, 0x8009_0009);
    for extent in [Extent::All, Extent::Newest(3), Extent::Newest(50)] {
        let t = decode_bytes(&b, b.bytes(), &[], extent, &DecodeOptions::default()).unwrap();
        assert!(!t.about.wrapped && t.about.held == 5, "{extent:?}");
        assert_eq!(issue(&t, "insertion-in-progress").severity, Severity::Lost);
        assert_eq!(t.events().last().unwrap().seq, 4);
    }
    // Wrapped: all but the pointer was stored. Far below the mask, where the clock might reload, too.
    for start in [0x8000_0000, 0x15C7_87E5] {
        let mut b = Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(16, &steady(40, start, 10));
        b.slots[8] = Entry::thread(BETA, 9, 5000, start + 40 * 10, [40, 0, 0, 0]);
        let t = decode(&b);
        issue(&t, "insertion-in-progress");
        assert_eq!((t.len(), t.events().next().unwrap().seq), (15, 1));
        assert!(stamps(&t).windows(2).all(|w| w[0] < w[1]));
    }
    // A clock that begins again at 0.
    let mut b = Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(16, &steady(40, 0, 10));
    b.slots[8] = Entry::thread(BETA, 9, 5000, 400, [40, 0, 0, 0]);
    assert!(!codes(&decode(&b)).contains(&"insertion-in-progress"));
}

#[test]
fn a_disabled_trace_is_read_through_the_header() {
    let b = Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(16, &steady(40, 0, 10));
    let t = decode_with(&b, &[("_tx_trace_buffer_current_ptr", 0)]);
    issue(&t, "trace-disabled");
    assert_eq!(stamps(&t), stamps(&decode(&b)));
}

#[test]
fn the_run_before_a_reset_lives_on_in_slots_not_yet_written() {
    // A run of 30 events in 16 slots, then enable clears the context words, then 4 events of a new run.
    let objects = vec![thread(ALPHA, "alpha", 5), thread(BETA, "beta", 9), thread(0x2000_3000, "gamma", 9)];
    let old: Vec<Entry> = (0..30u64)
        .map(|i| match i % 4 {
            0 => Entry::thread(ALPHA, 5, 5000 + i, 10_000 + i * 10, [i; 4]),
            1 => Entry::thread(BETA, 9, 5000 + i, 10_000 + i * 10, [i; 4]),
            2 => Entry::isr(ALPHA, 5000 + i, 10_000 + i * 10, [i; 4]),
            _ => Entry::init(5000 + i, 10_000 + i * 10, [i; 4]),
        })
        .collect();
    let mut b = Buffer { objects, ..Buffer::new(BASE) }.record(16, &old);
    b.slots.iter_mut().for_each(|s| s.context = 0);
    for (i, e) in steady(4, 50, 10).into_iter().enumerate() {
        b.slots[i] = e;
    }
    b.current = 4;
    assert_eq!(decode(&b).len(), 4);
    let previous = DecodeOptions { previous: true, ..DecodeOptions::default() };
    let t = decode_bytes(&b, b.bytes(), &[], Extent::All, &previous).unwrap();
    // Slots 4 to 15: of the old run's events 14 to 29 those in slots 0 to 3 (16 to 19) are gone.
    let ids: Vec<u32> = t.events().map(|e| e.id - 5000).collect();
    assert_eq!(ids, [14, 15, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29]);
    assert_eq!(issue(&t, "previous-run").severity, Severity::Inferred);
    let who = |i: usize| t.contexts.get(events(&t)[i].context).unwrap().clone();
    let names: Vec<(ContextKind, Option<String>)> =
        (0..5).map(|i| (who(i).kind, who(i).name.map(Into::into))).collect();
    let q = |n: &str| (ContextKind::Unknown, Some(n.to_owned()));
    // 14: in an ISR; 15: before the scheduler, which looks like an ISR in idle; 20: the only thread of priority 5;
    // 21: one of two threads of priority 9.
    assert_eq!(names[..4], [q("ISR?"), (ContextKind::Unknown, None), q("alpha?"), (ContextKind::Unknown, None)]);
    assert_eq!(events(&t)[3].priority, Some(9));

    let full = Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(16, &steady(40, 0, 10));
    let none = decode_bytes(&full, full.bytes(), &[], Extent::All, &previous).err().unwrap();
    assert_eq!((none.code.name(), none.is_not_found()), ("no-previous-run", true));
}

#[test]
fn memory_that_never_held_an_event_is_no_previous_run() {
    let mut b = Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(16, &steady(4, 0, 10));
    let previous = DecodeOptions { previous: true, ..DecodeOptions::default() };
    for fill in [0u64, 0xA5A5_A5A5, 0xFFFF_FFFF, 0x1234_5678] {
        for s in &mut b.slots[4..] {
            *s = Entry { context: 0, priority: fill, id: fill, stamp: fill, info: [fill; 4] };
        }
        let none = decode_bytes(&b, b.bytes(), &[], Extent::All, &previous).err().expect("none");
        assert_eq!(none.code.name(), "no-previous-run", "{fill:#x}");
    }
}

// ---- Rotated buffers ----

fn try_join(buffers: &[&Buffer]) -> Result<Trace, Error> {
    let part = |b: &&Buffer| {
        let memory = Segments::new(vec![Block::whole(b.base, b.bytes().into())]);
        (located(b, &[]).at, memory)
    };
    let joined = ThreadX.join(buffers.iter().map(part).collect(), &Layers::new())?;
    joined.decode(&ThreadX.catalogue(Names::default()), &DecodeOptions::default())
}

fn join(buffers: &[&Buffer]) -> Trace {
    try_join(buffers).unwrap()
}

#[test]
fn rotated_buffers_of_one_run_are_joined() {
    let run = steady(200, 1000, 10);
    let part =
        |range: std::ops::Range<usize>| Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(64, &run[range]);
    // One behind the other.
    let t = join(&[&part(0..64), &part(64..128)]);
    assert_eq!(t.events().map(|e| e.seq).collect::<Vec<_>>(), (0..128).collect::<Vec<_>>());
    assert_eq!(t.events().last().unwrap().ticks, 127 * 10);
    assert_eq!(codes(&t), [""; 0]);
    // Overlapping: what both hold is taken once.
    let t = join(&[&part(0..64), &part(0..100), &part(50..110)]);
    assert_eq!(stamps(&t), (0..110).map(|i| 1000 + i * 10).collect::<Vec<_>>());
    // A gap is reported.
    let t = join(&[&part(0..64), &part(90..140)]);
    assert_eq!(t.len(), 114);
    assert_eq!((issue(&t, "joined-gap").count, issue(&t, "joined-gap").place.seq), (1, Some(64)));
    // A clock that counts events tells how many are missing.
    let run = steady(200, 1000, 1);
    let part =
        |range: std::ops::Range<usize>| Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(64, &run[range]);
    let t = join(&[&part(0..64), &part(90..140)]);
    assert!(issue(&t, "joined-gap").message.starts_with("26 events are missing"), "{:?}", t.issues);
    // Of another width.
    let other = Buffer { wide: true, ..Buffer::new(BASE) }.record(64, &run[..5]);
    let wrong = try_join(&[&part(0..9), &other]).err().unwrap();
    assert_eq!(wrong.code.name(), "different-runs");
}

// ---- A target that runs on ----

/// A ring that a running target writes into between our reads.
struct Moving {
    before: Vec<u8>,
    after: Vec<u8>,
    base: u64,
    turned: bool,
}

impl Memory for Moving {
    fn read(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let bytes = if self.turned { &self.after } else { &self.before };
        let start = (addr - self.base) as usize;
        buf.copy_from_slice(bytes.get(start..start + buf.len()).ok_or_else(|| ReadError::unmapped(addr, buf.len()))?);
        Ok(())
    }
    fn changes(&self) -> bool {
        true
    }
    fn refresh(&mut self) {
        self.turned = true;
    }
    fn regions(&mut self) -> Option<Vec<Region>> {
        None
    }
}

#[test]
fn slots_written_during_the_read_are_dropped_and_counted() {
    let run = steady(200, 1000, 10);
    let at = |n: usize| Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(16, &run[..n]);
    let read = |from: usize, to: usize| {
        let (b, after) = (at(from), at(to));
        let mut memory = Moving { before: b.bytes(), after: after.bytes(), base: BASE, turned: false };
        let capture = capture_of(&mut memory, &b, &[], Extent::All);
        capture.decode(&ThreadX.catalogue(Names::default()), &DecodeOptions::default()).unwrap()
    };
    // Nothing moved: only the slot at the pointer may be half written.
    let t = read(40, 40);
    assert_eq!((t.len(), codes(&t)), (15, vec![]));
    // Three events came: their slots and the one at the pointer are left out.
    let t = read(40, 43);
    assert_eq!((t.len(), issue(&t, "torn").count), (12, 3));
    assert_eq!(t.events().next().unwrap().seq, 4);
    // Around the end of the ring.
    assert_eq!(read(46, 50).len(), 11);
    // All around: nothing can be trusted.
    let t = read(40, 70);
    assert_eq!((t.len(), issue(&t, "lapped").severity), (0, Severity::Lost));
}

// ---- Late words and the filter bug ----

#[test]
fn the_newest_event_may_still_be_filled_in() {
    let list = [
        Entry::thread(ALPHA, 5, 1, 10, [BETA, 3, 0, 0]),
        Entry::thread(ALPHA, 5, 254, 20, [1, 2, 3, 0]),
        Entry::thread(BETA, 9, 2, 30, [BETA, 4, 0, 0]),
    ];
    let t = decode(&Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(8, &list));
    let doubt: Vec<u8> = t.events().map(|e| e.doubtful).collect();
    assert_eq!(doubt, [0, 0b1000, 0b1000]);
}

#[test]
fn late_words_of_events_that_the_mask_leaves_out_hit_the_oldest_event() {
    let b = Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(16, &steady(40, 0, 10));
    for (bits, doubt) in [(0xFFFF_FFFFu64, 0u8), (0xFFFF_FFFE, 0b1000), (0xFFFF_FFFD, 0b0010), (0xFFFF_FFF8, 0b1010)] {
        let t = decode_with(&b, &[("_tx_trace_event_enable_bits", bits)]);
        assert_eq!(t.events().map(|e| e.doubtful).collect::<Vec<_>>()[..2], [doubt, 0], "{bits:#x}");
        assert_eq!(codes(&t).contains(&"filtered-events-overwrite"), doubt != 0);
    }
    // A ring that has not wrapped is hit in an unused slot.
    let b = Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(16, &steady(10, 0, 10));
    let t = decode_with(&b, &[("_tx_trace_event_enable_bits", 0)]);
    assert!(t.events().all(|e| e.doubtful == 0) && codes(&t).is_empty());
}

// ---- Damage ----

#[test]
fn slots_that_were_written_over_are_left_out_and_counted() {
    let b = Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(64, &steady(100, 5000, 1000));
    for fill in [0xFFu8, 0xA5, 0x20, 0xDE] {
        let mut bytes = b.bytes();
        let at = (b.ring() - BASE) as usize + 10 * 32;
        bytes[at..at + 3 * 32].fill(fill);
        let t = decode_bytes(&b, bytes, &[], Extent::All, &DecodeOptions::default()).unwrap();
        assert_eq!((t.len(), issue(&t, "slot-overwritten").count), (61, 3), "{fill:#x}");
        assert_eq!(issue(&t, "slot-overwritten").place.seq, Some(64 - 36 + 10));
        assert!(t.events().all(|e| e.id == 5000));
        assert_eq!(t.events().last().unwrap().ticks, 63 * 1000, "time goes on over the gap");
    }
}

#[test]
fn a_truncated_buffer_gives_what_is_there() {
    let b = Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(64, &steady(100, 5000, 1000));
    let bytes = b.bytes();
    for cut in [bytes.len() - 1, bytes.len() - 33, bytes.len() - 640] {
        let t = decode_bytes(&b, bytes[..cut].to_vec(), &[], Extent::All, &DecodeOptions::default()).unwrap();
        let lost = (bytes.len() - cut).div_ceil(32) as u64;
        assert_eq!((t.len(), issue(&t, "ring-unreadable").count), (64 - lost, lost), "{cut}");
    }
}

#[test]
fn threads_above_the_init_mark_are_threads() {
    let high = 0xFFF8_1000;
    let list = [Entry::thread(high, 5, 5000, 1, [0; 4]), Entry::init(6, 2, [0; 4]), Entry::isr(high, 3, 3, [0; 4])];
    let t = decode(&Buffer { objects: vec![thread(high, "high", 5)], ..Buffer::new(BASE) }.record(8, &list));
    let kinds: Vec<ContextKind> = t.events().map(|e| t.contexts.get(e.context).unwrap().kind).collect();
    assert_eq!(kinds, [ContextKind::Thread, ContextKind::Init, ContextKind::Isr]);
}

#[test]
fn an_empty_registry_and_leftover_bytes() {
    let b = Buffer { spare: 17, ..Buffer::new(BASE) }.record(16, &steady(40, 0, 10));
    let t = decode(&b);
    assert_eq!((t.len(), t.objects.len(), codes(&t)), (16, 0, vec!["registry-full"]));
}
