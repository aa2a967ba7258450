//! Builds the memory of TI's loggers as they would leave it. It states the layouts for itself and uses nothing of the
//! crate: a mistake in the crate's constants must show.

/// One event as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ev {
    pub kind: u8,
    pub event: u16,
    pub module: u16,
    pub stamp: u64,
    pub words: Vec<u32>,
}

impl Ev {
    pub fn new(kind: u8, event: u16, module: u16, stamp: u64, words: &[u32]) -> Self {
        Self { kind, event, module, stamp, words: words.to_vec() }
    }

    /// The stamp as its type stores it.
    pub fn stored(&self) -> Option<u64> {
        match self.kind {
            1 | 3 | 10 | 12 => Some(self.stamp),
            9 => Some(self.stamp & 0xFFFF_FFFF),
            _ => None,
        }
    }

    /// Bytes of its record.
    pub fn len(&self) -> usize {
        let stamp = match self.kind {
            1 | 3 | 10 | 12 => 8,
            9 => 4,
            _ => 0,
        };
        8 + stamp + 4 * self.words.len()
    }
}

/// A word in the target's byte order.
pub fn word(big: bool, value: u32) -> [u8; 4] {
    if big { value.to_be_bytes() } else { value.to_le_bytes() }
}

/// Half a word in the target's byte order.
pub fn half(big: bool, value: u16) -> [u8; 2] {
    if big { value.to_be_bytes() } else { value.to_le_bytes() }
}

/// The bytes of a record. `previous` and `sequence` go where its type has room for them.
pub fn record(big: bool, e: &Ev, previous: usize, sequence: u32) -> Vec<u8> {
    let low = if e.kind >= 8 { (previous as u32 & 0x7FF) << 5 | sequence & 31 } else { sequence & 0xFFFF };
    let mut b = Vec::new();
    b.extend(word(big, u32::from(e.kind) << 27 | (e.len() as u32) << 16 | low));
    match e.kind {
        1 | 3 | 10 | 12 => {
            b.extend(word(big, e.stamp as u32));
            b.extend(word(big, (e.stamp >> 32) as u32));
        }
        9 => b.extend(word(big, e.stamp as u32)),
        _ => {}
    }
    b.extend(word(big, u32::from(e.event) << 16 | u32::from(e.module)));
    for w in &e.words {
        b.extend(word(big, *w));
    }
    assert_eq!(b.len(), e.len());
    b
}

/// A logger that writes round and round: LoggerMin with a header of 4 bytes, LoggerStopMode with one of 16.
#[derive(Clone, Debug)]
pub struct Lap {
    pub big: bool,
    pub minimal: bool,
    pub base: u32,
    pub mem: Vec<u8>,
    pub write: usize,
    pub previous: usize,
    pub sequence: u32,
    pub packets: u16,
    pub dropped: u32,
    pub enabled: u16,
    /// Everything that was ever written: the event with its sequence number, previous length, and place.
    pub written: Vec<(Ev, u32, usize, usize)>,
}

/// Bytes that a logger keeps free behind its end: the longest record and the mark.
const ROOM: usize = 52;

impl Lap {
    pub fn new(minimal: bool, big: bool, base: u32, size: usize) -> Self {
        let mut mem = vec![0; size];
        if minimal {
            mem[0] = 0x30;
        } else {
            mem[..16].copy_from_slice(&[0xA0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x80, 0x33, 0xFF, 0xFF, 0, 0]);
        }
        Self {
            big,
            minimal,
            base,
            mem,
            write: if minimal { 4 } else { 16 },
            previous: 0,
            sequence: 0,
            packets: 0,
            dropped: 0,
            enabled: 1,
            written: Vec::new(),
        }
    }

    fn start(&self) -> usize {
        if self.minimal { 4 } else { 16 }
    }

    fn wrap(&mut self) {
        let length = (self.write as u32).to_be_bytes();
        if self.minimal {
            self.mem[2..4].copy_from_slice(&length[2..]);
        } else {
            self.mem[1..4].copy_from_slice(&length[1..]);
            self.packets += 1;
            self.mem[4..6].copy_from_slice(&self.packets.to_be_bytes());
        }
        self.write = self.start();
    }

    /// Writes an event as the target does: the record, then the mark behind it; round to the start where it is full.
    pub fn log(&mut self, e: &Ev) {
        if self.minimal && self.write + e.len() > self.mem.len() - 4 {
            self.wrap();
        }
        self.written.push((e.clone(), self.sequence, self.previous, self.write));
        let bytes = record(self.big, e, self.previous, self.sequence);
        self.mem[self.write..self.write + bytes.len()].copy_from_slice(&bytes);
        self.previous = bytes.len();
        self.sequence += 1;
        self.write += bytes.len();
        let mark = word(self.big, 8 << 27 | (self.previous as u32) << 5 | self.sequence & 31);
        self.mem[self.write..self.write + 4].copy_from_slice(&mark);
        if !self.minimal && self.write > self.mem.len() - ROOM {
            self.wrap();
        }
    }

    /// The numbers in `written` of the newest events, back to the first that something was overwritten since: what a
    /// perfect reader shows.
    pub fn kept(&self) -> Vec<usize> {
        let mut kept = Vec::new();
        for i in (0..self.written.len()).rev() {
            let (e, _, _, at) = &self.written[i];
            let hit = |from: usize, len: usize| from < at + e.len() && *at < from + len;
            let over = self.written[i + 1..].iter().any(|(f, _, _, place)| hit(*place, f.len() + 4));
            if over {
                break;
            }
            kept.push(i);
        }
        kept.reverse();
        kept
    }

    /// LoggerMin's state.
    pub fn state(&self) -> Vec<u8> {
        let mut b = Vec::new();
        for v in [self.enabled, u16::from(self.sequence == 0), self.previous as u16, self.dropped as u16] {
            b.extend(half(self.big, v));
        }
        for v in [self.base, self.base, self.base + self.write as u32, self.base + self.mem.len() as u32 - 4] {
            b.extend(word(self.big, v));
        }
        b.extend(half(self.big, self.sequence as u16));
        b.extend(half(self.big, 0));
        let kind = self.written.last().map_or(8, |(e, ..)| u32::from(e.kind));
        b.extend(word(self.big, kind));
        assert_eq!(b.len(), 32);
        b
    }

    /// LoggerStopMode's object.
    pub fn object(&self, instance: u16, descriptor: u32) -> Vec<u8> {
        let mut b = Vec::new();
        b.extend(word(self.big, 0));
        b.extend(half(self.big, self.enabled));
        b.extend(half(self.big, instance));
        let end = self.base + (self.mem.len() - ROOM) as u32;
        for v in [self.mem.len() as u32, self.base, self.base + self.write as u32, end, 32, 128] {
            b.extend(word(self.big, v));
        }
        b.extend(half(self.big, self.previous as u16));
        b.extend([0; 2]);
        b.extend(word(self.big, self.dropped));
        b.extend(half(self.big, self.sequence as u16));
        b.extend(half(self.big, self.packets));
        b.extend(word(self.big, descriptor));
        b.extend(word(self.big, self.base));
        assert_eq!(b.len(), 52);
        b
    }

    /// Its queue descriptor.
    pub fn descriptor(&self, next: u32, instance: u32, dropped_at: u32) -> Vec<u8> {
        let live = self.base + self.write as u32;
        queue(
            self.big,
            &[
                48,
                next,
                8,
                self.base,
                self.base,
                self.base,
                self.mem.len() as u32,
                instance,
                0x8033,
                0,
                dropped_at,
                live,
            ],
        )
    }
}

/// A queue descriptor from its words.
pub fn queue(big: bool, words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| word(big, *w)).collect()
}

/// The records of a snapshot that begin as `head` does: `data` in parts of at most `most` bytes of data a record.
pub fn snapshot(head: &Ev, id: u32, address: u32, data: &[u8], most: usize) -> Vec<Ev> {
    let parts: Vec<&[u8]> = if data.is_empty() { vec![data] } else { data.chunks(most).collect() };
    parts
        .iter()
        .enumerate()
        .map(|(i, part)| {
            let place = address + (i * most) as u32;
            let lengths = (part.len() as u32) << 16 | data.len() as u32;
            let mut words = vec![0x0800_1000, 42, id, place, lengths, 0x0800_2000];
            for w in part.chunks(4) {
                let mut b = [0; 4];
                b[..w.len()].copy_from_slice(w);
                words.push(u32::from_le_bytes(b));
            }
            Ev { stamp: head.stamp + i as u64, words, ..head.clone() }
        })
        .collect()
}

/// Memory put together from pieces; gaps are zero.
#[derive(Clone, Debug, Default)]
pub struct Ram {
    pub base: u32,
    pub bytes: Vec<u8>,
}

impl Ram {
    pub fn new(base: u32) -> Self {
        Self { base, bytes: Vec::new() }
    }

    pub fn put(mut self, address: u32, bytes: &[u8]) -> Self {
        let at = (address - self.base) as usize;
        if self.bytes.len() < at + bytes.len() {
            self.bytes.resize(at + bytes.len(), 0);
        }
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }
}

/// A program's table of characters: the ids of texts are their offsets. The first byte is no text.
#[derive(Clone, Debug)]
pub struct Texts {
    pub chars: Vec<u8>,
    pub nodes: Vec<(u16, u16)>,
}

impl Texts {
    pub fn new() -> Self {
        Self { chars: vec![0], nodes: vec![(0, 0)] }
    }

    pub fn text(&mut self, text: &str) -> u16 {
        let id = self.chars.len() as u16;
        self.chars.extend(text.as_bytes());
        self.chars.push(0);
        id
    }

    /// A module: its package and its name are two texts under one node.
    pub fn module(&mut self, package: &str, name: &str) -> u16 {
        let (left, right) = (self.text(package), self.text(name));
        self.nodes.push((left, right));
        0x8000 | (self.nodes.len() - 1) as u16
    }

    pub fn node_bytes(&self, big: bool) -> Vec<u8> {
        self.nodes.iter().flat_map(|(l, r)| [half(big, *l), half(big, *r)].concat()).collect()
    }
}

/// A 32-bit little-endian ELF program with one read-only segment, RAM, and a table of symbols: name, address, size.
pub fn elf(base: u32, rodata: &[u8], symbols: &[(&str, u32, u32)]) -> Vec<u8> {
    let (mut strings, mut table) = (vec![0u8], vec![0u8; 16]);
    for (name, value, size) in symbols {
        table.extend((strings.len() as u32).to_le_bytes());
        table.extend(value.to_le_bytes());
        table.extend(size.to_le_bytes());
        // A global object, in the first section where it is there, else in RAM.
        let inside = (base..base + rodata.len() as u32).contains(value);
        table.extend([0x11, 0, if inside { 1 } else { 5 }, 0]);
        strings.extend(name.as_bytes());
        strings.push(0);
    }
    let names = b"\0.rodata\0.symtab\0.strtab\0.shstrtab\0.bss\0";
    let data_at = 0x80u32;
    let table_at = (data_at + rodata.len() as u32).next_multiple_of(4);
    let strings_at = table_at + table.len() as u32;
    let names_at = strings_at + strings.len() as u32;
    let sections_at = (names_at + names.len() as u32).next_multiple_of(4);
    let mut b = vec![0x7F, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    b.extend([2, 0, 40, 0]);
    for v in [1, base, 52, sections_at, 0x0500_0000] {
        b.extend(v.to_le_bytes());
    }
    for v in [52u16, 32, 1, 40, 6, 4] {
        b.extend(v.to_le_bytes());
    }
    let len = rodata.len() as u32;
    for v in [1, data_at, base, base, len, len, 4, 4] {
        b.extend(v.to_le_bytes());
    }
    b.resize(data_at as usize, 0);
    b.extend(rodata);
    b.resize(table_at as usize, 0);
    b.extend(&table);
    b.extend(&strings);
    b.extend(names);
    b.resize(sections_at as usize, 0);
    let headers: [[u32; 10]; 6] = [
        [0; 10],
        [1, 1, 2, base, data_at, len, 0, 0, 4, 0],
        [9, 2, 0, 0, table_at, table.len() as u32, 3, 1, 4, 16],
        [17, 3, 0, 0, strings_at, strings.len() as u32, 0, 0, 1, 0],
        [25, 3, 0, 0, names_at, names.len() as u32, 0, 0, 1, 0],
        [35, 8, 3, 0x2000_0000, names_at, 0x1000, 0, 0, 4, 0],
    ];
    for v in headers.iter().flatten() {
        b.extend(v.to_le_bytes());
    }
    b
}
