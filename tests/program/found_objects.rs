//! Threads and objects that no variable of the kernel leads to: the trace's registry, threads that wait, and a search of
//! memory for the words that control blocks begin with.

use crate::support::kernel::{Builder, LAYOUTS, Layout, Thread};
use tx_trace::abi::Addr;
use tx_trace::bytes::Bytes;
use tx_trace::error::Error;
use tx_trace::kernel::{About, Kernel, Kind, Root, Stack, Stacks};
use tx_trace::mem::segments::{Block, Segments};
use tx_trace::report::Cell;
use tx_trace::sym::Pairs;
use tx_trace::trace::{Issue, Severity};

const CORTEX_M: Layout = LAYOUTS[0];
const NAMES: [&str; 8] = ["System Timer Thread", "watcher", "high", "low", "reader", "flagged", "asleep", "done"];

/// Reads the kernel with these symbols, the registry's control blocks, and a name for each address that has one.
fn read_as(
    builder: &Builder,
    symbols: Vec<(String, u64)>,
    registered: &[Root],
    named: &[(Addr, &str)],
) -> Result<Kernel, Error> {
    let mut memory = Segments::new(vec![Block::whole(builder.base, Bytes::from(builder.bytes()))]);
    let symbols = Pairs::new(symbols);
    let names = |at: Addr| named.iter().find(|(a, _)| *a == at).map(|(_, name)| (*name).to_owned());
    let about = About { symbols: &symbols, endian: None, pointer: None, names: &names, registered, stacks: true };
    Kernel::read(&mut memory, &about)
}

fn read(builder: &Builder, registered: &[Root]) -> Result<Kernel, Error> {
    read_as(builder, builder.symbols(), registered, &[])
}

fn root(kind: Option<Kind>, address: Addr) -> Root {
    Root { kind, address }
}

fn issues<'a>(kernel: &'a Kernel, code: &str) -> Vec<&'a Issue> {
    kernel.issues.iter().filter(|i| i.code.name() == code).collect()
}

fn labels(kernel: &Kernel) -> Vec<String> {
    let mut all: Vec<String> = kernel.threads.iter().map(|t| t.label()).collect();
    all.sort();
    all
}

fn sorted(names: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
    all.sort();
    all
}

fn every_layout(test: impl Fn(&str, Builder)) {
    for layout in LAYOUTS {
        for big in [false, true] {
            test(&format!("{} big={big}", layout.name), Builder::new(layout, big).build());
        }
    }
}

/// The head and the count of the queues were overwritten, and the thread that waits for one was shown as if there were
/// none.
#[test]
fn a_list_of_queues_that_is_0_was_believed_while_a_thread_waits_for_one() {
    every_layout(|case, mut builder| {
        let [head, count] = ["_tx_queue_created_ptr", "_tx_queue_created_count"].map(|n| builder.at[n]);
        builder.put(head, 0, builder.layout.pointer);
        builder.put(count, 0, builder.layout.word);
        let kernel = read(&builder, &[]).unwrap_or_else(|e| panic!("{case}: {e:?}"));
        let inbox = kernel.object(builder.at["inbox"]).unwrap_or_else(|| panic!("{case}: no queue"));
        assert_eq!((inbox.kind, inbox.waiting.as_slice()), (Kind::Queue, &[builder.thread("reader")][..]), "{case}");
        assert_eq!(kernel.doing(&kernel.threads[4]), "queue inbox, empty", "{case}");
        let damaged = issues(&kernel, "kernel-damaged");
        assert_eq!(damaged.len(), 1, "{case}: {damaged:?}");
        assert_eq!((damaged[0].severity, damaged[0].place.address), (Severity::Inferred, Some(head)), "{case}");
        let says =
            ["_tx_queue_created_ptr is 0 (the kernel counts 0)", "thread reader waits for the queue", "1 were found"];
        assert!(says.iter().all(|s| damaged[0].message.contains(s)), "{case}: {damaged:?}");
        // A sound one has none of it.
        let sound = read(&Builder::new(builder.layout, builder.big).build(), &[]).unwrap();
        assert!(issues(&sound, "kernel-damaged").is_empty(), "{case}: {:?}", sound.issues);
    });
}

#[test]
fn a_mutex_list_of_0_is_damage_where_the_registry_names_a_mutex() {
    // Nobody waits for it.
    let mut builder = Builder::new(CORTEX_M, false);
    builder.threads[2] = Thread::new("high", 4, 4, 3);
    let mut builder = builder.build();
    let [head, count] = ["_tx_mutex_created_ptr", "_tx_mutex_created_count"].map(|n| builder.at[n]);
    builder.put(head, 0, 4);
    builder.put(count, 0, 4);
    let bus = builder.at["bus"];
    assert!(read(&builder, &[]).unwrap().object(bus).is_none());
    let kernel = read(&builder, &[root(Some(Kind::Mutex), bus)]).unwrap();
    assert_eq!(kernel.object(bus).and_then(|o| o.owner()), Some(builder.thread("low")));
    let damaged = issues(&kernel, "kernel-damaged");
    assert!(damaged.iter().any(|i| i.message.contains("the trace's registry names the mutex")), "{damaged:?}");
    // One that was deleted has no id, and is no damage.
    builder.put(bus, 0, 4);
    let kernel = read(&builder, &[root(Some(Kind::Mutex), bus)]).unwrap();
    assert!(issues(&kernel, "kernel-damaged").iter().all(|i| !i.message.contains("_tx_mutex_created_ptr")));
}

/// The list closes and leaves out the queue that a thread waits for.
#[test]
fn a_queue_that_the_list_leaves_out_was_not_shown() {
    let mut builder = Builder::new(CORTEX_M, false).build();
    // Another queue, alone in its list, where the event flags were.
    let [other, head] = ["ready flags", "_tx_queue_created_ptr"].map(|n| builder.at[n]);
    for (offset, value) in [(0, 0x5155_4555), (40, 0), (44, 0), (48, other), (52, other)] {
        builder.put(other + offset, value, 4);
    }
    builder.put(head, other, 4);
    for variable in ["_tx_event_flags_created_ptr", "_tx_event_flags_created_count"] {
        builder.put(builder.at[variable], 0, 4);
    }
    let kernel = read(&builder, &[]).unwrap();
    assert!(kernel.object(builder.at["inbox"]).is_some(), "{:?}", kernel.issues);
    let said = issues(&kernel, "kernel-damaged");
    assert!(said.iter().any(|i| i.message.contains("leaves out 1 that a waiting thread")), "{said:?}");
}

#[test]
fn a_thread_list_of_0_was_no_threads_though_the_registry_names_them() {
    every_layout(|case, mut builder| {
        for name in ["_tx_thread_created_ptr", "_tx_thread_created_count", "_tx_thread_current_ptr"] {
            builder.put(builder.at[name], 0, 8);
        }
        assert_eq!(read(&builder, &[]).unwrap_err().code.name(), "no-threads", "{case}");
        let kernel =
            read(&builder, &[root(None, builder.thread("reader"))]).unwrap_or_else(|e| panic!("{case}: {e:?}"));
        assert_eq!(labels(&kernel), sorted(&NAMES), "{case}");
        let said = issues(&kernel, "kernel-damaged");
        assert!(
            said.iter().any(|i| i.message.contains("_tx_thread_created_ptr and its count are 0")),
            "{case}: {said:?}"
        );
        // What is no thread (any more) leads nowhere.
        let none = read(&builder, &[root(None, builder.at["bus"]), root(None, 0x10)]).unwrap_err();
        assert_eq!(none.code.name(), "no-threads", "{case}");
    });
}

/// `threads` on a stripped program ended with an error.
#[test]
fn threads_without_symbols_are_found_through_the_registry() {
    every_layout(|case, builder| {
        // One entry of the registry leads to all: it was full when the others were created.
        let registered = [root(None, builder.thread("asleep")), root(Some(Kind::Mutex), builder.at["bus"])];
        let kernel = read_as(&builder, Vec::new(), &registered, &[]).unwrap_or_else(|e| panic!("{case}: {e:?}"));
        assert!(kernel.layout.how.contains(builder.layout.name), "{case}: {}", kernel.layout.how);
        assert_eq!(labels(&kernel), sorted(&NAMES), "{case}");
        let kinds: Vec<Kind> = kernel.objects.iter().map(|o| o.kind).collect();
        assert_eq!(kinds, [Kind::Mutex, Kind::Queue, Kind::EventFlags], "{case}");
        let doing = |name: &str| kernel.threads.iter().find(|t| t.label() == name).map(|t| kernel.doing(t)).unwrap();
        assert_eq!(doing("high"), "mutex bus (low)", "{case}");
        assert_eq!(doing("reader"), "queue inbox, empty", "{case}");
        let said = issues(&kernel, "no-kernel-symbol");
        assert!(said.iter().all(|i| i.severity == Severity::Inferred), "{case}");
        assert!(said[0].message.contains("8 threads were found through the trace's registry"), "{case}: {said:?}");
        assert!(said[1].message.contains("mutex, queue, event flags: 3 objects"), "{case}: {said:?}");
        assert_eq!(issues(&kernel, "kernel-damaged").len(), 0, "{case}: {:?}", kernel.issues);
    });
}

#[test]
fn threads_without_symbols_and_registry_are_found_by_their_ids() {
    every_layout(|case, mut builder| {
        // As in the kernel's code: the ids as constants, with whatever follows.
        let stack = builder.at["stack done"];
        for (i, id) in [0x5448_5244, 0x4D55_5445, 0x5155_4555, 0x5448_5244].into_iter().enumerate() {
            builder.put(stack + 64 + 16 * i as u64, id, builder.layout.word);
        }
        let kernel = read_as(&builder, Vec::new(), &[], &[]).unwrap_or_else(|e| panic!("{case}: {e:?}"));
        assert_eq!(labels(&kernel), sorted(&NAMES), "{case}");
        let found: Vec<_> = kernel.objects.iter().map(|o| o.address).collect();
        assert_eq!(found, ["bus", "inbox", "ready flags"].map(|n| builder.at[n]), "{case}");
        let said = issues(&kernel, "no-kernel-symbol");
        assert!(said[0].message.contains("by a search of memory for their ids"), "{case}: {said:?}");
    });
}

/// Constants alone are no kernel.
#[test]
fn ids_in_code_are_no_threads() {
    let mut bytes = vec![0x5A; 4096];
    for (i, word) in [0x5448_5244u32, 0x5448_5244, 0x4D55_5445].iter().enumerate() {
        bytes[256 * i + 64..256 * i + 68].copy_from_slice(&word.to_le_bytes());
    }
    let read = |bytes: Vec<u8>| {
        let mut memory = Segments::new(vec![Block::whole(0x1000, Bytes::from(bytes))]);
        let symbols = Pairs::new(Vec::new());
        let none = |_: Addr| None;
        let about =
            About { symbols: &symbols, endian: None, pointer: None, names: &none, registered: &[], stacks: true };
        Kernel::read(&mut memory, &about).unwrap_err()
    };
    assert_eq!(read(bytes).code.name(), "no-kernel-symbol");
    assert_eq!(read(vec![0; 4096]).code.name(), "no-kernel-symbol");
}

/// A broken list without a head: what the registry names beyond the break is shown too, what a search found is not.
#[test]
fn a_broken_list_without_a_head_is_followed_from_each_registered_thread() {
    let mut builder = Builder::new(CORTEX_M, false).build();
    for name in ["high", "asleep"] {
        let at = builder.thread(name);
        builder.put(at, 0, 4);
    }
    let registered = ["watcher", "flagged"].map(|name| root(None, builder.thread(name)));
    let kernel = read_as(&builder, Vec::new(), &registered, &[]).unwrap();
    let want = ["System Timer Thread", "watcher", "low", "reader", "flagged", "done"];
    assert_eq!(labels(&kernel), sorted(&want), "{:?}", kernel.issues);
    assert!(issues(&kernel, "kernel-damaged").iter().any(|i| i.severity == Severity::Lost), "{:?}", kernel.issues);
}

/// Where nothing tells which thread runs, each was said not to run, and its old stack pointer was shown as good.
#[test]
fn a_running_thread_that_is_not_known_is_not_said_to_stand() {
    let builder = Builder::new(CORTEX_M, false).build();
    let mut symbols = builder.symbols();
    symbols.retain(|(name, _)| name != "_tx_thread_current_ptr");
    let mut kernel = read_as(&builder, symbols, &[], &[]).unwrap();
    kernel.find_running(&tx_trace::kernel::Stop::default());
    let said = issues(&kernel, "no-kernel-symbol");
    assert!(said.iter().any(|i| i.message.contains("one of 2 ready threads may be running")), "{said:?}");
    let threads = &tx_trace::kernel::reports(&kernel, tx_trace::kernel::Detail::Full)[0];
    let running = threads.columns.iter().position(|c| c.name == "running").unwrap();
    assert!(threads.rows.iter().all(|r| matches!(r[running], Cell::Empty)));
    // The only CPU is on the stack of one that is ready: that one runs.
    let mut cpu = tx_trace::cpu::Registers::new(tx_trace::cpu::Architecture::CortexM);
    let stop =
        |cpu: &tx_trace::cpu::Registers| tx_trace::kernel::Stop { cpus: vec![cpu.clone()], ..Default::default() };
    cpu.set("sp", builder.at["stack reader"] + 100);
    let mut idle = kernel.clone();
    idle.find_running(&stop(&cpu));
    assert!(idle.threads.iter().all(|t| t.core.is_none()), "a thread that waits does not run");
    cpu.set("sp", builder.at["stack low"] + 100);
    kernel.find_running(&stop(&cpu));
    let low = kernel.thread(builder.thread("low")).unwrap();
    assert_eq!((low.core, low.stack.used), (Some(0), None));
}

/// A thread waits for a control block that is in no list: it was a number though a variable is there.
#[test]
fn what_a_thread_waits_for_is_named_by_its_variable() {
    let mut builder = Builder::new(CORTEX_M, false).build();
    let inbox = builder.at["inbox"];
    builder.put(inbox, 0xBAD, 4);
    let kernel = read_as(&builder, builder.symbols(), &[], &[(inbox, "&inbox_queue")]).unwrap();
    let reader = kernel.thread(builder.thread("reader")).unwrap();
    assert_eq!(kernel.doing(reader), "queue &inbox_queue");
    assert!(issues(&kernel, "kernel-damaged").iter().any(|i| i.message.contains("there is none there")));
}

/// A pool that was used up, a semaphore at 0 and a queue that fills were not shown as long as nobody waited for them.
#[test]
fn objects_that_are_full_or_used_up_matter_before_somebody_waits() {
    // Members behind id and name, in ULONGs, up to the list of waiting threads; then that, its length, and the links.
    let short = |kind: Kind, id: u64, members: &[u64]| {
        let mut builder = Builder::new(CORTEX_M, false);
        builder.threads[5] = Thread::new("flagged", 4, 9, 2);
        let mut builder = builder.build();
        let at = builder.at["ready flags"];
        for variable in ["_tx_event_flags_created_ptr", "_tx_event_flags_created_count"] {
            builder.put(builder.at[variable], 0, 4);
        }
        let own = [id, 0].into_iter().chain(members.iter().copied()).chain([0, 0, at, at]);
        for (i, value) in own.enumerate() {
            builder.put(at + 4 * i as u64, value, 4);
        }
        let kernel = read(&builder, &[root(Some(kind), at)]).unwrap();
        let object = kernel.object(at).unwrap_or_else(|| panic!("{kind:?}: {:?}", kernel.issues));
        let rows = |all: bool| {
            let reports = tx_trace::kernel::reports(&kernel, tx_trace::kernel::Detail::Summary { width: 80, all });
            let is_kind = |row: &&[Cell]| matches!(&row[0], Cell::Text(text) if text == kind.name());
            reports[1].rows.iter().filter(is_kind).count()
        };
        // Of those that matter one row more, or none.
        let others = kernel.objects.iter().filter(|o| o.kind == kind && o.address != at);
        let held = others.clone().filter(|o| o.matters()).count() + usize::from(object.matters());
        assert_eq!((rows(false), rows(true)), (held, others.count() + 1), "{kind:?}: {members:?}");
        object.matters()
    };
    let queue = |enqueued: u64, capacity: u64| {
        let free = capacity - enqueued;
        short(Kind::Queue, 0x5155_4555, &[1, capacity, enqueued, free, 0, 0, 0, 0])
    };
    assert_eq!([0, 7, 8, 16].map(|n| queue(n, 16)), [false, false, true, true]);
    assert_eq!([0, 1].map(|n| queue(n, 1)), [false, true]);
    let semaphore = |count| short(Kind::Semaphore, 0x5345_4D41, &[count]);
    assert_eq!([0, 1].map(semaphore), [true, false]);
    let blocks = |free| short(Kind::BlockPool, 0x424C_4F43, &[free, 8, 0, 0, 96, 8]);
    assert_eq!([0, 2, 3, 8].map(blocks), [true, true, false, false]);
    let bytes = |free| short(Kind::BytePool, 0x4259_5445, &[free, 3, 0, 0, 0, 512, 0]);
    assert_eq!([0, 128, 129, 512].map(bytes), [true, true, false, false]);
    // A mutex that nobody owns, and flags.
    assert!(!short(Kind::Mutex, 0x4D55_5445, &[0, 0, 1, 0]));
    assert!(!short(Kind::EventFlags, 0x4456_444E, &[0, 0]));
}

/// The members of ThreadX Modules follow the links of the created list, and the control block of a thread that calls the
/// kernel names the stack for such calls: without symbols that one was shown as its own, and a stack pointer on the
/// other as damage.
#[test]
fn without_symbols_the_kernel_stack_of_a_module_was_a_threads_own() {
    let build = |shifted: bool| {
        let mut builder = Builder::new(CORTEX_M, false);
        if shifted {
            // Priorities of their own, and mutexes, 13 words further on.
            builder.layout.own_priority += 52;
            builder.layout.owned_list += 52;
            builder.layout.size += 52;
        }
        let mut builder = builder.build();
        // In user mode: it saved its stack pointer on the stack that its control block does not name.
        let on_the_other = builder.at["stack asleep"] + 0x40;
        builder.put(builder.thread("reader") + CORTEX_M.stack_ptr as u64, on_the_other, 4);
        builder
    };
    let builder = build(true);
    let kernel = read_as(&builder, Vec::new(), &[], &[]).unwrap();
    assert_eq!(labels(&kernel), sorted(&NAMES));
    assert!(kernel.threads.iter().all(|t| t.stacks == Stacks::Unknown && t.stack == Stack::default()), "{kernel:?}");
    assert!(issues(&kernel, "stack-pointer-outside").is_empty(), "{:?}", kernel.issues);
    let said = issues(&kernel, "kernel-layout-tail");
    assert!(said.iter().any(|i| i.count == NAMES.len() as u64 && i.message.contains("may be of a module")), "{said:?}");
    // A kernel whose members are where those without modules have them is one of these: its stacks are known.
    let kernel = read_as(&build(false), Vec::new(), &[], &[]).unwrap();
    assert!(kernel.threads.iter().all(|t| t.stacks == Stacks::Own && t.stack.size == Some(256)), "{kernel:?}");
    assert_eq!(issues(&kernel, "stack-pointer-outside").len(), 1, "{:?}", kernel.issues);
    // And so is one whose symbols have nothing of modules.
    let kernel = read(&builder, &[]).unwrap();
    assert!(kernel.threads.iter().all(|t| t.stacks == Stacks::Own), "{kernel:?}");
}
