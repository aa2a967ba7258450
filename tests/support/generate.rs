//! Random traces: what happened, and the bytes that the kernel would have left of it.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tx_trace::trace::ContextKind;

use super::builder::{Buffer, Entry, Registered};
use super::decode::Seen;

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
        let total = self.happenings.len();
        let held = total.min(self.capacity);
        let word = if self.buffer.wide { u64::MAX } else { 0xFFFF_FFFF };
        let threads = self.happenings[total - held..].iter().any(|h| matches!(h.who, Who::Thread { .. }));
        (total - held..total)
            .map(|i| {
                let h = &self.happenings[i];
                let mut seen = Seen {
                    seq: (i - (total - held)) as u64,
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
                        // An old kernel's 0 tells nothing, and its threads give it away.
                        seen.interrupted = (!self.old || !threads).then_some((kind, interrupted));
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

fn happening(pool: Vec<u64>) -> impl Strategy<Value = Happening> {
    let someone = proptest::sample::select(pool);
    let who = prop_oneof![
        6 => (someone.clone(), 0..1024u16, 0..1024u16)
            .prop_map(|(address, priority, threshold)| Who::Thread { address, priority, threshold }),
        2 => someone.prop_map(|interrupted| Who::Isr { interrupted }),
        1 => Just(Who::Isr { interrupted: 0 }),
        1 => Just(Who::Init),
    ];
    // Ids of the catalogue, of the user, and of nobody; below the byte that is a core's number.
    let id = prop_oneof![0..130u32, 200..1100u32, 4096..4200u32, 0..0x0100_0000u32];
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
pub fn story(most_slots: usize) -> impl Strategy<Value = Story> {
    (any::<bool>(), any::<bool>(), any::<bool>(), 1..=64u16, 1..=most_slots)
        .prop_flat_map(|(wide, big, old, name_size, capacity)| {
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
                    move |n| vec(happening(pool.clone()), n)
                });
                let objects = vec(object(pool, name_size), 0..24);
                (happenings, objects, base, mask, 0..80usize, any::<[u64; 7]>()).prop_map(
                    move |(happenings, mut objects, base, mask, spare, stale)| {
                        let word = if wide { u64::MAX } else { 0xFFFF_FFFF };
                        // Each thread is registered once: what holds where it is not is the object table's own test.
                        let mut known = Vec::new();
                        objects.retain(|o| {
                            let again = o.kind == 1 && known.contains(&(o.pointer & word));
                            known.extend((o.kind == 1).then_some(o.pointer & word));
                            !again
                        });
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
