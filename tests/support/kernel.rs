//! Builds a kernel's objects in memory, byte by byte, in every layout that was measured. It states the layouts for
//! itself, as numbers, and uses nothing of the crate: a mistake in the crate's layouts must show.

use std::collections::BTreeMap;

/// Where the members of a thread's control block are, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub name: &'static str,
    /// Size of a pointer and of a ULONG.
    pub pointer: usize,
    pub word: usize,
    pub size: usize,
    pub run_count: usize,
    pub stack_ptr: usize,
    pub stack_start: usize,
    pub stack_end: usize,
    pub stack_size: usize,
    pub thread_name: usize,
    pub priority: usize,
    pub state: usize,
    pub entry: usize,
    pub timer_list: usize,
    pub control: usize,
    pub created_next: usize,
    pub created_prev: usize,
    pub own_priority: usize,
    pub owned_list: usize,
}

#[rustfmt::skip]
pub const LAYOUTS: [Layout; 7] = [
    Layout { name: "Cortex-M", pointer: 4, word: 4, size: 180, run_count: 4, stack_ptr: 8, stack_start: 12, stack_end: 16, stack_size: 20, thread_name: 40, priority: 44, state: 48, entry: 68, timer_list: 100, control: 108, created_next: 136, created_prev: 140, own_priority: 148, owned_list: 164 },
    Layout { name: "Cortex-A, 32-bit", pointer: 4, word: 4, size: 184, run_count: 4, stack_ptr: 8, stack_start: 12, stack_end: 16, stack_size: 20, thread_name: 40, priority: 44, state: 48, entry: 68, timer_list: 100, control: 108, created_next: 136, created_prev: 140, own_priority: 152, owned_list: 168 },
    Layout { name: "Linux, 32-bit", pointer: 4, word: 4, size: 212, run_count: 4, stack_ptr: 8, stack_start: 12, stack_end: 16, stack_size: 20, thread_name: 68, priority: 72, state: 76, entry: 96, timer_list: 128, control: 136, created_next: 168, created_prev: 172, own_priority: 180, owned_list: 196 },
    Layout { name: "RISC-V 64", pointer: 8, word: 8, size: 320, run_count: 8, stack_ptr: 16, stack_start: 24, stack_end: 32, stack_size: 40, thread_name: 80, priority: 88, state: 92, entry: 120, timer_list: 184, control: 200, created_next: 248, created_prev: 256, own_priority: 272, owned_list: 288 },
    Layout { name: "Cortex-A, 64-bit", pointer: 8, word: 4, size: 312, run_count: 4, stack_ptr: 8, stack_start: 16, stack_end: 24, stack_size: 32, thread_name: 64, priority: 72, state: 76, entry: 104, timer_list: 160, control: 184, created_next: 232, created_prev: 240, own_priority: 264, owned_list: 280 },
    Layout { name: "Linux x86-64", pointer: 8, word: 4, size: 360, run_count: 4, stack_ptr: 8, stack_start: 16, stack_end: 24, stack_size: 32, thread_name: 112, priority: 120, state: 124, entry: 152, timer_list: 208, control: 232, created_next: 288, created_prev: 296, own_priority: 312, owned_list: 328 },
    Layout { name: "8-byte ULONG", pointer: 8, word: 8, size: 376, run_count: 8, stack_ptr: 16, stack_start: 24, stack_end: 32, stack_size: 40, thread_name: 128, priority: 136, state: 140, entry: 168, timer_list: 232, control: 248, created_next: 304, created_prev: 312, own_priority: 328, owned_list: 344 },
];

/// One thread of the story.
#[derive(Clone, Debug)]
pub struct Thread {
    pub name: &'static str,
    pub state: u32,
    pub priority: u32,
    pub own_priority: u32,
    pub runs: u64,
    /// The object that it is suspended on, by name.
    pub on: Option<&'static str>,
    /// Bytes of its stack in use, and ever in use.
    pub used: usize,
    pub high: usize,
}

impl Thread {
    pub const fn new(name: &'static str, state: u32, priority: u32, runs: u64) -> Self {
        Self { name, state, priority, own_priority: priority, runs, on: None, used: 64, high: 96 }
    }
    pub const fn on(mut self, object: &'static str) -> Self {
        self.on = Some(object);
        self
    }
}

pub const STACK: usize = 256;

/// A kernel to be.
pub struct Builder {
    pub layout: Layout,
    pub big: bool,
    pub base: u64,
    pub threads: Vec<Thread>,
    /// The name of the one that runs.
    pub current: Option<&'static str>,
    /// Whether stacks are filled with 0xEF.
    pub fill: bool,
    bytes: Vec<u8>,
    pub at: BTreeMap<String, u64>,
}

impl Builder {
    /// The usual story: an inversion that inheritance mends, a queue that is empty, flags that do not come.
    pub fn new(layout: Layout, big: bool) -> Self {
        let mut low = Thread::new("low", 0, 4, 9);
        low.own_priority = 20;
        let threads = vec![
            Thread::new("System Timer Thread", 3, 0, 41),
            Thread::new("watcher", 0, 1, 7),
            Thread::new("high", 13, 4, 3).on("bus"),
            low,
            Thread::new("reader", 5, 8, 5).on("inbox"),
            Thread::new("flagged", 7, 9, 2).on("ready flags"),
            Thread::new("asleep", 4, 10, 100),
            Thread::new("done", 1, 11, 1),
        ];
        let base = if layout.pointer == 8 { 0x0000_5555_4000_0000 } else { 0x2000_0000 };
        Self { layout, big, base, threads, current: Some("watcher"), fill: true, bytes: vec![], at: BTreeMap::new() }
    }

    fn place(&mut self, name: &str, len: usize) -> u64 {
        let start = self.bytes.len().next_multiple_of(8);
        self.bytes.resize(start + len, 0);
        let address = self.base + start as u64;
        self.at.insert(name.to_owned(), address);
        address
    }

    pub fn put(&mut self, address: u64, value: u64, len: usize) {
        let at = (address - self.base) as usize;
        let bytes = value.to_le_bytes();
        let place = &mut self.bytes[at..at + len];
        place.copy_from_slice(&bytes[..len]);
        if self.big {
            place.reverse();
        }
    }

    fn text(&mut self, text: &str) -> u64 {
        let address = self.place(&format!("text {text}"), text.len() + 1);
        let at = (address - self.base) as usize;
        self.bytes[at..at + text.len()].copy_from_slice(text.as_bytes());
        address
    }

    /// A control block of members one after the other, each aligned to its size: `p` pointer, `w` ULONG, `i` int.
    fn record(&mut self, address: u64, members: &[(char, u64)]) {
        let mut offset = 0;
        for (kind, value) in members {
            let len = match kind {
                'p' => self.layout.pointer,
                'w' => self.layout.word,
                _ => 4,
            };
            offset = usize::next_multiple_of(offset, len);
            self.put(address + offset as u64, *value, len);
            offset += len;
        }
    }

    pub fn thread(&self, name: &str) -> u64 {
        self.at[&format!("thread {name}")]
    }

    /// Writes everything; damage is done afterwards, with [`Builder::put`].
    pub fn build(mut self) -> Self {
        let l = self.layout;
        for name in [
            "_tx_thread_created_ptr",
            "_tx_thread_created_count",
            "_tx_thread_current_ptr",
            "_tx_thread_system_state",
            "_tx_mutex_created_ptr",
            "_tx_mutex_created_count",
            "_tx_queue_created_ptr",
            "_tx_queue_created_count",
            "_tx_event_flags_created_ptr",
            "_tx_event_flags_created_count",
        ] {
            self.place(name, 8);
        }
        for object in ["bus", "inbox", "ready flags"] {
            self.place(object, 160);
        }
        let threads = self.threads.clone();
        for thread in &threads {
            self.place(&format!("thread {}", thread.name), l.size);
            self.place(&format!("stack {}", thread.name), STACK);
        }
        for (i, thread) in threads.iter().enumerate() {
            let at = self.thread(thread.name);
            let stack = self.at[&format!("stack {}", thread.name)];
            let next = self.thread(threads[(i + 1) % threads.len()].name);
            let prev = self.thread(threads[(i + threads.len() - 1) % threads.len()].name);
            let name = self.text(thread.name);
            if self.fill {
                for n in 0..STACK - thread.high {
                    self.put(stack + n as u64, 0xEF, 1);
                }
            }
            for n in STACK - thread.high..STACK {
                self.put(stack + n as u64, 0x5A, 1);
            }
            let (p, w) = (l.pointer, l.word);
            for (offset, value, len) in [
                (0, 0x5448_5244, w),
                (l.run_count, thread.runs, w),
                (l.stack_ptr, stack + (STACK - thread.used) as u64, p),
                (l.stack_start, stack, p),
                (l.stack_end, stack + STACK as u64 - 1, p),
                (l.stack_size, STACK as u64, w),
                (l.thread_name, name, p),
                (l.priority, thread.priority.into(), 4),
                (l.state, thread.state.into(), 4),
                (l.entry, 0x1000 + 0x10 * i as u64, p),
                (l.created_next, next, p),
                (l.created_prev, prev, p),
                (l.own_priority, thread.own_priority.into(), 4),
                (l.own_priority + 4, thread.own_priority.into(), 4),
                (
                    l.own_priority + 8,
                    if thread.own_priority == thread.priority { 32 } else { thread.priority.into() },
                    4,
                ),
            ] {
                self.put(at + offset as u64, value, len);
            }
            if let Some(on) = thread.on {
                let object = self.at[on];
                self.put(at + l.control as u64, object, p);
                // The one thread in the list of its object: next and previous are itself.
                self.put(at + (l.control + p) as u64, at, p);
                self.put(at + (l.control + 2 * p) as u64, at, p);
                if thread.state == 7 {
                    // What it wants, and all of it.
                    let info = l.control + 3 * p;
                    self.put(at + info as u64, 0x6, w);
                    let option = (info + w).next_multiple_of(p) + p;
                    self.put(at + option as u64, 2, 4);
                }
            }
        }
        self.objects(&threads);
        let first = threads.first().map_or(0, |t| self.thread(t.name));
        let global = |s: &Self, name: &str| s.at[name];
        let count = threads.len() as u64;
        self.put(global(&self, "_tx_thread_created_ptr"), first, l.pointer);
        self.put(global(&self, "_tx_thread_created_count"), count, l.word);
        let current = self.current.map_or(0, |name| self.thread(name));
        self.put(global(&self, "_tx_thread_current_ptr"), current, l.pointer);
        self
    }

    fn objects(&mut self, threads: &[Thread]) {
        let l = self.layout;
        let waiting = |s: &Self, object: &str| {
            let first = threads.iter().find(|t| t.on == Some(object) && matches!(t.state, 5..=9 | 13));
            first.map_or((0, 0), |t| (s.thread(t.name), 1))
        };
        let owner = threads.iter().find(|t| t.name == "low").map_or(0, |t| self.thread(t.name));
        for (object, head, count, id) in [
            ("bus", "_tx_mutex_created_ptr", "_tx_mutex_created_count", 0x4D55_5445),
            ("inbox", "_tx_queue_created_ptr", "_tx_queue_created_count", 0x5155_4555),
            ("ready flags", "_tx_event_flags_created_ptr", "_tx_event_flags_created_count", 0x4456_444E),
        ] {
            let (at, name) = (self.at[object], self.text(object));
            let (list, waiters) = waiting(self, object);
            let mut members = vec![('w', id), ('p', name)];
            match object {
                "bus" => members.extend([('i', u64::from(owner != 0)), ('p', owner), ('i', 1), ('i', 20)]),
                "inbox" => {
                    members.extend([('i', 1), ('i', 16), ('i', 0), ('i', 16)]);
                    members.extend([('p', 0), ('p', 0), ('p', 0), ('p', 0)]);
                }
                _ => members.extend([('w', 0x1), ('i', 0)]),
            }
            members.extend([('p', list), ('i', waiters), ('p', at), ('p', at)]);
            self.record(at, &members);
            self.put(self.at[head], at, l.pointer);
            self.put(self.at[count], 1, l.word);
        }
        if owner != 0 {
            let bus = self.at["bus"];
            self.put(owner + (l.own_priority + 12) as u64, 1, 4);
            self.put(owner + l.owned_list as u64, bus, l.pointer);
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.clone()
    }

    /// `NAME=ADDRESS` of the kernel's variables.
    pub fn symbols(&self) -> Vec<(String, u64)> {
        self.at.iter().filter(|(name, _)| name.starts_with("_tx_")).map(|(n, a)| (n.clone(), *a)).collect()
    }
}
