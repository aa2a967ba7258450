//! Where the members of a control block are: as debug information declares them, else as C lays them out.
//!
//! The members and their order are those of ThreadX 6; a port adds members of its own in three places of a thread's
//! control block. The sizes and offsets that this gives were measured on real kernels (the test below states them).

use super::port::{Additions, EVERY, LINUX_WIDE, PLAIN, PORTS};
use crate::abi::{Addr, Endian, Width};
use crate::sym::Symbols;

/// What a word is on this target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Byte order.
    pub endian: Endian,
    /// Size of an address.
    pub pointer: Width,
    /// Size of the kernel's `ULONG`.
    pub word: Width,
}

/// The type of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    /// A pointer.
    Pointer,
    /// The kernel's `ULONG`.
    Word,
    /// A C `unsigned int`.
    Int,
    /// Bytes of the port's own, aligned as a pointer; 0 is nothing.
    Port(u64),
}

use Type::{Int, Pointer, Port, Word};

impl Type {
    const fn size(self, shape: Shape) -> u64 {
        match self {
            Pointer => shape.pointer.size(),
            Word => shape.word.size(),
            Int => 4,
            Port(bytes) => bytes,
        }
    }

    const fn align(self, shape: Shape) -> u64 {
        match self {
            // A port's single `ULONG` needs no more than itself.
            Port(4) | Int => 4,
            Port(_) | Pointer => shape.pointer.size(),
            Word => shape.word.size(),
        }
    }
}

/// Members one after the other, each with its name; a port's bytes have none.
pub(super) type Members = Vec<(&'static str, Type)>;

/// A timer within something: its members, under `prefix`.
const TIMER: [&str; 8] = [
    "tx_timer_internal_remaining_ticks",
    "tx_timer_internal_re_initialize_ticks",
    "tx_timer_internal_timeout_function",
    "tx_timer_internal_timeout_param",
    "tx_timer_internal_active_next",
    "tx_timer_internal_active_previous",
    "tx_timer_internal_list_head",
    "",
];

fn timer(port: Additions) -> Members {
    let types = [Word, Word, Pointer, Word, Pointer, Pointer, Pointer, Port(port.timer)];
    TIMER.into_iter().zip(types).collect()
}

/// Members from the start up to and with the links of the created list.
fn thread_head(port: Additions) -> Members {
    let mut all = vec![
        ("tx_thread_id", Word),
        ("tx_thread_run_count", Word),
        ("tx_thread_stack_ptr", Pointer),
        ("tx_thread_stack_start", Pointer),
        ("tx_thread_stack_end", Pointer),
        ("tx_thread_stack_size", Word),
        ("tx_thread_time_slice", Word),
        ("tx_thread_new_time_slice", Word),
        ("tx_thread_ready_next", Pointer),
        ("tx_thread_ready_previous", Pointer),
        ("tx_thread_linux_thread_id", if port.pthread { Pointer } else { Port(0) }),
        ("", Port(port.before_name)),
        ("tx_thread_name", Pointer),
        ("tx_thread_priority", Int),
        ("tx_thread_state", Int),
        ("tx_thread_delayed_suspend", Int),
        ("tx_thread_suspending", Int),
        ("tx_thread_preempt_threshold", Int),
        ("tx_thread_schedule_hook", Pointer),
        ("tx_thread_entry", Pointer),
        ("tx_thread_entry_parameter", Word),
    ];
    all.extend(timer(port));
    all.extend([
        ("tx_thread_suspend_cleanup", Pointer),
        ("tx_thread_suspend_control_block", Pointer),
        ("tx_thread_suspended_next", Pointer),
        ("tx_thread_suspended_previous", Pointer),
        ("tx_thread_suspend_info", Word),
        ("tx_thread_additional_suspend_info", Pointer),
        ("tx_thread_suspend_option", Int),
        ("tx_thread_suspend_status", Int),
        ("", Port(port.before_created)),
        ("tx_thread_created_next", Pointer),
        ("tx_thread_created_previous", Pointer),
    ]);
    all
}

/// Members after the links of the created list: those of default options.
fn thread_tail(port: Additions) -> Members {
    let mut all = port.after_created.to_vec();
    all.extend([
        ("tx_thread_filex_ptr", Pointer),
        ("tx_thread_user_priority", Int),
        ("tx_thread_user_preempt_threshold", Int),
        ("tx_thread_inherit_priority", Int),
        ("tx_thread_owned_mutex_count", Int),
        ("tx_thread_owned_mutex_list", Pointer),
        ("tx_thread_stack_highest_ptr", Pointer),
        ("tx_thread_entry_exit_notify", Pointer),
        ("tx_thread_suspension_sequence", Word),
    ]);
    all
}

/// The kinds of objects beside threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Mutex.
    Mutex,
    /// Message queue.
    Queue,
    /// Counting semaphore.
    Semaphore,
    /// Event flags group.
    EventFlags,
    /// Pool of blocks of one size.
    BlockPool,
    /// Pool of bytes.
    BytePool,
    /// Application timer.
    Timer,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Mutex, Self::Queue, Self::Semaphore, Self::EventFlags, Self::BlockPool, Self::BytePool, Self::Timer];

    const fn facts(self) -> Facts {
        match self {
            Self::Mutex => Facts::new("mutex", "mutexes", "tx_mutex", 0x4D55_5445, 13),
            Self::Queue => Facts::new("queue", "queues", "tx_queue", 0x5155_4555, 5),
            Self::Semaphore => Facts::new("semaphore", "semaphores", "tx_semaphore", 0x5345_4D41, 6),
            Self::EventFlags => Facts::new("event flags", "event_flags", "tx_event_flags_group", 0x4456_444E, 7),
            Self::BlockPool => Facts::new("block pool", "block_pools", "tx_block_pool", 0x424C_4F43, 8),
            Self::BytePool => Facts::new("byte pool", "byte_pools", "tx_byte_pool", 0x4259_5445, 9),
            // No thread waits for one.
            Self::Timer => Facts::new("timer", "timers", "tx_timer", 0x4154_494D, u32::MAX),
        }
    }

    /// Its name, as in the registry of a trace.
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// With its article: `a mutex`.
    pub const fn with_article(self) -> &'static str {
        match self {
            Self::Mutex => "a mutex",
            Self::Queue => "a queue",
            Self::Semaphore => "a semaphore",
            Self::EventFlags => "an event flags group",
            Self::BlockPool => "a block pool",
            Self::BytePool => "a byte pool",
            Self::Timer => "a timer",
        }
    }

    /// The report that lists them.
    pub(super) const fn report(self) -> &'static str {
        self.facts().report
    }

    /// The word that its control block begins with.
    pub const fn id(self) -> u64 {
        self.facts().id
    }

    /// The kind whose control blocks begin with this word.
    pub fn of_id(id: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.id() == id)
    }

    /// What a waiting thread's state says it waits for.
    pub fn of_state(state: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.facts().state == state)
    }

    /// What the names of the variables of the created list begin with: `_ptr` is its head, `_count` its length.
    pub fn created(self) -> String {
        // The variables of `tx_event_flags_group` are called `_tx_event_flags_...`.
        format!("_{}_created", self.facts().stem.trim_end_matches("_group"))
    }

    /// The variable that holds the head of the created list.
    pub fn head(self) -> String {
        format!("{}_ptr", self.created())
    }

    /// The C type.
    fn type_name(self) -> String {
        format!("{}_STRUCT", self.facts().stem.to_ascii_uppercase())
    }

    /// Members up to and with the links of the created list, and of a mutex those after it; without the stem.
    fn members(self, port: Additions) -> Members {
        let mut all = vec![("id", Word), ("name", Pointer)];
        match self {
            Self::Mutex => {
                all.extend([("ownership_count", Int), ("owner", Pointer), ("inherit", Int), ("original_priority", Int)])
            }
            Self::Queue => all.extend([
                ("message_size", Int),
                ("capacity", Int),
                ("enqueued", Int),
                ("available_storage", Int),
                ("start", Pointer),
                ("end", Pointer),
                ("read", Pointer),
                ("write", Pointer),
            ]),
            Self::Semaphore => all.push(("count", Word)),
            Self::EventFlags => all.extend([("current", Word), ("reset_search", Int)]),
            Self::BlockPool => all.extend([
                ("available", Int),
                ("total", Int),
                ("available_list", Pointer),
                ("start", Pointer),
                ("size", Word),
                ("block_size", Int),
            ]),
            Self::BytePool => all.extend([
                ("available", Word),
                ("fragments", Int),
                ("list", Pointer),
                ("search", Pointer),
                ("start", Pointer),
                ("size", Word),
                ("owner", Pointer),
            ]),
            Self::Timer => all.extend(timer(port)),
        }
        if self != Self::Timer {
            all.extend([("suspension_list", Pointer), ("suspended_count", Int)]);
        }
        all.extend([("created_next", Pointer), ("created_previous", Pointer)]);
        if self == Self::Mutex {
            all.extend([("highest_priority_waiting", Int), ("owned_next", Pointer), ("owned_previous", Pointer)]);
        }
        all
    }
}

/// What distinguishes a kind.
struct Facts {
    name: &'static str,
    report: &'static str,
    /// What the names of its type and of its members begin with.
    stem: &'static str,
    id: u64,
    /// The state of a thread that waits for one.
    state: u32,
}

impl Facts {
    const fn new(name: &'static str, report: &'static str, stem: &'static str, id: u64, state: u32) -> Self {
        Self { name, report, stem, id, state }
    }
}

/// One member of a struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    name: &'static str,
    offset: u64,
    size: Width,
}

impl Member {
    /// The address after its last byte, from the start of the struct.
    fn end(self) -> Option<u64> {
        self.offset.checked_add(self.size.size())
    }

    /// The same member; `None` where debug information puts it past the end of the address space.
    fn placed(self) -> Option<Self> {
        self.end().map(|_| self)
    }
}

/// The members of a struct that are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Struct {
    members: Vec<Member>,
    /// Bytes that hold all of them.
    pub len: u64,
}

/// Members laid out as a C compiler does.
#[allow(clippy::arithmetic_side_effects, reason = "sizes of a hundred members, from the tables of this file")]
fn lay_out(members: &[(&'static str, Type)], shape: Shape) -> Struct {
    let (mut at, mut out) = (0_u64, Vec::new());
    for (name, of) in members.iter().filter(|(_, of)| *of != Port(0)) {
        let offset = at.next_multiple_of(of.align(shape));
        let size = of.size(shape);
        at = offset + size;
        if let Some(size) = Width::from_bytes(size).filter(|_| !name.is_empty()) {
            out.push(Member { name, offset, size });
        }
    }
    Struct { members: out, len: at }
}

impl Struct {
    fn of(members: Vec<Member>) -> Self {
        let len = members.iter().filter_map(|m| m.end()).max().unwrap_or(0);
        Self { members, len }
    }

    /// Where a member is, and how wide it is.
    fn member(&self, name: &str) -> Option<Member> {
        self.members.iter().find(|m| m.name == name).copied()
    }

    /// Where a member begins.
    pub fn offset(&self, name: &str) -> Option<u64> {
        self.member(name).map(|m| m.offset)
    }

    /// The value of a member in the bytes of a control block.
    pub fn get(&self, bytes: &[u8], endian: Endian, name: &str) -> Option<u64> {
        let member = self.member(name)?;
        endian.word(member.size, bytes, usize::try_from(member.offset).ok()?)
    }

    /// Leaves out members from an offset on: where they are is not known.
    fn without(&mut self, from: u64) {
        self.members.retain(|m| m.offset < from);
        *self = Self::of(std::mem::take(&mut self.members));
    }
}

/// Where everything is in one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// What a word is.
    pub shape: Shape,
    /// How it is known, in words.
    pub how: String,
    /// The members of a thread's control block.
    pub thread: Struct,
    /// Those of the other objects, in the order of [`Kind::ALL`]; without the stem of their names.
    objects: Vec<Struct>,
    /// Where the tail of a thread begins that default options have; `None` with debug information.
    tail: Option<u64>,
}

impl Layout {
    /// As the debug information of the program declares it; `None` where that lacks members that are needed.
    pub fn declared(symbols: &dyn Symbols, endian: Endian, pointer: Width) -> Option<Self> {
        const THREAD: &str = "TX_THREAD_STRUCT";
        // The second member follows a ULONG.
        let word = symbols.member_offset(THREAD, "tx_thread_run_count").and_then(Width::from_bytes)?;
        let shape = Shape { endian, pointer, word };
        let inner = |outer: u64, name: &str| {
            symbols.member_offset("TX_TIMER_INTERNAL_STRUCT", name).and_then(|o| o.checked_add(outer))
        };
        let collect = |members: Members, find: &dyn Fn(&str) -> Option<u64>| {
            let known = members.into_iter().filter(|(name, _)| !name.is_empty()).filter_map(|(name, of)| {
                Member { name, offset: find(name)?, size: Width::from_bytes(of.size(shape))? }.placed()
            });
            Struct::of(known.collect())
        };
        let timer_at = symbols.member_offset(THREAD, "tx_thread_timer");
        let mut members = thread_head(Additions { pthread: true, ..PLAIN });
        members.extend(thread_tail(PLAIN));
        members.extend(EVERY);
        let thread = collect(members, &|name| match timer_at {
            Some(at) if TIMER.contains(&name) => inner(at, name),
            _ => symbols.member_offset(THREAD, name),
        });
        for needed in ["tx_thread_id", "tx_thread_created_next", "tx_thread_created_previous", "tx_thread_state"] {
            thread.member(needed)?;
        }
        let objects = Kind::ALL.into_iter().map(|kind| {
            let of = kind.type_name();
            let timer_at = symbols.member_offset(&of, "tx_timer_internal");
            let declared = collect(kind.members(PLAIN), &|name| match timer_at {
                Some(at) if TIMER.contains(&name) => inner(at, name),
                _ => symbols.member_offset(&of, &format!("{}_{name}", kind.facts().stem)),
            });
            // A kind that the program's debug information leaves out is laid out as C does.
            if declared.members.is_empty() { lay_out(&kind.members(PLAIN), shape) } else { declared }
        });
        let objects = objects.collect();
        Some(Self { shape, how: "the ELF's debug information".to_owned(), thread, objects, tail: None })
    }

    /// Every layout that was measured, for these byte orders and widths (`None`: any).
    pub fn measured(endian: Option<Endian>, pointer: Option<Width>) -> Vec<Self> {
        let orders = [Endian::Little, Endian::Big].into_iter().filter(|e| endian.is_none_or(|want| want == *e));
        let ports = PORTS.into_iter().chain([LINUX_WIDE]);
        let all = orders.flat_map(|e| ports.clone().map(move |(p, w, port)| (e, p, w, port)));
        let wanted = all.filter(|(_, p, ..)| pointer.is_none_or(|want| want == *p));
        wanted.map(|(endian, pointer, word, port)| Self::of(Shape { endian, pointer, word }, port)).collect()
    }

    fn of(shape: Shape, port: Additions) -> Self {
        let mut members = thread_head(port);
        let tail = lay_out(&members, shape).len;
        members.extend(thread_tail(port));
        Self {
            shape,
            how: format!("the layout of the ports for {}", port.name),
            thread: lay_out(&members, shape),
            objects: Kind::ALL.into_iter().map(|kind| lay_out(&kind.members(port), shape)).collect(),
            tail: Some(tail),
        }
    }

    /// The members of an object's control block.
    pub fn object(&self, kind: Kind) -> Option<&Struct> {
        let index = Kind::ALL.into_iter().position(|k| k == kind)?;
        self.objects.get(index)
    }

    /// Forgets the members after a thread's created list: they are somewhere else.
    pub(super) fn drop_tail(&mut self) {
        if let Some(tail) = self.tail {
            self.thread.without(tail);
        }
    }

    /// True where the members up to the created list are as in `other`.
    pub(super) fn same_head(&self, other: &Self) -> bool {
        let head = |l: &Self| {
            let tail = l.tail.unwrap_or(u64::MAX);
            l.thread.members.iter().filter(|m| m.offset < tail).copied().collect::<Vec<_>>()
        };
        self.shape == other.shape && head(self) == head(other)
    }

    /// The bytes of a control block up to and with the links of the created list.
    pub fn head_len(&self) -> u64 {
        self.tail.unwrap_or(self.thread.len)
    }

    /// True where it was found by the lists, without debug information.
    pub const fn is_inferred(&self) -> bool {
        self.tail.is_some()
    }

    /// Every member that is known, as debug information has it: type, member, offset.
    pub fn members(&self) -> Vec<(String, String, u64)> {
        const TIMER_TYPE: &str = "TX_TIMER_INTERNAL_STRUCT";
        let mut all = Vec::new();
        let mut add = |of: &str, stem: &str, members: &[Member], timer: &str| {
            let outer = members.iter().find(|m| TIMER.first() == Some(&m.name)).map(|m| m.offset);
            for member in members {
                let Some(outer) = outer.filter(|_| TIMER.contains(&member.name)) else {
                    all.push((of.to_owned(), format!("{stem}{}", member.name), member.offset));
                    continue;
                };
                // A timer is a struct of its own.
                let inner = member.offset.checked_sub(outer);
                all.extend(inner.map(|inner| (TIMER_TYPE.to_owned(), member.name.to_owned(), inner)));
                if member.offset == outer {
                    all.push((of.to_owned(), timer.to_owned(), outer));
                }
            }
        };
        add("TX_THREAD_STRUCT", "", &self.thread.members, "tx_thread_timer");
        for (kind, of) in Kind::ALL.into_iter().zip(&self.objects) {
            add(&kind.type_name(), &format!("{}_", kind.facts().stem), &of.members, "tx_timer_internal");
        }
        all.sort();
        all.dedup();
        all
    }

    /// An address in the target's width, at `offset` from another.
    pub fn address(&self, base: Addr, offset: u64) -> Addr {
        self.shape.pointer.moved(base, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measured from the debug information of real kernels: size, `run_count`, `stack_ptr`, `stack_start`,
    /// `stack_end`, `stack_size`, `time_slice`, name, priority, state, entry, `created_next`, `created_prev`.
    const MEASURED: [(&str, [u64; 13]); 7] = [
        ("Cortex-M and RISC-V 32", [180, 4, 8, 12, 16, 20, 24, 40, 44, 48, 68, 136, 140]),
        ("Cortex-A, 32-bit", [184, 4, 8, 12, 16, 20, 24, 40, 44, 48, 68, 136, 140]),
        ("RISC-V 64", [320, 8, 16, 24, 32, 40, 48, 80, 88, 92, 120, 248, 256]),
        ("Cortex-A, 64-bit", [312, 4, 8, 16, 24, 32, 36, 64, 72, 76, 104, 232, 240]),
        ("Linux x86-64", [360, 4, 8, 16, 24, 32, 36, 112, 120, 124, 152, 288, 296]),
        ("Linux, 32-bit", [212, 4, 8, 12, 16, 20, 24, 68, 72, 76, 96, 168, 172]),
        ("Linux, 64-bit with 8-byte ULONG", [376, 8, 16, 24, 32, 40, 48, 128, 136, 140, 168, 304, 312]),
    ];

    #[test]
    fn c_lays_threads_out_as_they_were_measured() {
        let all = Layout::measured(Some(Endian::Little), None);
        assert_eq!(all.len(), MEASURED.len());
        for (name, want) in MEASURED {
            let layout = all.iter().find(|l| l.how == format!("the layout of the ports for {name}")).unwrap();
            let size = layout.thread.len.next_multiple_of(layout.shape.pointer.size());
            let names = [
                "run_count",
                "stack_ptr",
                "stack_start",
                "stack_end",
                "stack_size",
                "time_slice",
                "name",
                "priority",
                "state",
                "entry",
                "created_next",
                "created_previous",
            ];
            let offset = |n: &&str| layout.thread.member(&format!("tx_thread_{n}")).unwrap().offset;
            let got: Vec<u64> = std::iter::once(size).chain(names.iter().map(offset)).collect();
            assert_eq!(got, want, "{name}");
        }
    }
}
