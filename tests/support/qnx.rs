//! Builds QNX trace rings and `.kev` files byte by byte, as the kernel would. It states the layouts for itself, from
//! the reference, and uses nothing of the crate: a mistake in the crate's constants must show.

use std::collections::HashMap;

/// Bytes of a buffer.
pub const BUFFER: usize = 16384;

/// An event as it should come out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub cpu: u8,
    pub stamp: u32,
    pub class: u16,
    pub id: u16,
    pub words: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
struct Buffer {
    sequence: u32,
    /// Header, stamp and two words of each element.
    elements: Vec<[u32; 4]>,
    written: bool,
}

/// Which release's header a buffer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Six,
    Seven,
    Eight,
}

impl Shape {
    pub fn header(self) -> usize {
        match self {
            Self::Six => 0xA0,
            Self::Seven => 184,
            Self::Eight => 208,
        }
    }
}

/// A kernel that records into a ring.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub shape: Shape,
    pub big: bool,
    /// The kernel's address of buffer 0.
    pub base: u64,
    /// Elements at which it goes on to the next buffer; 714 in a real one.
    pub full: usize,
    buffers: Vec<Buffer>,
    current: usize,
    sequence: u32,
    /// High word of the clock, by processor.
    high: HashMap<u8, u32>,
    /// Every event that was recorded whole, with the sequence number of the buffer that its first part is in.
    history: Vec<(u32, Expected)>,
    /// A buffer was begun, and its two control events are still to come.
    heads_due: bool,
    begun: bool,
}

impl Kernel {
    pub fn new(buffers: usize, full: usize) -> Self {
        Self {
            shape: Shape::Six,
            big: false,
            base: 0xE7DF_7000,
            full,
            buffers: vec![Buffer::default(); buffers],
            current: 0,
            sequence: 1,
            high: HashMap::new(),
            history: Vec::new(),
            heads_due: true,
            begun: false,
        }
    }

    /// The sequence number that the first buffer gets.
    pub fn first_sequence(mut self, number: u32) -> Self {
        self.sequence = number;
        self
    }

    fn begin_buffer(&mut self) {
        let b = &mut self.buffers[self.current];
        b.elements.clear();
        b.sequence = self.sequence;
        b.written = true;
        self.heads_due = true;
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of an element")]
    fn put(&mut self, part: u32, cpu: u8, class: u16, id: u16, stamp: u32, a: u32, b: u32) -> u32 {
        if !self.begun {
            self.begun = true;
            self.begin_buffer();
        } else if self.buffers[self.current].elements.len() >= self.full {
            self.buffers[self.current].written = false;
            self.current = (self.current + 1) % self.buffers.len();
            self.sequence = self.sequence.wrapping_add(1);
            self.begin_buffer();
        }
        let header = part << 30 | u32::from(cpu) << 24 | u32::from(class) << 10 | u32::from(id);
        self.buffers[self.current].elements.push([header, stamp, a, b]);
        self.sequence
    }

    fn heads(&mut self, cpu: u8, time: u64) {
        let next_is_new = self.begun && self.buffers[self.current].elements.len() >= self.full;
        if self.heads_due || next_is_new || self.high.get(&cpu) != Some(&((time >> 32) as u32)) {
            if self.heads_due || next_is_new {
                let number = if next_is_new { self.sequence.wrapping_add(1) } else { self.sequence };
                let s = self.put(0, cpu, 1, 2, time as u32, number, 0);
                self.heads_due = false;
                self.note(s, cpu, 1, 2, time as u32, vec![number, 0]);
            }
            let (high, low) = ((time >> 32) as u32, time as u32);
            let s = self.put(0, cpu, 1, 1, low, high, low);
            self.heads_due = false;
            self.high.insert(cpu, high);
            self.note(s, cpu, 1, 1, low, vec![high, low]);
        }
    }

    fn note(&mut self, sequence: u32, cpu: u8, class: u16, id: u16, stamp: u32, words: Vec<u32>) {
        self.history.push((sequence, Expected { cpu, stamp, class, id, words }));
    }

    /// Records an event.
    pub fn event(&mut self, cpu: u8, time: u64, class: u16, id: u16, words: &[u32]) {
        self.event_with(cpu, time, class, id, words, |_| {});
    }

    /// The same, with something that happens after its first element.
    pub fn event_with(
        &mut self,
        cpu: u8,
        time: u64,
        class: u16,
        id: u16,
        words: &[u32],
        between: impl FnOnce(&mut Self),
    ) {
        self.heads(cpu, time);
        let stamp = time as u32;
        let mut all = words.to_vec();
        while all.len() < 2 || all.len() % 2 == 1 {
            all.push(0);
        }
        if all.len() == 2 {
            let s = self.put(0, cpu, class, id, stamp, all[0], all[1]);
            return self.note(s, cpu, class, id, stamp, all);
        }
        let first = self.put(1, cpu, class, id, stamp, all[0], all[1]);
        between(self);
        for i in (2..all.len()).step_by(2) {
            let part = if i + 2 == all.len() { 3 } else { 2 };
            self.put(part, cpu, class, id, stamp, all[i], all[i + 1]);
        }
        self.note(first, cpu, class, id, stamp, all);
    }

    /// One element as it is: for orphans, and for what no kernel writes.
    #[allow(clippy::too_many_arguments, reason = "the fields of an element")]
    pub fn raw(&mut self, part: u32, cpu: u8, class: u16, id: u16, stamp: u32, a: u32, b: u32) {
        self.put(part, cpu, class, id, stamp, a, b);
    }

    /// Number of elements in the buffer that is being written.
    pub fn fill(&self) -> usize {
        self.buffers[self.current].elements.len()
    }

    /// What a reader should find: every event whose beginning is not overwritten.
    pub fn expected(&self) -> Vec<Expected> {
        let oldest = self.buffers.iter().filter(|b| !b.elements.is_empty()).map(|b| b.sequence).min().unwrap_or(0);
        self.history.iter().filter(|(s, _)| *s >= oldest).map(|(_, e)| e.clone()).collect()
    }

    /// Every event that was ever recorded.
    pub fn recorded(&self) -> usize {
        self.history.len()
    }

    fn word(&self, out: &mut Vec<u8>, v: u32) {
        out.extend(if self.big { v.to_be_bytes() } else { v.to_le_bytes() });
    }

    fn pointer(&self, out: &mut Vec<u8>, v: u64) {
        match (self.shape, self.big) {
            (Shape::Six, _) => self.word(out, v as u32),
            (_, false) => out.extend(v.to_le_bytes()),
            (_, true) => out.extend(v.to_be_bytes()),
        }
    }

    /// The ring as it is in memory.
    pub fn bytes(&self) -> Vec<u8> {
        let mut all = Vec::new();
        let n = self.buffers.len();
        for (i, b) in self.buffers.iter().enumerate() {
            let start = all.len();
            let own = self.base + (i * BUFFER) as u64;
            let next = self.base + ((i + 1) % n * BUFFER) as u64;
            let flags = 0x1_0000 | if b.written { 0x2_0000 } else { 0 };
            let mut elements = b.elements.clone();
            if self.shape == Shape::Eight && !b.written && !elements.is_empty() {
                elements.push([0x404, elements[elements.len() - 1][1], 0xE6E6_E6E6, 0xE6E6_E6E6]);
            }
            let linked = self.shape != Shape::Eight;
            self.pointer(&mut all, if linked { self.base } else { 0 });
            self.pointer(&mut all, if linked { next } else { 0 });
            for v in [flags, elements.len() as u32, b.sequence] {
                self.word(&mut all, v);
            }
            if linked {
                self.word(&mut all, (i as u32) << 13);
                self.word(&mut all, 0);
                if self.shape == Shape::Seven {
                    self.word(&mut all, 0);
                }
                let begin = own + self.shape.header() as u64;
                self.pointer(&mut all, begin);
                self.pointer(&mut all, begin + 16 * elements.len() as u64);
            }
            all.resize(start + self.shape.header(), 0);
            for element in &elements {
                for v in element {
                    self.word(&mut all, *v);
                }
            }
            all.resize(start + BUFFER, 0);
        }
        all
    }

    /// The elements of all buffers, oldest first, behind a text header, as the trace logger writes them.
    pub fn kev(&self, hz: u64, release: &str) -> Vec<u8> {
        let order = if self.big { "BIG" } else { "LITTLE" };
        let mut out = format!(
            "TRACE_HEADER_BEGIN::TRACE_FILE_NAME::/dev/shmem/tracebufferTRACE_DATE:: Mon Jan  1 00:00:00 2024\n\
             TRACE_VER_MAJOR::1TRACE_VER_MINOR::01TRACE_{order}_ENDIAN::TRUETRACE_ENCODING::16 byte events\
             TRACE_BOOT_DATE:: Mon Jan  1 00:00:00 2024\nTRACE_CYCLES_PER_SEC::{hz}TRACE_CPU_NUM::2\
             TRACE_SYSNAME::QNXTRACE_NODENAME::boardTRACE_SYS_RELEASE::{release}TRACE_SYS_VERSION::x\
             TRACE_MACHINE::boardTRACE_SYSPAGE_LEN::24TRACE_HEADER_END::"
        )
        .into_bytes();
        out.extend([0x5A; 24]);
        let mut used: Vec<&Buffer> = self.buffers.iter().filter(|b| !b.elements.is_empty()).collect();
        used.sort_by_key(|b| b.sequence);
        for element in used.iter().flat_map(|b| &b.elements) {
            for v in element {
                self.word(&mut out, *v);
            }
        }
        out
    }
}

/// The words of a text, padded with zero bytes, as a processor of this byte order loads them.
pub fn text(text: &str, big: bool) -> Vec<u32> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes.resize(bytes.len().div_ceil(4) * 4, 0);
    bytes
        .chunks(4)
        .map(|c| {
            let c = [c[0], c[1], c[2], c[3]];
            if big { u32::from_be_bytes(c) } else { u32::from_le_bytes(c) }
        })
        .collect()
}

/// A system page with the addresses of the live buffer and the clock's rate.
pub fn syspage(live: u32, hz: u64) -> Vec<u8> {
    let mut page = vec![0u8; 0x400];
    let mut put = |at: usize, v: u16| page[at..at + 2].copy_from_slice(&v.to_le_bytes());
    for (at, v) in [(0, 0x88u16), (2, 0x400), (4, 1), (6, 1)] {
        put(at, v);
    }
    let sizes = [0x60u16, 0x40, 0x20, 0x20, 0x30, 0x20, 0x40, 0x20, 0x20, 0x10, 0x40, 0x20];
    let mut offset = 0x90u16;
    let (mut private, mut qtime) = (0, 0);
    for (i, size) in sizes.into_iter().enumerate() {
        put(8 + 4 * i, offset);
        put(10 + 4 * i, size);
        match i {
            0 => private = usize::from(offset),
            6 => qtime = usize::from(offset),
            _ => {}
        }
        offset += size;
    }
    page[private + 0x4C..private + 0x50].copy_from_slice(&live.to_le_bytes());
    page[qtime..qtime + 8].copy_from_slice(&hz.to_le_bytes());
    page
}
