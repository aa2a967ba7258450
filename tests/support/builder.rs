//! Builds ThreadX trace buffers byte by byte. It states the layout for itself, from the reference, and uses nothing of
//! the crate: a mistake in the crate's constants must show.

/// One trace entry as the kernel stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub context: u64,
    pub priority: u64,
    pub id: u64,
    pub stamp: u64,
    pub info: [u64; 4],
}

impl Entry {
    pub fn thread(address: u64, priority: u64, id: u64, stamp: u64, info: [u64; 4]) -> Self {
        Self { context: address, priority: 0x8000_0000 | priority << 16 | priority, id, stamp, info }
    }
    pub fn isr(interrupted: u64, id: u64, stamp: u64, info: [u64; 4]) -> Self {
        Self { context: 0xFFFF_FFFF, priority: interrupted, id, stamp, info }
    }
    pub fn init(id: u64, stamp: u64, info: [u64; 4]) -> Self {
        Self { context: 0xF0F0_F0F0, priority: 0, id, stamp, info }
    }
    pub const UNUSED: Self = Self { context: 0, priority: 0xDEAD, id: 0xDEAD, stamp: 0xDEAD, info: [0xDEAD; 4] };
}

/// One registry entry.
#[derive(Clone, Debug)]
pub struct Registered {
    pub available: u8,
    pub kind: u8,
    pub priority: Option<u16>,
    pub pointer: u64,
    pub params: [u64; 2],
    pub name: Vec<u8>,
}

impl Registered {
    pub fn new(kind: u8, pointer: u64, name: &str) -> Self {
        Self { available: 0, kind, priority: None, pointer, params: [0, 0], name: name.into() }
    }
}

/// A buffer in the making.
#[derive(Clone, Debug)]
pub struct Buffer {
    pub wide: bool,
    pub big: bool,
    pub base: u64,
    pub mask: u64,
    pub name_size: u16,
    pub objects: Vec<Registered>,
    /// Slots in memory order.
    pub slots: Vec<Entry>,
    /// Slot of the current pointer.
    pub current: usize,
    /// Unused bytes behind the ring.
    pub spare: usize,
}

impl Buffer {
    pub fn new(base: u64) -> Self {
        Self {
            wide: false,
            big: false,
            base,
            mask: 0xFFFF_FFFF,
            name_size: 32,
            objects: Vec::new(),
            slots: Vec::new(),
            current: 0,
            spare: 0,
        }
    }

    /// Fills a ring of `capacity` slots with events in the order in which they happened, as the kernel would.
    pub fn record(mut self, capacity: usize, events: &[Entry]) -> Self {
        self.slots = vec![Entry::UNUSED; capacity];
        for (i, e) in events.iter().enumerate() {
            self.slots[i % capacity] = *e;
        }
        self.current = events.len() % capacity;
        self
    }

    pub fn header_size(&self) -> u64 {
        if self.wide { 96 } else { 48 }
    }
    pub fn entry_size(&self) -> u64 {
        if self.wide { 64 } else { 32 }
    }
    pub fn object_size(&self) -> u64 {
        let word = if self.wide { 8 } else { 4 };
        ((if self.wide { 32 } else { 16 }) + u64::from(self.name_size)).div_ceil(word) * word
    }
    pub fn registry(&self) -> u64 {
        self.base + self.header_size()
    }
    pub fn ring(&self) -> u64 {
        self.registry() + self.object_size() * self.objects.len() as u64
    }
    pub fn end(&self) -> u64 {
        self.ring() + self.entry_size() * self.slots.len() as u64
    }
    pub fn current_address(&self) -> u64 {
        self.ring() + self.entry_size() * self.current as u64
    }

    fn word(&self, out: &mut Vec<u8>, value: u64) {
        match (self.wide, self.big) {
            (false, false) => out.extend((value as u32).to_le_bytes()),
            (false, true) => out.extend((value as u32).to_be_bytes()),
            (true, false) => out.extend(value.to_le_bytes()),
            (true, true) => out.extend(value.to_be_bytes()),
        }
    }
    fn half(&self, out: &mut Vec<u8>, value: u16) {
        out.extend(if self.big { value.to_be_bytes() } else { value.to_le_bytes() });
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut b = Vec::new();
        for v in [0x5458_5442, self.mask, self.base, self.registry()] {
            self.word(&mut b, v);
        }
        self.half(&mut b, 0);
        self.half(&mut b, self.name_size);
        if self.wide {
            b.extend([0; 4]);
        }
        for v in [self.ring(), self.ring(), self.end(), self.current_address(), 0xAAAA_AAAA, 0xBBBB_BBBB, 0xCCCC_CCCC] {
            self.word(&mut b, v);
        }
        assert_eq!(b.len() as u64, self.header_size());
        for o in &self.objects {
            let start = b.len() as u64;
            let (r1, r2) = o.priority.map_or((0, 0), |p| (0x80 | (p >> 8) as u8, p as u8));
            b.extend([o.available, o.kind, r1, r2]);
            if self.wide {
                b.extend([0; 4]);
            }
            for v in [o.pointer, o.params[0], o.params[1]] {
                self.word(&mut b, v);
            }
            let mut name = o.name.clone();
            name.resize(usize::from(self.name_size), 0);
            b.extend(name);
            b.resize((start + self.object_size()) as usize, 0x5A);
        }
        for e in &self.slots {
            for v in [e.context, e.priority, e.id, e.stamp, e.info[0], e.info[1], e.info[2], e.info[3]] {
                self.word(&mut b, v);
            }
        }
        b.resize(b.len() + self.spare, 0xA5);
        b
    }
}
