//! The kernel's objects out of memory: every layout, both byte orders, and lists that lead astray.

use crate::support::kernel::{Builder, LAYOUTS, Layout, STACK, Thread};
use std::cell::Cell;
use std::rc::Rc;
use tx_trace::abi::{Addr, Endian, Width};
use tx_trace::bytes::Bytes;
use tx_trace::code::Code;
use tx_trace::cpu::{Architecture, Frames};
use tx_trace::error::Error;
use tx_trace::kernel::{About, High, Kernel, Kind, Root, Stop};
use tx_trace::mem::cache::Cache;
use tx_trace::mem::segments::{Block, Segments};
use tx_trace::mem::{Memory, ReadError};
use tx_trace::sym::{Pairs, Symbol, Symbols};

const CORTEX_M: Layout = LAYOUTS[0];

fn read_bytes(base: u64, bytes: Vec<u8>, symbols: Vec<(String, u64)>) -> Result<Kernel, Error> {
    let mut memory = Segments::new(vec![Block::whole(base, Bytes::from(bytes))]);
    let symbols = Pairs::new(symbols);
    let about =
        About { symbols: &symbols, endian: None, pointer: None, names: &|_: Addr| None, registered: &[], stacks: true };
    Kernel::read(&mut memory, &about)
}

fn read(builder: &Builder) -> Result<Kernel, Error> {
    read_bytes(builder.base, builder.bytes(), builder.symbols())
}

/// Each thread's name with what it does.
fn doings(kernel: &Kernel) -> Vec<(String, String)> {
    kernel.threads.iter().map(|t| (t.label(), kernel.doing(t))).collect()
}

fn codes(kernel: &Kernel) -> Vec<&'static str> {
    kernel.issues.iter().map(|i| i.code.name()).collect()
}

const STORY: [(&str, &str); 8] = [
    ("System Timer Thread", "suspended"),
    ("watcher", "runs"),
    ("high", "mutex bus (low)"),
    ("low", "ready"),
    ("reader", "queue inbox, empty"),
    ("flagged", "event flags ready flags, wants 0x6, all"),
    ("asleep", "sleeps"),
    ("done", "completed"),
];

/// Every entry that a registry names was added, without an end.
#[test]
fn a_registry_added_objects_without_a_bound() {
    const QUEUES: u64 = 0x7000_0000;
    const LEN: u64 = 60;
    let builder = Builder::new(CORTEX_M, false).build();
    // Each alone in a list of its own: id, and behind eleven words the links.
    let mut bytes = vec![0; 6000 * LEN as usize];
    let at = |i: u64| QUEUES + i * LEN;
    for (i, queue) in bytes.chunks_exact_mut(LEN as usize).enumerate() {
        queue[..4].copy_from_slice(&0x5155_4555u32.to_le_bytes());
        queue[48..52].copy_from_slice(&(at(i as u64) as u32).to_le_bytes());
        queue[52..56].copy_from_slice(&(at(i as u64) as u32).to_le_bytes());
    }
    let blocks = [(builder.base, builder.bytes()), (QUEUES, bytes)];
    let mut memory = Segments::new(blocks.map(|(at, bytes)| Block::whole(at, Bytes::from(bytes))).into());
    let symbols = Pairs::new(builder.symbols());
    let registered: Vec<Root> = (0..6000).map(|i| Root { kind: Some(Kind::Queue), address: at(i) }).collect();
    let about = About {
        symbols: &symbols,
        endian: None,
        pointer: None,
        names: &|_: Addr| None,
        registered: &registered,
        stacks: false,
    };
    let kernel = Kernel::read(&mut memory, &about).unwrap();
    let queues = kernel.objects.iter().filter(|o| o.kind == Kind::Queue).count();
    assert_eq!(queues, 4096);
}

#[test]
fn every_layout_in_both_byte_orders_tells_the_story() {
    for layout in LAYOUTS {
        for big in [false, true] {
            let case = format!("{} big={big}", layout.name);
            let kernel = read(&Builder::new(layout, big).build()).unwrap_or_else(|e| panic!("{case}: {e:?}"));
            assert!(kernel.layout.how.contains(layout.name), "{case}: {}", kernel.layout.how);
            let story: Vec<_> = STORY.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
            assert_eq!(doings(&kernel), story, "{case}");
            let runs: Vec<_> = kernel.threads.iter().map(|t| t.run_count.unwrap()).collect();
            assert_eq!(runs, [41, 7, 3, 9, 5, 2, 100, 1], "{case}");
            let low = &kernel.threads[3];
            assert_eq!((low.priority, low.own_priority, low.inherits()), (Some(4), Some(20), Some(4)), "{case}");
            let bus = kernel.objects.iter().find(|o| o.name.as_deref() == Some("bus")).unwrap();
            assert_eq!((low.owns.clone(), bus.owner()), (vec![bus.address], Some(low.address)), "{case}");
            assert_eq!(bus.waiting, [kernel.threads[2].address], "{case}");
            for thread in &kernel.threads {
                assert_eq!(thread.stack.size, Some(STACK as u64), "{case}");
                assert_eq!(thread.stack.high, High::Bytes(96), "{case}");
                // What a running thread saved is stale.
                let used = if thread.label() == "watcher" { None } else { Some(64) };
                assert_eq!(thread.stack.used, used, "{case}: {}", thread.label());
            }
            assert_eq!(codes(&kernel), ["kernel-layout"], "{case}: {:?}", kernel.issues);
        }
    }
}

#[test]
fn one_thread_alone_leaves_open_what_lies_behind_the_created_list() {
    let mut builder = Builder::new(CORTEX_M, false);
    builder.threads.truncate(1);
    builder.current = None;
    let kernel = read(&builder.build()).unwrap();
    assert_eq!(doings(&kernel), [("System Timer Thread".to_owned(), "suspended".to_owned())]);
    assert_eq!((kernel.threads[0].priority, kernel.threads[0].own_priority), (Some(0), None));
    assert_eq!(codes(&kernel), ["kernel-layout", "kernel-layout-tail"]);
}

#[test]
fn two_layouts_that_fit_are_reported_and_not_guessed() {
    // The same list by the links of two layouts.
    let mut both = Builder::new(LAYOUTS[2], false).build();
    let threads: Vec<u64> = both.threads.iter().map(|t| both.thread(t.name)).collect();
    for (i, at) in threads.iter().enumerate() {
        let next = threads[(i + 1) % threads.len()];
        let prev = threads[(i + threads.len() - 1) % threads.len()];
        both.put(at + 136, next, 4);
        both.put(at + 140, prev, 4);
        // And nothing behind the links that would tell them apart.
        both.put(at + 196, 0, 4);
        both.put(at + 180, 99, 4);
    }
    let none = read(&both).unwrap_err();
    assert_eq!((none.code.name(), none.is_not_found()), ("kernel-layout", false));
    assert!(
        none.message.contains("Linux, 32-bit") && none.message.contains("which is right is not known"),
        "{}",
        none.message
    );
}

#[test]
fn a_list_that_leads_astray_is_reported_and_the_rest_is_found_from_behind() {
    let next = CORTEX_M.created_next as u64;
    for (what, value) in [("not in this memory", 0xDEAD_BEE0), ("instead of the id", 0x2000_0000)] {
        let mut builder = Builder::new(CORTEX_M, false).build();
        let high = builder.thread("high");
        builder.put(high + next, value, 4);
        let kernel = read(&builder).unwrap();
        let issue = kernel.issues.iter().find(|i| i.code == Code::KernelDamaged).unwrap();
        assert!(issue.message.contains(what) && issue.message.contains(&format!("{high:#x}")), "{}", issue.message);
        assert!(issue.message.contains("its backward pointers lead to 5 more"), "{}", issue.message);
        let names: Vec<_> = kernel.threads.iter().map(|t| t.label()).collect();
        assert_eq!(names, STORY.map(|(n, _)| n), "{what}");
    }
}

/// The head of the list is one control block of many: what it takes with it is itself.
#[test]
fn a_damaged_first_thread_does_not_hide_the_others() {
    for layout in LAYOUTS {
        let mut builder = Builder::new(layout, false).build();
        let first = builder.thread("System Timer Thread");
        builder.put(first, 0xDEAD_BEEF, layout.word);
        let kernel = read(&builder).unwrap_or_else(|e| panic!("{}: {e:?}", layout.name));
        let names: Vec<_> = kernel.threads.iter().map(|t| t.label()).collect();
        let rest: Vec<_> = STORY.iter().skip(1).map(|(n, _)| *n).collect();
        assert_eq!(names, rest, "{}", layout.name);
        let issue = kernel.issues.iter().find(|i| i.code == Code::KernelDamaged).unwrap();
        for part in ["instead of the id", "7 were found from other variables", "counts 8, 7 could be read"] {
            assert!(issue.message.contains(part), "{}: {}", layout.name, issue.message);
        }
    }
    // The same where the head itself was overwritten; a 0 there does not mean that there are none.
    for head in [0, 0xDEAD_BEE0] {
        let mut builder = Builder::new(CORTEX_M, false).build();
        let at = builder.at["_tx_thread_created_ptr"];
        builder.put(at, head, 4);
        let kernel = read(&builder).unwrap();
        assert_eq!(kernel.threads.len(), 8, "{head:#x}: {:?}", kernel.issues);
        let reported =
            kernel.issues.iter().any(|i| i.code == Code::KernelDamaged && i.message.contains("its head points to"));
        assert!(reported, "{:?}", kernel.issues);
    }
}

/// Two breaks, with the thread that runs between them.
#[test]
fn threads_between_two_breaks_are_found() {
    let mut builder = Builder::new(CORTEX_M, false);
    builder.current = Some("flagged");
    let mut builder = builder.build();
    for name in ["high", "asleep"] {
        let at = builder.thread(name);
        builder.put(at, 0, 4);
    }
    let kernel = read(&builder).unwrap();
    assert_eq!(kernel.threads.len(), 6, "{:?}", kernel.issues);
    assert!(kernel.issues.iter().any(|i| i.message.contains("3 were found from other")), "{:?}", kernel.issues);
}

#[test]
fn a_list_that_runs_into_itself_ends() {
    let mut builder = Builder::new(CORTEX_M, false).build();
    let (high, watcher) = (builder.thread("high"), builder.thread("watcher"));
    builder.put(high + CORTEX_M.created_next as u64, watcher, 4);
    let kernel = read(&builder).unwrap();
    assert!(kernel.issues.iter().any(|i| i.message.contains("points back to")), "{:?}", kernel.issues);
    assert_eq!(kernel.threads.len(), 8);
}

/// A pointer over some of the list to its head: it closes, and shows but a few.
#[test]
fn threads_that_the_list_skips_are_found() {
    let mut builder = Builder::new(CORTEX_M, false).build();
    let (high, first) = (builder.thread("high"), builder.thread("System Timer Thread"));
    builder.put(high + CORTEX_M.created_next as u64, first, 4);
    let kernel = read(&builder).unwrap();
    assert_eq!(kernel.threads.len(), 8, "{:?}", kernel.issues);
    let reported = kernel.issues.iter().any(|i| i.message.contains("5 that it skips were found backwards"));
    assert!(reported, "{:?}", kernel.issues);
    // Both ways round the same few: what is missing is counted.
    builder.put(first + CORTEX_M.created_prev as u64, high, 4);
    let kernel = read(&builder).unwrap();
    assert_eq!(kernel.threads.len(), 3);
    let reported = kernel.issues.iter().any(|i| i.message == "the list of threads has 3, the kernel counts 8");
    assert!(reported, "{:?}", kernel.issues);
}

/// Variables of another build lead into this memory by chance: what they lead to is more than they count.
#[test]
fn threads_of_another_build_are_not_taken_for_its_own() {
    let mut builder = Builder::new(CORTEX_M, false).build();
    let [head, count] = ["_tx_thread_created_ptr", "_tx_thread_created_count"].map(|name| builder.at[name]);
    builder.put(head, 0x2000_0000, 4);
    builder.put(count, 2, 4);
    assert_eq!(read(&builder).unwrap_err().code.name(), "kernel-layout");
}

#[test]
fn a_mutex_whose_owner_is_no_thread_is_reported() {
    let mut builder = Builder::new(CORTEX_M, false).build();
    let bus = builder.at["bus"];
    builder.put(bus + 12, 0x1234_5678, 4);
    let kernel = read(&builder).unwrap();
    let issue = kernel.issues.iter().find(|i| i.message.contains("owned by 0x12345678")).unwrap();
    assert_eq!((issue.code.name(), issue.place.address), ("kernel-damaged", Some(bus)));
}

#[test]
fn objects_and_threads_that_contradict_each_other_are_reported() {
    let mut builder = Builder::new(CORTEX_M, false).build();
    // The mutex forgets who waits for it.
    let bus = builder.at["bus"];
    builder.put(bus + 24, 0, 4);
    builder.put(bus + 28, 7, 4);
    // A thread waits for a queue that is none.
    let reader = builder.thread("reader");
    builder.put(reader + CORTEX_M.control as u64, 0x2000_0004, 4);
    // The running thread is none.
    let current = builder.at["_tx_thread_current_ptr"];
    builder.put(current, 0x2000_0008, 4);
    let kernel = read(&builder).unwrap();
    for sentence in [
        "it counts 7, and 1 thread says that it waits",
        "there is none there",
        "none of the threads in the created list",
    ] {
        let reported = kernel.issues.iter().any(|i| i.code == Code::KernelDamaged && i.message.contains(sentence));
        assert!(reported, "{sentence}: {:?}", kernel.issues);
    }
    let bus = kernel.objects.iter().find(|o| o.address == bus).unwrap();
    assert_eq!(bus.waiting.len(), 1, "what the threads say is shown");
}

#[test]
fn stacks_that_were_used_up_and_pointers_that_lie_elsewhere() {
    let mut builder = Builder::new(CORTEX_M, false);
    builder.threads[3].high = STACK;
    let mut builder = builder.build();
    let asleep = builder.thread("asleep");
    builder.put(asleep + CORTEX_M.stack_ptr as u64, 0x1000, 4);
    let kernel = read(&builder).unwrap();
    assert_eq!(kernel.threads[3].stack.high, High::Full);
    assert_eq!(kernel.threads[6].stack.used, None);
    let of = |code| kernel.issues.iter().find(|i| i.code.name() == code).map(|i| i.message.clone()).unwrap_or_default();
    assert!(of("stack-used-up").contains("low"), "{:?}", kernel.issues);
    assert!(of("stack-pointer-outside").contains("asleep") && of("stack-pointer-outside").contains("0x1000"));
    // A kernel that fills no stack tells nothing of the most that was used.
    let mut builder = Builder::new(CORTEX_M, false);
    builder.fill = false;
    let kernel = read(&builder.build()).unwrap();
    assert!(kernel.threads.iter().all(|t| t.stack.high == High::Unknown));
    assert!(!codes(&kernel).contains(&"stack-used-up"));
}

#[test]
fn priorities_that_no_kernel_has_were_printed_without_a_word() {
    let mut builder = Builder::new(CORTEX_M, false).build();
    for (name, value) in [("asleep", 0x2000_1234), ("done", 1024)] {
        builder.put(builder.thread(name) + CORTEX_M.priority as u64, value, 4);
    }
    let kernel = read(&builder).unwrap();
    let issue = kernel.issues.iter().find(|i| i.message.contains("priority or threshold")).unwrap();
    assert_eq!((issue.code.name(), issue.count), ("kernel-damaged", 2), "{issue:?}");
    assert!(issue.message.contains("no kernel has more than 1024"), "{issue:?}");
    // A sound one has none of it.
    let sound = read(&Builder::new(CORTEX_M, false).build()).unwrap();
    assert!(!sound.issues.iter().any(|i| i.message.contains("priority or threshold")), "{:?}", sound.issues);
}

#[test]
fn no_kernel_for_three_reasons() {
    let builder = Builder::new(CORTEX_M, false).build();
    // Nor is there any thread in memory that a search would find.
    let none = read_bytes(builder.base, vec![0x5A; 4096], Vec::new()).unwrap_err();
    assert_eq!((none.code.name(), none.is_not_found()), ("no-kernel-symbol", false));
    let none = read_bytes(0x3000_0000, builder.bytes(), builder.symbols()).unwrap_err();
    assert_eq!((none.code.name(), none.is_not_found()), ("unreadable", false));
    let mut builder = Builder::new(CORTEX_M, false).build();
    let head = builder.at["_tx_thread_created_ptr"];
    let [count, current] = ["_tx_thread_created_count", "_tx_thread_current_ptr"].map(|name| builder.at[name]);
    for variable in [head, count, current] {
        builder.put(variable, 0, 8);
    }
    let none = read(&builder).unwrap_err();
    assert_eq!((none.code.name(), none.is_not_found()), ("no-threads", true));
    // Nor does any other variable lead to one.
    builder.put(head, 0x2000_0000, 4);
    let none = read(&builder).unwrap_err();
    assert_eq!((none.code.name(), none.is_not_found()), ("kernel-layout", false));
    assert!(none.tried.iter().any(|t| t.contains("Cortex-M")), "{:?}", none.tried);
}

#[test]
fn a_thread_that_waits_no_more_is_not_reported_to_wait() {
    let mut builder = Builder::new(CORTEX_M, false);
    // As the kernel leaves it: the control block of a wait that is over.
    builder.threads[4] = Thread::new("reader", 0, 8, 5).on("inbox");
    let kernel = read(&builder.build()).unwrap();
    assert_eq!(kernel.doing(&kernel.threads[4]), "ready");
    assert!(kernel.objects.iter().all(|o| o.name.as_deref() != Some("inbox") || o.waiting.is_empty()));
}

#[test]
fn an_object_whose_list_cannot_be_read() {
    let builder = Builder::new(CORTEX_M, false).build();
    let mut symbols = builder.symbols();
    symbols.iter_mut().filter(|(n, _)| n == "_tx_mutex_created_ptr").for_each(|(_, a)| *a = 0x9000_0000);
    let kernel = read_bytes(builder.base, builder.bytes(), symbols).unwrap();
    assert!(codes(&kernel).contains(&"kernel-unreadable"));
    assert_eq!(kernel.threads.len(), 8);
}

/// Whatever stands in memory: it ends, and does not panic.
#[test]
fn damage_of_any_kind_is_survived() {
    let mut random = 0x1234_5678_9ABC_DEF1u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut read_anything = 0;
    for round in 0..400 {
        let layout = LAYOUTS[round % LAYOUTS.len()];
        let builder = Builder::new(layout, round % 2 == 0).build();
        let mut bytes = builder.bytes();
        for _ in 0..1 + next() % 24 {
            let at = (next() as usize) % bytes.len();
            bytes[at] = match next() % 4 {
                0 => 0,
                1 => 0xFF,
                _ => next() as u8,
            };
        }
        let cut = if next() % 3 == 0 { (next() as usize) % bytes.len() } else { bytes.len() };
        bytes.truncate(cut);
        if let Ok(kernel) = read_bytes(builder.base, bytes, builder.symbols()) {
            read_anything += 1;
            assert!(kernel.threads.len() <= 4096);
            let _ = tx_trace::kernel::reports(&kernel, tx_trace::kernel::Detail::Full);
            let _ = tx_trace::kernel::reports(&kernel, tx_trace::kernel::Detail::Summary { width: 80, all: true });
        }
    }
    assert!(read_anything > 100, "{read_anything}");
}

/// Each of these contradicts another member of its control block, and passed without a word.
#[test]
fn members_that_contradict_each_other_were_silent() {
    let sound = Builder::new(CORTEX_M, false).build();
    assert!(codes(&read(&sound).unwrap()).iter().all(|code| *code != "kernel-damaged"));
    let damaged = |of: u64, offset: u64, value: u64, at: u64, text: &str| {
        let mut builder = Builder::new(CORTEX_M, false).build();
        builder.put(of + offset, value, 4);
        let kernel = read(&builder).unwrap();
        let issues = kernel.issues.iter().filter(|i| i.code == Code::KernelDamaged);
        let found: Vec<_> = issues.filter(|i| i.message.contains(text)).collect();
        assert_eq!(found.len(), 1, "{text}: {:?}", kernel.issues);
        assert_eq!(found[0].place.address, Some(of + at), "{text}");
    };
    let thread = sound.thread("reader");
    let end = CORTEX_M.stack_end as u64;
    damaged(thread, end, 0x2000_0000, end, "and its control block says 0x20000000");
    // A queue: id, name, message size, capacity, enqueued, available.
    damaged(sound.at["inbox"], 16, 3, 16, "3 messages enqueued and room for");
    // A mutex: id, name, count, owner, inherit, priority, list, count of threads.
    damaged(sound.at["bus"], 12, 0, 8, "times, by no thread");
    damaged(sound.at["bus"], 28, 7, 28, "it counts 7");
}

/// A source that counts how often it is waited for: reads that travel together count once.
struct Slow(Segments, Rc<Cell<usize>>);

impl Memory for Slow {
    fn read(&mut self, addr: Addr, buf: &mut [u8]) -> Result<(), ReadError> {
        self.1.set(self.1.get() + 1);
        self.0.read(addr, buf)
    }

    fn read_batch(&mut self, wanted: &[(Addr, usize)]) -> Vec<Result<Bytes, ReadError>> {
        self.1.set(self.1.get() + 1);
        self.0.read_batch(wanted)
    }
}

/// Debug information of a thread's control block.
struct Described(Pairs, Layout);

impl Symbols for Described {
    fn lookup(&self, name: &str) -> Option<Symbol> {
        self.0.lookup(name)
    }

    fn member_offset(&self, of: &str, member: &str) -> Option<u64> {
        let l = &self.1;
        let offset = match member.strip_prefix("tx_thread_").filter(|_| of == "TX_THREAD_STRUCT")? {
            "id" => 0,
            "run_count" => l.run_count,
            "stack_ptr" => l.stack_ptr,
            "stack_start" => l.stack_start,
            "stack_end" => l.stack_end,
            "stack_size" => l.stack_size,
            "name" => l.thread_name,
            "priority" => l.priority,
            "state" => l.state,
            "entry" => l.entry,
            "suspend_control_block" => l.control,
            "suspended_next" => l.control + l.pointer,
            "suspended_previous" => l.control + 2 * l.pointer,
            "created_next" => l.created_next,
            "created_previous" => l.created_prev,
            _ => return None,
        };
        Some(offset as u64)
    }
}

/// Each list was followed on its own, entry by entry: 97 round trips on QEMU, and each thread cost three.
#[test]
fn twelve_threads_took_a_round_trip_for_every_pointer() {
    for (layout, width) in [(CORTEX_M, Width::W4), (LAYOUTS[3], Width::W8)] {
        let mut builder = Builder::new(layout, false);
        builder.threads.extend(["a", "b", "c", "d"].map(|name| Thread::new(name, 3, 12, 1)));
        let builder = builder.build();
        let symbols = Described(Pairs::new(builder.symbols()), layout);
        // Near the end of memory a name is read byte by byte.
        let bytes = [builder.bytes(), vec![0; 64]].concat();
        let whole = || Segments::new(vec![Block::whole(builder.base, Bytes::from(bytes.clone()))]);
        let trips = Rc::new(Cell::new(0));
        for registry in [false, true] {
            let addresses = builder.threads.iter().map(|t| builder.thread(t.name));
            let roots: Vec<Root> = addresses.map(|address| Root { kind: None, address }).collect();
            let about = About {
                symbols: &symbols,
                endian: Some(Endian::Little),
                pointer: Some(width),
                names: &|_: Addr| None,
                registered: if registry { &roots } else { &[] },
                stacks: true,
            };
            trips.set(0);
            let mut memory = Cache::new(Slow(whole(), Rc::clone(&trips)));
            let mut stop = Stop { frames: Some(Frames::new(Architecture::CortexM, Endian::Little)), ..Stop::default() };
            let mut kernel = Kernel::read(&mut memory, &about).unwrap();
            kernel.place(&mut memory, &mut stop, &symbols);
            assert_eq!(kernel.threads.len(), 12);
            assert!(trips.get() <= if registry { 5 } else { 12 }, "{} round trips, {registry}", trips.get());
            // The same is read from a source that remembers nothing.
            let mut plain = Kernel::read(&mut whole(), &about).unwrap();
            plain.place(&mut whole(), &mut stop, &symbols);
            assert_eq!((doings(&kernel), codes(&kernel)), (doings(&plain), codes(&plain)));
        }
    }
}
