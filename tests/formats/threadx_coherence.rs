//! Captures that contradict themselves. Each sound capture of a builder, with its own account of the time, is damaged in
//! one place; what is shown of the slots that were not touched must be right, or an issue must say that it may not be.

use crate::support;

use std::collections::HashMap;

use crate::support::builder::{Buffer, Entry};
use crate::support::flat::Flat;
use crate::support::threadx::*;
use tx_trace::catalogue::Names;
use tx_trace::format::threadx::ThreadX;
use tx_trace::format::{DecodeOptions, Extent, Format};
use tx_trace::mem::{Memory, ReadError};
use tx_trace::trace::{Counts, Severity, Trace};

/// A clock: what the kernel stores at a time, and the mask in the header.
#[derive(Clone, Copy, Debug)]
struct Source {
    period: u64,
    mask: u64,
    down: bool,
}

const WORD: Source = Source { period: 1 << 32, mask: 0xFFFF_FFFF, down: false };
const DOWN: Source = Source { down: true, ..WORD };
const BITS_16: Source = Source { period: 1 << 16, mask: 0xFFFF, down: false };
const BITS_24: Source = Source { period: 1 << 24, mask: 0xFF_FFFF, down: false };
const SECOND: Source = Source { period: 1_000_000_000, ..WORD };

impl Source {
    fn stamp(self, time: u64) -> u64 {
        let counted = time % self.period;
        if self.down { self.period - 1 - counted } else { counted }
    }
}

/// A sound capture, and the time of each of its slots as it was.
#[derive(Clone, Debug)]
struct Sound {
    name: String,
    buffer: Buffer,
    /// By slot.
    times: HashMap<u64, u64>,
}

/// Steps that look like a system's: short ones, and a pause at each tick of the kernel.
fn busy(count: u64, short: u64, tick: u64) -> Vec<u64> {
    (0..count).map(|i| if i % 12 == 11 { tick + i * 13 % short } else { short / 4 + i * 7919 % short }).collect()
}

fn sound(name: &str, source: Source, start: u64, steps: &[u64], capacity: usize) -> Sound {
    let mut now = start;
    let (mut list, mut times) = (Vec::new(), Vec::new());
    for (i, step) in steps.iter().enumerate() {
        now += step;
        let (stamp, n) = (source.stamp(now), i as u64);
        list.push(match n % 12 {
            0 => Entry::isr(0, 3, stamp, [0x2000_7F00, 15, 15, 0]),
            1 => Entry::isr(0, 4, stamp, [0x2000_7F00, 15, 15, 0]),
            2..=6 => Entry::thread(ALPHA, 5, 5000 + n % 7, stamp, [n, 0, 0, 0]),
            _ => Entry::thread(BETA, 9, 69, stamp, [n, 1, 2, 3]),
        });
        times.push((n % capacity as u64, now));
    }
    let buffer = Buffer { objects: two_threads(), mask: source.mask, ..Buffer::new(BASE) }.record(capacity, &list);
    Sound { name: name.to_owned(), buffer, times: times.into_iter().collect() }
}

fn all() -> Vec<Sound> {
    let ordinary = busy(500, 900, 60_000);
    let mut idle = ordinary.clone();
    (idle[380], idle[440]) = (200_000_000, 450_000_000);
    let mut list = vec![
        sound("short ring", WORD, 0x8000_0000, &busy(40, 900, 60_000), 16),
        sound("wrapped", WORD, 0x8000_0000, &ordinary, 256),
        sound("young", WORD, 1000, &ordinary, 256),
        sound("not wrapped", WORD, 0x8000_0000, &ordinary[..180], 256),
        sound("over the end of 32 bits", WORD, 0xFFFF_0000, &ordinary, 512),
        sound("counts down", DOWN, 0xFFFF_0000, &ordinary, 256),
        sound("16 bits, many turns", BITS_16, 7, &busy(600, 90, 1100), 512),
        sound("24 bits, one turn", BITS_24, (1 << 24) - 1_000_000, &busy(500, 900, 60_000), 256),
        sound("nanoseconds of a second", SECOND, 990_000_000, &busy(600, 90_000, 5_000_000), 256),
        sound("nearly a second, and its end", SECOND, 60_000_000, &busy(2200, 9000, 10_000_000), 1300),
        sound("long pauses", WORD, 0x8000_0000, &idle, 256),
        sound("a turn within a pause", WORD, 0xF8F0_0000, &idle, 256),
        sound("a count of events", WORD, 0, &vec![1; 500], 256),
        sound("all equal", WORD, 77, &vec![0; 500], 256),
        sound("ticks of low resolution", WORD, 5, &(0..500).map(|i| u64::from(i % 9 == 0)).collect::<Vec<_>>(), 256),
    ];
    let wrapped = list[1].clone();
    list.push(Sound {
        name: "big-endian".into(),
        buffer: Buffer { big: true, ..wrapped.buffer.clone() },
        ..wrapped.clone()
    });
    list.push(Sound {
        name: "ULONG of 64 bits".into(),
        buffer: Buffer { wide: true, ..wrapped.buffer.clone() },
        ..wrapped
    });
    list
}

fn decoded(buffer: &Buffer) -> Trace {
    decode(buffer)
}

fn doubted(trace: &Trace) -> bool {
    trace.issues.iter().any(|i| i.severity != Severity::Note)
}

/// What is wrong beside the slots that were touched: order, distance in time, slots that are not shown.
fn wrong(sound: &Sound, trace: &Trace, touched: &dyn Fn(u64) -> bool) -> Option<String> {
    let shown: Vec<_> = trace.events().filter(|e| !touched(e.slot)).collect();
    let expected = sound.times.keys().filter(|slot| !touched(**slot)).count();
    if shown.len() != expected {
        return Some(format!("{} of {expected} slots are shown", shown.len()));
    }
    shown.windows(2).find_map(|pair| {
        let [a, b] = pair else { return None };
        let truth = sound.times[&b.slot] as i64 - sound.times[&a.slot] as i64;
        let said = b.ticks - a.ticks;
        (truth < 0 || trace.clock.runs() && truth != said)
            .then(|| format!("slot {} to {}: {said} ticks, in truth {truth}", a.slot, b.slot))
    })
}

#[test]
fn sound_captures_are_right_and_without_doubt() {
    for sound in all() {
        let trace = decoded(&sound.buffer);
        assert_eq!(wrong(&sound, &trace, &|_| false), None, "{}", sound.name);
        assert!(!doubted(&trace), "{}: {:?}", sound.name, trace.issues);
    }
}

/// One bit of one stamp was taken for a whole turn of the clock: 2^32 ticks more for all events behind it.
#[test]
fn one_bit_of_one_stamp_was_a_turn_of_the_clock() {
    for sound in all().iter().filter(|s| decoded(&s.buffer).clock.runs()) {
        let held = sound.times.len() as u64;
        for bit in 0..32 {
            for slot in [3, held / 3, held / 2, held - 4] {
                let mut buffer = sound.buffer.clone();
                buffer.slots[slot as usize].stamp ^= 1 << bit;
                let trace = decoded(&buffer);
                let what = format!("{}: bit {bit} of slot {slot}: {:?}", sound.name, codes(&trace));
                if let Some(wrong) = wrong(sound, &trace, &|s| s == slot) {
                    assert!(doubted(&trace), "{wrong}, and nothing is said: {what}");
                }
            }
        }
    }
}

#[test]
fn what_a_damaged_stamp_does_not_touch_keeps_its_time() {
    for sound in all().iter().filter(|s| ["wrapped", "young", "counts down", "big-endian"].contains(&&*s.name)) {
        for bit in 0..32 {
            let mut buffer = sound.buffer.clone();
            buffer.slots[100].stamp ^= 1 << bit;
            assert_eq!(wrong(sound, &decoded(&buffer), &|s| s == 100), None, "{}: bit {bit}", sound.name);
        }
        let mut buffer = sound.buffer.clone();
        buffer.slots[100].stamp ^= 1 << 31;
        let trace = decoded(&buffer);
        let issue = issue(&trace, "slots-incoherent");
        assert_eq!((issue.severity, issue.count), (Severity::Inferred, 1), "{}", sound.name);
    }
}

/// A range that held another was said to count no time, and a whole turn of the clock was counted before it.
#[test]
fn a_damaged_stamp_within_slots_of_another_lap_is_no_turn_of_the_clock() {
    for sound in all().iter().filter(|s| ["wrapped", "counts down", "big-endian"].contains(&&*s.name)) {
        let mut buffer = sound.buffer.clone();
        for slot in 100..108 {
            buffer.slots[slot].stamp -= 0x0800_0000;
        }
        buffer.slots[104].stamp ^= 0x4000_0000;
        let trace = decoded(&buffer);
        assert_eq!(issue(&trace, "slots-incoherent").count, 8, "{}", sound.name);
        assert_eq!(wrong(sound, &trace, &|s| (100..108).contains(&s)), None, "{}", sound.name);
    }
}

/// Behind a stamp that was passed over the next steps were taken for uneven ones, and the count for a time.
#[test]
fn a_short_count_of_events_with_a_damaged_stamp_is_a_count() {
    let mut buffer = sound("a short count", WORD, 1000, &[1; 30], 64).buffer;
    buffer.slots[15].stamp ^= 1 << 20;
    let trace = decoded(&buffer);
    assert_eq!(trace.clock.counts, Counts::Events(1), "{:?}", trace.issues);
}

/// What a larger ring left behind a smaller one in the same memory was taken for its events where pauses are long.
#[test]
fn the_rest_of_a_larger_ring_is_no_part_of_a_smaller_one() {
    // Pauses of a third of the clock: most stamps are as close to each other.
    let steps: Vec<u64> = (0..700).map(|i| if i % 20 == 19 { 1_500_000_000 } else { 100 + i * 7919 % 900 }).collect();
    let larger = sound("larger", WORD, 5000, &steps[..280], 300).buffer.bytes();
    for start in (0..8).map(|n| n * 0x2000_0000) {
        let smaller = sound("smaller", WORD, start, &steps[280..630], 200).buffer;
        let mut bytes = smaller.bytes();
        bytes.extend_from_slice(&larger[bytes.len()..]);
        let trace = decode_bytes(&smaller, bytes, &[], Extent::All, &DecodeOptions::default()).unwrap();
        assert!(!codes(&trace).contains(&"header-mended"), "{start:#x}: {:?}", trace.issues);
        assert_eq!(trace.events().count(), 200, "{start:#x}");
    }
}

/// A clock that began anew, or was set back, was 2^32 ticks further.
#[test]
fn a_clock_that_begins_anew_has_gone_around() {
    for name in ["wrapped", "not wrapped", "big-endian", "ULONG of 64 bits"] {
        let sound = all().into_iter().find(|s| s.name == name).unwrap();
        let half = sound.times.len() as u64 / 2;
        let order: Vec<u64> = decoded(&sound.buffer).events().map(|e| e.slot).collect();
        for by in [0x8000_0000 + 20_000, 0x4000_0000, 0x40_0000] {
            let mut buffer = sound.buffer.clone();
            for slot in &order[half as usize..] {
                buffer.slots[*slot as usize].stamp -= by;
            }
            let trace = decoded(&buffer);
            assert!(doubted(&trace), "{name}: back by {by:#x}");
            if name == "not wrapped" {
                assert_eq!(issue(&trace, "wrap-doubtful").severity, Severity::Inferred, "{by:#x}");
                assert!(trace.clock.doubts == 1);
            }
            let span = trace.events().last().unwrap().ticks;
            assert!(span < 1 << 31, "{name}: {span} ticks");
        }
    }
}

/// The newest stamp, which none behind it confirms, was believed wherever it led.
#[test]
fn a_leap_to_the_newest_event_is_doubtful() {
    for sound in all().iter().filter(|s| ["wrapped", "counts down", "big-endian"].contains(&&*s.name)) {
        let mut buffer = sound.buffer.clone();
        let newest = buffer.current - 1;
        buffer.slots[newest].stamp ^= 1 << 31;
        let trace = decoded(&buffer);
        assert_eq!(issue(&trace, "wrap-doubtful").severity, Severity::Inferred, "{}", sound.name);
        assert!(trace.events().last().unwrap().ticks < 1 << 31, "{}", sound.name);
    }
}

/// Slots of after the clock's turn, copied to before it, lead back over the turn: from a small stamp to a large one.
#[test]
fn a_step_back_over_the_turn_of_the_clock_is_no_pause() {
    let sound = sound("turn in the middle", WORD, 0xFFE0_0000, &busy(500, 900, 60_000), 256);
    let order: Vec<usize> = decoded(&sound.buffer).events().map(|e| e.slot as usize).collect();
    for len in [20, 49, 58, 90] {
        for at in (5..100).step_by(9) {
            let mut buffer = sound.buffer.clone();
            for i in 0..len {
                buffer.slots[order[at + i]] = sound.buffer.slots[order[order.len() - len + i]];
            }
            let copied = &order[at..at + len];
            let trace = decoded(&buffer);
            if let Some(wrong) = wrong(&sound, &trace, &|slot| copied.contains(&(slot as usize))) {
                assert!(doubted(&trace), "{len} slots at {at}: {wrong}");
            }
        }
    }
}

/// Wherever the current pointer was moved to, it was believed where the trace was longer than a 64th of its clock, and on
/// hosted clocks.
#[test]
fn a_moved_pointer_is_believed_nowhere() {
    for sound in all().iter().filter(|s| s.times.len() as u64 == s.buffer.slots.len() as u64) {
        if !decoded(&sound.buffer).clock.runs() || ["short ring", "ticks of low resolution"].contains(&&*sound.name) {
            continue;
        }
        let (capacity, right) = (sound.buffer.slots.len(), sound.buffer.current);
        for to in (0..capacity).step_by(5).filter(|to| *to != right) {
            let buffer = Buffer { current: to, ..sound.buffer.clone() };
            let trace = decoded(&buffer);
            if let Some(wrong) = wrong(sound, &trace, &|_| false) {
                assert!(doubted(&trace), "{}: pointer {right} moved to {to}: {wrong}", sound.name);
            }
        }
    }
}

#[test]
fn a_pointer_into_a_ring_that_never_wrapped_is_found_out() {
    let sound = all().into_iter().find(|s| s.name == "not wrapped").unwrap();
    for to in (5..170).step_by(7) {
        let trace = decoded(&Buffer { current: to, ..sound.buffer.clone() });
        issue(&trace, "current-misplaced");
        assert_eq!(wrong(&sound, &trace, &|_| false), None, "pointer moved to {to}");
    }
}

/// The kernel stores its own pointer before the header's copy: a stop in between leaves them one slot apart.
#[test]
fn pointers_one_slot_apart_are_sound_and_the_kernels_is_right() {
    let sound = all().into_iter().find(|s| s.name == "wrapped").unwrap();
    let kernel = sound.buffer.current_address();
    let behind = Buffer { current: sound.buffer.current - 1, ..sound.buffer.clone() };
    let trace = decode_with(&behind, &[("_tx_trace_buffer_current_ptr", kernel)]);
    assert_eq!(wrong(&sound, &trace, &|_| false), None);
    assert!(!doubted(&trace), "{:?}", trace.issues);
}

#[test]
fn pointers_that_differ_are_decided_by_the_stamps() {
    let sound = all().into_iter().find(|s| s.name == "wrapped").unwrap();
    let right = sound.buffer.current;
    for other in [0, right - 2, right + 1, 200, 255] {
        let moved = Buffer { current: other, ..sound.buffer.clone() };
        // The kernel's own was overwritten, or the header's.
        for (header, kernel) in [(&sound.buffer, &moved), (&moved, &sound.buffer)] {
            if kernel.current == header.current + 1 {
                continue;
            }
            for extent in [Extent::All, Extent::Newest(20)] {
                let known = [
                    ("_tx_trace_registry_start_ptr", header.registry()),
                    ("_tx_trace_registry_end_ptr", header.ring()),
                    ("_tx_trace_buffer_start_ptr", header.ring()),
                    ("_tx_trace_buffer_end_ptr", header.end()),
                    ("_tx_trace_buffer_current_ptr", kernel.current_address()),
                ];
                let options = DecodeOptions::default();
                let trace = decode_bytes(header, header.bytes(), &known, extent, &options).unwrap();
                let what = format!("header {}, kernel {}, {extent:?}", header.current, kernel.current);
                assert_eq!(issue(&trace, "current-differs").severity, Severity::Inferred, "{what}");
                let newest = trace.events().last().unwrap();
                assert_eq!((newest.slot, newest.seq), (right as u64 - 1, 255), "{what}: {:?}", trace.issues);
            }
        }
    }
}

/// `last` read the slots before the pointer and looked no further.
#[test]
fn the_newest_events_are_found_where_the_pointer_was_moved() {
    for sound in all().iter().filter(|s| ["wrapped", "counts down", "big-endian"].contains(&&*s.name)) {
        let right = sound.buffer.current;
        for to in (0..256).step_by(11).filter(|to: &usize| to.abs_diff(right) > 1) {
            let moved = Buffer { current: to, ..sound.buffer.clone() };
            let options = DecodeOptions::default();
            let trace = decode_bytes(&moved, moved.bytes(), &[], Extent::Newest(20), &options).unwrap();
            issue(&trace, "current-misplaced");
            let slots: Vec<u64> = trace.events().map(|e| e.slot).collect();
            let truth: Vec<u64> = (0..20).map(|i| (right as u64 + 256 - 20 + i) % 256).collect();
            assert_eq!(slots, truth, "{}: moved from {right} to {to}", sound.name);
        }
    }
}

/// Of pauses that are longer than the clock's range one seemed to be longer than all the rest: the events behind it were
/// shown as the oldest.
#[test]
fn pauses_of_several_turns_do_not_move_the_pointer() {
    for n in 1..200u64 {
        let mut steps = busy(500, 900, 60_000);
        for (i, at) in [290, 350, 410, 470].into_iter().enumerate() {
            steps[at] =
                5_000_000_000 + n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(13 * i as u32) % 20_000_000_000;
        }
        let sound = sound("pauses", WORD, n << 20, &steps, 256);
        let slots: Vec<u64> = decoded(&sound.buffer).events().map(|e| e.slot).collect();
        let truth: Vec<u64> = (244..500).map(|i| i % 256).collect();
        assert_eq!(slots, truth, "{n}");
    }
}

/// Counts the reads of a memory.
struct Counted(Flat, usize);

impl Memory for Counted {
    fn read(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.1 += buf.len();
        self.0.read(addr, buf)
    }
}

#[test]
fn a_sound_pointer_costs_no_more_reads() {
    for sound in all().iter().filter(|s| s.times.len() > 100 && !s.buffer.wide) {
        let mut memory = Counted(Flat::new(BASE, sound.buffer.bytes()), 0);
        let capture = capture_of(&mut memory, &sound.buffer, &[], Extent::Newest(20));
        assert!(memory.1 <= 48 + 96 + 22 * 32, "{}: {} bytes", sound.name, memory.1);
        let trace = capture.decode(&ThreadX.catalogue(Names::default()), &DecodeOptions::default()).unwrap();
        assert!(!doubted(&trace), "{}: {:?}", sound.name, trace.issues);
    }
}

/// The mask was applied though the stamps count in bits above it.
#[test]
fn a_mask_that_the_stamps_contradict_is_said() {
    let sound = all().into_iter().find(|s| s.name == "wrapped").unwrap();
    for mask in [0x7FFF_FFFF, 0x7FFF, 0x7F, 1, 0x0FFF_FFFF] {
        let trace = decoded(&Buffer { mask, ..sound.buffer.clone() });
        assert_eq!(issue(&trace, "mask-contradicted").severity, Severity::Inferred, "{mask:#x}");
        assert_eq!(wrong(&sound, &trace, &|_| false), None, "{mask:#x}");
        assert_eq!(trace.clock.mask, 0xFFFF_FFFF);
    }
    let paused = sound_words(&busy(500, 900, 70_000));
    issue(&decoded(&Buffer { mask: 0xFFFF, ..paused.buffer }), "mask-contradicted");
    // Kernels store the whole word: 16 bits of it are a clock as long as each step fits in.
    let narrow = sound_words(&busy(500, 900, 60_000));
    let trace = decoded(&Buffer { mask: 0xFFFF, ..narrow.buffer.clone() });
    assert_eq!(wrong(&narrow, &trace, &|_| false), None);
    assert!(!doubted(&trace), "{:?}", trace.issues);
}

fn sound_words(steps: &[u64]) -> Sound {
    sound("whole words", WORD, 0x8000_0000, steps, 256)
}

/// Slots of an older lap, of another capture, or moved by some bytes were among the others, and nothing was said.
#[test]
fn ranges_that_do_not_fit_are_said() {
    for sound in all().iter().filter(|s| s.times.len() == 256 && decoded(&s.buffer).clock.runs()) {
        if ["ticks of low resolution", "a count of events"].contains(&&*sound.name) {
            continue;
        }
        let span = sound.times.values().max().unwrap() - sound.times.values().min().unwrap();
        let period = if sound.buffer.mask == 0xFFFF_FFFF { 1u64 << 32 } else { sound.buffer.mask + 1 };
        for (first, count) in [(30usize, 1usize), (60, 9), (190, 25)] {
            let mut older = sound.buffer.clone();
            for slot in &mut older.slots[first..first + count] {
                slot.stamp = (slot.stamp + period * 4 - span % period - 1) % period;
            }
            let touched = |s: u64| (first as u64..(first + count) as u64).contains(&s);
            let trace = decoded(&older);
            assert!(doubted(&trace), "{}: {count} slots of a lap before", sound.name);
            let mut foreign = sound.buffer.clone();
            for slot in &mut foreign.slots[first..first + count] {
                (slot.stamp, slot.context) = ((slot.stamp ^ 0x5A5A_0000) & sound.buffer.mask, ALPHA + 0x4_0000);
            }
            let trace = decoded(&foreign);
            let quiet = wrong(sound, &trace, &touched);
            assert!(doubted(&trace), "{}: {count} slots of another capture: {quiet:?}", sound.name);
        }
    }
}

/// A thread that is not in a registry with room for it is of another trace.
#[test]
fn threads_that_the_registry_has_room_for_are_in_it() {
    let sound = all().into_iter().find(|s| s.name == "wrapped").unwrap();
    let mut buffer = sound.buffer.clone();
    buffer.slots[77].context = 0x2000_9000;
    // The registry is full.
    assert!(!codes(&decoded(&buffer)).contains(&"slots-incoherent"));
    buffer.objects.push(support::builder::Registered { available: 1, ..support::builder::Registered::new(0, 0, "") });
    let trace = decoded(&buffer);
    assert!(issue(&trace, "slots-incoherent").message.contains("not in the registry"));
    buffer.slots[77].context = ALPHA;
    assert!(!doubted(&decoded(&buffer)));
}

/// A priority word that no kernel stores was shown as a priority.
#[test]
fn a_priority_word_that_no_kernel_stores_is_said() {
    let sound = all().into_iter().find(|s| s.name == "wrapped").unwrap();
    let mut buffer = sound.buffer.clone();
    buffer.slots[75].priority = 5000;
    let trace = decoded(&buffer);
    let issue = issue(&trace, "slots-incoherent");
    assert!(issue.message.contains("priority") && issue.count == 1, "{issue:?}");
}

/// An event whose context word was cleared made a full ring one that had not wrapped: all older events were gone.
#[test]
fn a_cleared_slot_at_the_pointer_hid_all_older_events() {
    let sound = all().into_iter().find(|s| s.name == "wrapped").unwrap();
    for offset in [0, 1] {
        let mut buffer = sound.buffer.clone();
        let slot = buffer.current + offset;
        buffer.slots[slot].context = 0;
        for extent in [Extent::All, Extent::Newest(200)] {
            if offset == 1 && extent != Extent::All {
                // Of two slots the one behind the pointer shows an insertion that was cut off.
                continue;
            }
            let trace = decode_bytes(&buffer, buffer.bytes(), &[], extent, &DecodeOptions::default()).unwrap();
            assert!(trace.about.wrapped, "{offset} {extent:?}");
            let least = if extent == Extent::All { 255 } else { 199 };
            assert!(trace.len() >= least, "{offset} {extent:?}: {} events", trace.len());
        }
    }
}

/// An interrupt inserts its events after another event read the clock: a small step back, and no damage.
#[test]
fn small_steps_back_behind_an_interrupt_are_no_damage() {
    let mut sound = all().into_iter().find(|s| s.name == "wrapped").unwrap();
    let mut order: Vec<u64> = decoded(&sound.buffer).events().map(|e| e.slot).collect();
    order.pop();
    let contexts: Vec<u64> = sound.buffer.slots.iter().map(|s| s.context).collect();
    let isr = |slot: u64| contexts[slot as usize] == 0xFFFF_FFFF;
    let nested: Vec<u64> = order.iter().copied().filter(|s| isr(*s) && !isr((s + 1) % 256)).collect();
    for slot in &nested {
        let next = (slot + 1) % 256;
        let stamp = sound.buffer.slots[*slot as usize].stamp - 3;
        sound.buffer.slots[next as usize].stamp = stamp;
        sound.times.insert(next, sound.times[slot] - 3);
    }
    let trace = decoded(&sound.buffer);
    assert!(nested.len() > 10 && !doubted(&trace), "{:?}", trace.issues);
    let events = events(&trace);
    let backs = events.iter().filter(|e| e.delta == Some(-3)).count();
    assert_eq!(backs, nested.len());
    assert!(events.last().unwrap().ticks < 1 << 30);
    // One that goes far back behind an interrupt is damage too.
    let mut damaged = sound.buffer.clone();
    damaged.slots[nested[3] as usize].stamp += 50_000;
    assert_eq!(issue(&decoded(&damaged), "stamps-step-back").count, 1);
    // A thread's event that is older than another thread's is damage.
    let at = events.windows(2).position(|w| !isr(w[0].slot) && !isr(w[1].slot)).unwrap();
    let mut damaged = sound.buffer.clone();
    let before = damaged.slots[events[at].slot as usize].stamp;
    damaged.slots[events[at + 1].slot as usize].stamp = before - 3;
    assert_eq!(issue(&decoded(&damaged), "stamps-step-back").severity, Severity::Inferred);
}

/// The ticks of such a trace were shown without the stamps that they were made of.
#[cfg(feature = "cli")]
#[test]
fn doubtful_time_is_shown_with_its_stamps() {
    let sound = all().into_iter().find(|s| s.name == "wrapped").unwrap();
    let dir = std::env::temp_dir().join(format!("tx-trace-coherence-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    for (bit, stamps) in [(None, false), (Some(31), true)] {
        let mut buffer = sound.buffer.clone();
        buffer.slots[200].stamp ^= bit.map_or(0, |b: u32| 1 << b);
        let (file, out) = (dir.join("one.trx"), dir.join("out.txt"));
        std::fs::write(&file, buffer.bytes()).unwrap();
        let run = |command: &str| {
            let files = [file.to_str().unwrap(), "-o", out.to_str().unwrap()];
            let words: Vec<&str> = command.split(' ').chain(files).collect();
            let (_, said) = tx_trace::cli::run_captured(words.iter().map(Into::into).collect());
            (std::fs::read_to_string(&out).unwrap(), said)
        };
        // The doubt is reported below the events, and `--columns stamp` shows what was stored.
        let (_, said) = run("list");
        assert_eq!(said.contains("stamp"), stamps, "{said}");
        let (listing, _) = run("list --columns stamp");
        assert!(listing.lines().next().unwrap().contains("stamp"), "{listing:.200}");
        let (report, said) = run("profile");
        assert_eq!(said.contains("time stamps of 1"), stamps, "a report carries the doubt too: {said}");
        assert_eq!(report.contains("doubtful"), stamps, "{report}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
