//! Random traces: what happened, and the bytes that the kernel would have left of it.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tx_trace::trace::ContextKind;

use super::builder::{Buffer, Entry, Registered};
use super::decode::Seen;

/// What the kernel takes its stamps from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// Counts over all bits that the mask leaves, up or down, from somewhere.
    Free { down: bool },
    /// Never moves.
    Still,
    /// Starts over long before the mask says so: a timer that reloads each tick, nanoseconds of a second.
    Reloads { period: u64, down: bool },
}

impl Source {
    /// Gives the events the stamps of this clock; what they had decides how long each takes.
    fn stamp(self, happenings: &mut [Happening], start: u64) {
        let mut now = start;
        for h in happenings {
            let step = h.stamp % 1000;
            now = match self {
                Self::Free { down: false } => now.wrapping_add(step),
                Self::Free { down: true } => now.wrapping_sub(step),
                Self::Still => now,
                Self::Reloads { period, down: false } => (now % period + step) % period,
                Self::Reloads { period, down: true } => (now % period + period - step % period) % period,
            };
            h.stamp = now;
        }
    }
}

/// A clock that counts over the whole mask, or none.
pub fn plain_clock() -> BoxedStrategy<Source> {
    prop_oneof![
        4 => Just(Source::Free { down: false }),
        2 => Just(Source::Free { down: true }),
        1 => Just(Source::Still),
    ]
    .boxed()
}

/// A clock that starts over within the ring.
pub fn reloading_clock() -> BoxedStrategy<Source> {
    (1000..20_000u64, any::<bool>()).prop_map(|(period, down)| Source::Reloads { period, down }).boxed()
}

/// Who inserts an event.
#[derive(Clone, Copy, Debug)]
pub enum Who {
    Thread { address: u64, priority: u16, threshold: u16 },
    Isr { interrupted: u64 },
    Init,
}

/// One event, before it is bytes.
#[derive(Clone, Copy, Debug)]
pub struct Happening {
    pub who: Who,
    pub id: u32,
    pub stamp: u64,
    pub info: [u64; 4],
}

/// A trace: what happened, and how it was kept.
#[derive(Clone, Debug)]
pub struct Story {
    pub happenings: Vec<Happening>,
    pub capacity: usize,
    /// Kernels before version 6 store neither threshold nor what an ISR interrupted.
    pub old: bool,
    pub buffer: Buffer,
}

impl Happening {
    /// The thread that it names, if any.
    fn thread(&self) -> Option<u64> {
        match self.who {
            Who::Thread { address, .. } => Some(address),
            Who::Isr { interrupted } => Some(interrupted).filter(|i| *i != 0),
            Who::Init => None,
        }
    }

    /// The words as the reference states them.
    pub fn entry(&self, old: bool) -> Entry {
        let (context, priority) = match self.who {
            Who::Thread { address, priority, .. } if old => (address, u64::from(priority)),
            Who::Thread { address, priority, threshold } => {
                (address, 0x8000_0000 | u64::from(threshold) << 16 | u64::from(priority))
            }
            Who::Isr { .. } if old => (0xFFFF_FFFF, 0),
            Who::Isr { interrupted } => (0xFFFF_FFFF, interrupted),
            Who::Init => (0xF0F0_F0F0, 0),
        };
        Entry { context, priority, id: u64::from(self.id), stamp: self.stamp, info: self.info }
    }
}

impl Story {
    /// What a reader has to find in the ring: the oldest first.
    pub fn kept(&self) -> Vec<Seen> {
        self.newest(usize::MAX)
    }

    /// What a reader of the newest events alone has to find. That an ISR interrupted idle is reported only where something
    /// tells the kernel's age: the registry, or the events that were read.
    pub fn newest(&self, most: usize) -> Vec<Seen> {
        let total = self.happenings.len();
        let all = total.min(self.capacity);
        let held = all.min(most);
        let word = if self.buffer.wide { u64::MAX } else { 0xFFFF_FFFF };
        let kept = &self.happenings[total - held..];
        let threads = kept.iter().any(|h| matches!(h.who, Who::Thread { .. }));
        let named = kept.iter().any(|h| matches!(h.who, Who::Isr { interrupted } if interrupted & word != 0));
        let registered = self.buffer.objects.iter().any(|o| o.kind == 1 && o.priority.is_some());
        // Only threads, what was interrupted, or the registry tell the age of a kernel; an old one's threads give it away.
        let young = if self.old { !threads && registered } else { threads || named || registered };
        (total - held..total)
            .map(|i| {
                let h = &self.happenings[i];
                let mut seen = Seen {
                    seq: (i - (total - all)) as u64,
                    slot: (i % self.capacity) as u64,
                    core: 0,
                    kind: ContextKind::Thread,
                    address: 0,
                    name: None,
                    priority: None,
                    threshold: None,
                    interrupted: None,
                    id: h.id,
                    stamp: Some(h.stamp & word & self.buffer.mask),
                    words: h.info.iter().map(|w| w & word).collect(),
                };
                match h.who {
                    Who::Thread { address, priority, threshold } => {
                        seen.address = address & word;
                        seen.name = self.thread_name(seen.address);
                        seen.priority = Some(priority);
                        seen.threshold = (!self.old).then_some(threshold);
                    }
                    Who::Isr { interrupted } => {
                        (seen.kind, seen.address) = (ContextKind::Isr, 0xFFFF_FFFF);
                        seen.name = Some("ISR".to_owned());
                        let interrupted = if self.old { 0 } else { interrupted & word };
                        let kind = if interrupted == 0 { ContextKind::Idle } else { ContextKind::Thread };
                        seen.interrupted = young.then_some((kind, interrupted));
                    }
                    Who::Init => {
                        (seen.kind, seen.address) = (ContextKind::Init, 0xF0F0_F0F0);
                        seen.name = Some("initialize".to_owned());
                    }
                }
                seen
            })
            .collect()
    }

    fn thread_name(&self, address: u64) -> Option<String> {
        let word = if self.buffer.wide { u64::MAX } else { 0xFFFF_FFFF };
        let object = self.buffer.objects.iter().find(|o| o.kind == 1 && o.pointer & word == address)?;
        Some(self.object_name(object)).filter(|n| !n.is_empty())
    }

    /// A name ends at its first NUL or where its room ends.
    pub fn object_name(&self, object: &Registered) -> String {
        let room = usize::from(self.buffer.name_size).min(object.name.len());
        let bytes = &object.name[..room];
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    /// The bytes of the whole buffer.
    pub fn bytes(&self) -> Vec<u8> {
        self.buffer.bytes()
    }
}

/// Addresses of threads that happen again and again, of which some are registered.
fn pool(wide: bool) -> impl Strategy<Value = Vec<u64>> {
    let one = any::<u64>().prop_map(move |a| {
        let a = if wide { a } else { a & 0xFFFF_FFFF };
        // No thread lives at the words that mean something else.
        if matches!(a, 0 | 0xFFFF_FFFF | 0xF0F0_F0F0) { 0x2000_0010 } else { a }
    });
    vec(one, 1..8).prop_map(|mut all| {
        all.sort_unstable();
        all.dedup();
        all
    })
}

/// Some of the kernel's own.
const KERNEL_IDS: [u32; 24] =
    [1, 2, 3, 4, 5, 6, 10, 11, 17, 20, 21, 30, 32, 36, 50, 52, 57, 68, 69, 83, 88, 100, 112, 120];

fn happening(pool: Vec<u64>, odd_ids: bool) -> impl Strategy<Value = Happening> {
    let someone = proptest::sample::select(pool);
    let who = prop_oneof![
        6 => (someone.clone(), 0..1024u16, 0..1024u16)
            .prop_map(|(address, priority, threshold)| Who::Thread { address, priority, threshold }),
        2 => someone.prop_map(|interrupted| Who::Isr { interrupted }),
        1 => Just(Who::Isr { interrupted: 0 }),
        1 => Just(Who::Init),
    ];
    // Ids of the kernel and of the user; and any, below the byte that is a core's number.
    let kernel = proptest::sample::select(KERNEL_IDS.to_vec());
    let id = if odd_ids {
        prop_oneof![kernel, 4096..4200u32, 0..0x0100_0000u32].boxed()
    } else {
        prop_oneof![kernel, 4096..0x1_0000u32].boxed()
    };
    let word = || prop_oneof![Just(0u64), 0..100u64, any::<u64>(), Just(u64::MAX)];
    (who, id, any::<u64>(), [word(), word(), word(), word()]).prop_map(|(who, id, stamp, info)| Happening {
        who,
        id,
        stamp,
        info,
    })
}

fn object(pool: Vec<u64>, name_size: u16) -> impl Strategy<Value = Registered> {
    (
        0..2u8,
        prop_oneof![Just(0u8), Just(1u8), 2..24u8, any::<u8>()],
        option::of(0..1024u16),
        prop_oneof![proptest::sample::select(pool), any::<u64>()],
        [any::<u64>(), any::<u64>()],
        prop_oneof![
            vec(proptest::char::range('a', 'z').prop_map(|c| c as u8), 0..=usize::from(name_size)),
            vec(any::<u8>(), 0..=usize::from(name_size)),
        ],
    )
        .prop_map(|(available, kind, priority, pointer, params, name)| Registered {
            available,
            kind,
            priority,
            pointer,
            params,
            name,
        })
}

/// Any trace that a kernel can leave, of one core.
///
/// Kernels check no ids. But an id that means nothing, from a thread that is not registered, looks like memory that
/// was overwritten, and is left out: where ids are odd, all threads that insert events are registered.
pub fn story(most_slots: usize, odd_ids: bool, clock: BoxedStrategy<Source>) -> impl Strategy<Value = Story> {
    (any::<bool>(), any::<bool>(), any::<bool>(), 1..=64u16, 1..=most_slots)
        .prop_flat_map(move |(wide, big, old, name_size, capacity)| {
            let clock = clock.clone();
            pool(wide).prop_flat_map(move |pool| {
                let mask = prop_oneof![
                    3 => Just(0xFFFF_FFFFu64),
                    1 => Just(0xFFFF),
                    1 => Just(if wide { u64::MAX } else { 0x00FF_FFFF }),
                ];
                let base = prop_oneof![
                    Just(0x2000_0000u64),
                    (0x1000..0xF000_0000u64).prop_map(|a| a & !3),
                    // Above 4 GiB: in narrow traces all pointers are cut.
                    (0x1_0000_0000..0x7FFF_F000_0000u64).prop_map(|a| a & !7),
                ];
                let count = prop_oneof![0..=capacity, capacity..=capacity * 2 + 9];
                let happenings = count.prop_flat_map({
                    let pool = pool.clone();
                    move |n| vec(happening(pool.clone(), odd_ids), n)
                });
                let objects = vec(object(pool, name_size), 0..24);
                (happenings, objects, base, mask, 0..80usize, any::<[u64; 8]>(), clock.clone()).prop_map(
                    move |(mut happenings, mut objects, base, mask, spare, stale, clock)| {
                        clock.stamp(&mut happenings, stale[7]);
                        let word = if wide { u64::MAX } else { 0xFFFF_FFFF };
                        // Each thread is registered once: what holds where it is not is the object table's own test.
                        let mut known = Vec::new();
                        objects.retain(|o| {
                            let again = o.kind == 1 && known.contains(&(o.pointer & word));
                            known.extend((o.kind == 1).then_some(o.pointer & word));
                            !again
                        });
                        if odd_ids {
                            let mut all: Vec<u64> = happenings.iter().filter_map(Happening::thread).collect();
                            all.sort_unstable();
                            all.dedup();
                            // Pointers of other objects must not hide a thread's.
                            objects.retain(|o| o.kind == 1 || !all.contains(&(o.pointer & word)));
                            for address in all.into_iter().filter(|a| !known.contains(a)) {
                                objects.push(Registered { priority: Some(9), ..Registered::new(1, address, "t") });
                            }
                        }
                        let entries: Vec<Entry> = happenings.iter().map(|h| h.entry(old)).collect();
                        let mut buffer = Buffer::new(base).record(capacity, &entries);
                        (buffer.wide, buffer.big, buffer.name_size) = (wide, big, name_size);
                        (buffer.mask, buffer.objects, buffer.spare) = (mask, objects, spare);
                        // A slot without an event has old memory in all words but the first.
                        for slot in buffer.slots.iter_mut().filter(|s| s.context == 0) {
                            (slot.priority, slot.id, slot.stamp) = (stale[0], stale[1], stale[2]);
                            slot.info = [stale[3], stale[4], stale[5], stale[6]];
                        }
                        Story { happenings, capacity, old, buffer }
                    },
                )
            })
        })
        .boxed()
}
