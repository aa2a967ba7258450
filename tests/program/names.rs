//! Names: of objects, of interrupts, of code; from the registry, from the ELF, and from neither. By the binary.

#![cfg(feature = "cli")]

#[path = "../../src/elf/tests/writer.rs"]
#[allow(dead_code, unreachable_pub, reason = "the writer of the unit tests: a part of it")]
mod writer;

use crate::support;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::builder::{Buffer, Entry, Registered};
use serde_json::Value;
use writer::{GLOBAL_FUNC, GLOBAL_OBJECT, Writer, load, sect, sym};

const RAM: u64 = 0x2000_0000;
const CODE: u64 = 0x0800_0000;
const SAMPLES: u64 = RAM + 0x1000;
const QUEUES: u64 = RAM + 0x2000;
const WORKER: u64 = RAM + 0x3000;
const BASE: u64 = RAM + 0x8000;

/// Files of one test, deleted behind it.
struct Case {
    dir: PathBuf,
    source: Vec<String>,
}

impl Drop for Case {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.dir).unwrap();
    }
}

struct Said {
    out: String,
    err: String,
}

impl Case {
    fn new(buffer: &Buffer, at: u64, elf: Option<Vec<u8>>) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("tx-trace-names-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("ram"), buffer.bytes()).unwrap();
        let mut source = vec!["--image".into(), format!("ram@{at:#x}"), "--header".into(), format!("{at:#x}")];
        if let Some(elf) = elf {
            std::fs::write(dir.join("elf"), elf).unwrap();
            source.extend(["--elf".to_owned(), "elf".to_owned()]);
        }
        Self { dir, source }
    }

    fn run(&self, line: &str) -> Said {
        let out = Command::new(env!("CARGO_BIN_EXE_tx-trace"))
            .args(line.split_whitespace())
            .args(&self.source)
            .current_dir(&self.dir)
            .env_remove("TX_TRACE_ELF")
            .env_remove("TX_TRACE_REMOTE")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).expect("what is printed is UTF-8");
        Said { out: text(out.stdout), err: text(out.stderr) }
    }

    fn json(&self, line: &str, kind: &str) -> Vec<Value> {
        let out = self.run(&format!("{line} --format json")).out;
        let all = out.lines().map(|l| serde_json::from_str::<Value>(l).expect(l));
        all.filter(|v| v["type"] == kind).collect()
    }

    /// The text of an argument of each event.
    fn texts(&self, line: &str, name: &str) -> Vec<String> {
        let text = |e: &Value| {
            let arg = e["args"].as_array().unwrap().iter().find(|a| a["name"] == name)?;
            Some(arg["text"].as_str().unwrap().to_owned())
        };
        self.json(line, "event").iter().filter_map(text).collect()
    }

    fn who(&self, line: &str) -> Vec<String> {
        let name = |e: &Value| e["context"]["name"].as_str().unwrap_or("-").to_owned();
        self.json(line, "event").iter().map(name).collect()
    }
}

/// A Cortex-M program: handlers of its exceptions from 16 on, and variables.
fn cortex_m(is_m_profile: bool) -> Writer {
    let mut w = Writer::new(false, false, 2, 40);
    w.entry = CODE + 0x101;
    let mut table = [CODE as u32 + 0x301; 22];
    (table[0], table[1]) = (0x2001_0000, CODE as u32 + 0x101);
    (table[16], table[21]) = (CODE as u32 + 0x201, CODE as u32 + 0x241);
    let mut code: Vec<u8> = table.iter().flat_map(|w| w.to_le_bytes()).collect();
    code.resize(0x400, 0);
    w.segs = vec![load(CODE, 5, code.clone()), load(RAM, 6, vec![])];
    w.segs[1].memsz = Some(0x1_0000);
    let mut bss = sect(".bss", 8, 3, RAM, vec![]);
    bss.size = Some(0x1_0000);
    // v7, of the M or the A profile.
    let profile = if is_m_profile { b'M' } else { b'A' };
    let mut attributes = b"A\x13\0\0\0aeabi\0\x01\x09\0\0\0\x06\x0a\x07".to_vec();
    attributes.push(profile);
    w.sects = vec![sect(".text", 1, 6, CODE, code), bss, sect(".ARM.attributes", 0x7000_0003, 0, 0, attributes)];
    w.syms = vec![
        sym("samples_q", SAMPLES, 56, GLOBAL_OBJECT, 2),
        sym("queues", QUEUES, 0x48 * 3, GLOBAL_OBJECT, 2),
        sym("worker", WORKER, 180, GLOBAL_OBJECT, 2),
        sym("Reset_Handler", CODE + 0x101, 0x40, GLOBAL_FUNC, 1),
        sym("TIMER0_IRQHandler", CODE + 0x201, 0x20, GLOBAL_FUNC, 1),
        sym("UART0_Handler", CODE + 0x241, 0x20, GLOBAL_FUNC, 1),
        sym("on_receive", CODE + 0x281, 0x20, GLOBAL_FUNC, 1),
        sym("Default_Handler", CODE + 0x301, 4, GLOBAL_FUNC, 1),
    ];
    w
}

fn of(events: &[Entry]) -> Buffer {
    Buffer::new(BASE).record(events.len() + 1, events)
}

fn thread(address: u64, id: u64, stamp: u64, info: [u64; 4]) -> Entry {
    Entry::thread(address, 4, id, stamp, info)
}

const SEND: u64 = 69;
const ENTER: u64 = 3;
const EXIT: u64 = 4;
const PUT: u64 = 88;

#[test]
fn objects_outside_the_registry_are_called_by_their_variables() {
    let send = |stamp, queue| thread(WORKER, SEND, stamp, [queue, 0, 0, 0]);
    let buffer = of(&[
        send(1, SAMPLES),
        send(2, QUEUES),
        send(3, QUEUES + 0x48),
        send(4, QUEUES + 0x48 * 3),
        send(5, CODE + 0x281),
        send(6, SAMPLES + 56),
        thread(RAM + 0x4000, 1, 7, [WORKER, 5, 0, RAM + 0x4000]),
    ]);
    let case = Case::new(&buffer, BASE, Some(cortex_m(true).build()));
    assert_eq!(
        case.texts("list", "queue_ptr"),
        ["&samples_q", "&queues", "&queues+0x48", "queue 0x200020d8", "queue 0x8000281", "queue 0x20001038"]
    );
    assert_eq!(case.texts("list", "thread_ptr"), ["&worker"]);
    assert_eq!(case.texts("list", "next_thread"), ["thread 0x20004000"]);
    assert_eq!(case.who("list --to 0"), ["&worker"]);
    assert_eq!(case.who("show 6"), ["-"], "no name is made up");
    let table = case.run("list --width 120").out;
    assert!(table.contains("queue=&queues+0x48 ") && table.contains("queue=0x200020d8 "), "{table}");
    assert!(table.contains("*0x20004000 "), "{table}");
    // What is printed can be typed.
    assert_eq!(case.texts("list --object &queues+0x48", "queue_ptr"), ["&queues+0x48"]);
    assert_eq!(case.who("list --thread &worker").len(), 6);
    // Without the ELF only type and address are known.
    let bare = Case::new(&buffer, BASE, None);
    assert_eq!(bare.texts("list --to 0", "queue_ptr"), ["queue 0x20001000"]);
}

#[test]
fn the_registrys_name_comes_first() {
    let mut buffer = of(&[thread(WORKER, SEND, 1, [SAMPLES, 0, 0, 0]), thread(WORKER, SEND, 2, [QUEUES, 0, 0, 0])]);
    buffer.objects = vec![Registered::new(3, SAMPLES, "samples"), Registered::new(3, QUEUES, "")];
    let case = Case::new(&buffer, BASE, Some(cortex_m(true).build()));
    assert_eq!(case.texts("list", "queue_ptr"), ["samples", "&queues"]);
    let objects = case.run("objects").out;
    assert!(objects.contains("queue  &queues"), "{objects}");
}

#[test]
fn pointers_to_code_are_functions() {
    let notify = |stamp, f| thread(WORKER, 435, stamp, [0, SAMPLES, f, 0]);
    let buffer = of(&[
        notify(1, CODE + 0x281),
        notify(2, CODE + 0x289),
        notify(3, SAMPLES),
        notify(4, 0),
        notify(5, CODE + 0x3FF),
    ]);
    let case = Case::new(&buffer, BASE, Some(cortex_m(true).build()));
    let texts = case.texts("list", "receive_notify");
    assert_eq!(texts, ["on_receive", "on_receive+0x8", "0x20001000", "0x0", "0x80003ff"]);
}

#[test]
fn cut_addresses_are_matched_by_their_low_halves() {
    let high = 0x5555_0000_0000u64;
    let mut w = Writer::new(true, false, 2, 62);
    w.segs = vec![load(high + CODE, 5, vec![0; 0x400]), load(high + RAM, 6, vec![])];
    w.segs[1].memsz = Some(0x1_0000);
    let mut bss = sect(".bss", 8, 3, high + RAM, vec![]);
    bss.size = Some(0x1_0000);
    w.sects = vec![sect(".text", 1, 6, high + CODE, vec![0; 0x400]), bss];
    w.syms = vec![
        sym("samples_q", high + SAMPLES, 56, GLOBAL_OBJECT, 2),
        sym("on_receive", high + CODE + 0x281, 0x20, GLOBAL_FUNC, 1),
    ];
    // The buffer is on the heap, in another upper half than the program.
    let heap = 0x7F00_0000_0000 + BASE;
    let buffer = of(&[thread(WORKER, SEND, 1, [SAMPLES, 0, 0, 0]), thread(WORKER, 435, 2, [0, 0, CODE + 0x281, 0])]);
    let case = Case::new(&buffer, heap, Some(w.build()));
    assert_eq!(case.texts("list --to 0", "queue_ptr"), ["&samples_q"]);
    assert_eq!(
        case.texts("list", "receive_notify"),
        ["on_receive"],
        "bit 0 is an address's own where there is no Thumb"
    );
    assert_eq!(case.texts("list --object samples_q", "queue_ptr"), ["&samples_q"]);
    // Two variables that differ only in what is cut off: neither is meant for sure.
    w.segs.push(load(2 * high + RAM, 6, vec![]));
    w.segs[2].memsz = Some(0x1_0000);
    let mut more = sect(".more", 8, 3, 2 * high + RAM, vec![]);
    more.size = Some(0x1_0000);
    w.sects.push(more);
    w.syms.push(sym("other", 2 * high + SAMPLES, 4, GLOBAL_OBJECT, 3));
    let case = Case::new(&buffer, heap, Some(w.build()));
    assert_eq!(case.texts("list --to 0", "queue_ptr"), ["queue 0x20001000"]);
}

fn isr(id: u64, stamp: u64, number: u64, system: u64) -> Entry {
    Entry::isr(WORKER, id, stamp, [RAM, number, system, 0])
}

fn put(stamp: u64) -> Entry {
    Entry::isr(WORKER, PUT, stamp, [SAMPLES, 0, 0, 0])
}

#[test]
fn interrupts_are_called_by_their_exceptions() {
    // Numbered as exceptions, as interrupts of the chip, by neither; one whose handler serves many; one without a number.
    let numbers = [(15, 15), (21, 21), (5, 21), (99, 16), (1, 17), (17, 17), (7, 1), (0, 8)];
    let events: Vec<Entry> = numbers.iter().zip(1..).map(|((n, system), at)| isr(ENTER, at, *n, *system)).collect();
    let case = Case::new(&of(&events), BASE, Some(cortex_m(true).build()));
    let texts = case.texts("list", "isr_number");
    assert_eq!(texts, ["SysTick", "UART0_Handler", "UART0_Handler", "99", "irq1", "irq1", "7", "0"]);
    let who = case.who("list");
    let exceptions = ["SysTick", "UART0_Handler", "UART0_Handler", "TIMER0_IRQHandler", "irq1", "irq1", "ISR", "ISR"];
    assert_eq!(who, exceptions);
    let contexts: Vec<Value> = case.json("list", "event").iter().map(|e| e["context"].clone()).collect();
    assert_eq!(contexts[0], serde_json::json!({"kind": "isr", "address": "0xffffffff", "name": "SysTick", "isr": 15}));
    assert_eq!(contexts[6], serde_json::json!({"kind": "isr", "address": "0xffffffff", "name": "ISR"}));
    assert_eq!(case.json("list", "event")[0]["args"][1]["value"], 15, "the number stays what it is");
    assert_eq!(case.who("list --context isr").len(), 8);
    let table = case.run("list --width 120").out;
    assert!(table.contains("*UART0_Handler") && table.contains("isr=SysTick "), "{table}");
    let now = case.run("show -1").out;
    assert!(now.contains("ISR (isr, stored as 0xffffffff)"), "{now}");
}

#[test]
fn interrupts_of_other_processors_have_numbers() {
    let events = of(&[isr(ENTER, 1, 15, 15), put(2), isr(EXIT, 3, 15, 15)]);
    let mut riscv = cortex_m(true);
    riscv.machine = 243;
    for elf in [None, Some(cortex_m(false).build()), Some(riscv.build())] {
        let case = Case::new(&events, BASE, elf);
        assert_eq!(case.who("list"), ["ISR", "ISR", "ISR"]);
        assert_eq!(case.texts("list", "isr_number"), ["15", "15"]);
        assert_eq!(case.json("list", "event")[1]["context"]["isr"], 15);
    }
}

/// Interrupts that nest, that do not end, that begin before the ring.
fn nested() -> Buffer {
    of(&[
        put(1),
        isr(EXIT, 2, 21, 21),
        thread(WORKER, SEND, 3, [SAMPLES, 0, 0, 0]),
        isr(ENTER, 4, 15, 15),
        put(5),
        isr(ENTER, 6, 21, 21),
        put(7),
        isr(EXIT, 8, 21, 21),
        put(9),
        isr(EXIT, 10, 15, 15),
        put(11),
        isr(ENTER, 12, 15, 15),
        thread(WORKER, SEND, 13, [SAMPLES, 0, 0, 0]),
        put(14),
    ])
}

#[test]
fn events_belong_to_the_interrupt_that_is_open() {
    let case = Case::new(&nested(), BASE, Some(cortex_m(true).build()));
    let (s, u, w) = ("SysTick", "UART0_Handler", "&worker");
    // The first began before the ring; its end tells which it was.
    assert_eq!(case.who("list"), [u, u, w, s, s, u, u, u, s, s, "ISR", s, w, "ISR"]);
    // What a filter leaves out still counts.
    assert_eq!(case.who("list --event tx_semaphore_put"), [u, s, u, s, "ISR", "ISR"]);
    assert_eq!(case.who("show 6 4"), [u, s]);
    let table = case.run("list").out;
    let marks: Vec<bool> = table.lines().skip(1).map(|l| l.contains('*')).collect();
    let yes = [2, 3, 5, 8, 10, 11, 12, 13];
    assert_eq!(marks, (0..14).map(|i| yes.contains(&i)).collect::<Vec<_>>(), "{table}");
}

#[test]
fn the_tail_never_says_otherwise_than_the_whole() {
    let case = Case::new(&nested(), BASE, Some(cortex_m(true).build()));
    let whole = case.who("list");
    for n in 1..=14usize {
        let tail = case.who(&format!("last {n}"));
        for (tail, whole) in tail.iter().zip(&whole[14 - n..]) {
            assert!(tail == whole || tail == "ISR", "last {n}: {tail}, in the whole {whole}");
        }
        assert_eq!(tail.last(), whole.last());
    }
}

#[test]
fn last_with_a_filter_reads_what_lies_before() {
    let scratch = Case::new(&of(&[isr(ENTER, 1, 15, 15), put(2)]), BASE, Some(cortex_m(true).build()));
    assert_eq!(scratch.who("last 1 --event tx_semaphore_put"), ["SysTick"]);
}

#[test]
fn entries_of_the_registry() {
    let mut buffer = of(&[thread(WORKER, SEND, 1, [SAMPLES, 0, 0, 0]), thread(RAM, SEND, 2, [QUEUES, 0, 0, 0])]);
    let mut deleted = Registered::new(3, SAMPLES, "old queue");
    deleted.available = 1;
    let mut gone = Registered::new(5, RAM + 0x5000, "gone");
    gone.available = 1;
    let mut stale = Registered::new(1, WORKER, "abc");
    stale.name = b"abc\0rest of a longer name".to_vec();
    (stale.params, stale.priority) = ([RAM + 0x100, 768], Some(300));
    let mut whole = Registered::new(3, QUEUES, "");
    (whole.name, whole.params) = (vec![b'q'; 32], [400, 0]);
    let mut strange = Registered::new(99, RAM + 0x6000, "strange");
    strange.params = [0x12, 0x34];
    let never = Registered::new(0, 0, "never used");
    // The live one, wherever it stands, is the one that is meant.
    for order in [false, true] {
        let live = Registered::new(3, SAMPLES, "new queue");
        let pair = if order { [live, deleted.clone()] } else { [deleted.clone(), live] };
        buffer.objects = pair.to_vec();
        buffer.objects.extend([gone.clone(), stale.clone(), whole.clone(), strange.clone(), never.clone()]);
        let buffer = buffer.clone();
        let case = Case::new(&buffer, BASE, None);
        assert_eq!(case.texts("list", "queue_ptr"), ["new queue", &"q".repeat(32)]);
        assert_eq!(case.who("list"), ["abc", "-"]);
        let issues = case.json("list", "issue");
        assert_eq!(issues.len(), 1, "{issues:?}");
        assert_eq!((&issues[0]["code"], &issues[0]["count"]), (&"name-unterminated".into(), &1.into()));
        let objects = case.run("objects --width 120").out;
        let whole = "q".repeat(32);
        for (address, kind, name, rest) in [
            (SAMPLES, "queue", "old queue", "     deleted"),
            (SAMPLES, "queue", "new queue", ""),
            (RAM + 0x5000, "mutex", "gone", "     deleted inherit=0"),
            (WORKER, "thread", "abc", "300  stack=0x20000100 size=768"),
            (QUEUES, "queue", &whole, "     capacity=100"),
            (RAM + 0x6000, "type 99", "strange", "     param1=0x12 param2=0x34"),
        ] {
            let row = format!("{address:#x}  {kind:<7}  {name:<32}  {rest}");
            assert!(objects.lines().any(|l| l == row.trim_end()), "{row}\n{objects}");
        }
        assert!(!objects.contains("never"), "{objects}");
        let json = case.json("objects", "object");
        let strange = json.iter().find(|o| o["name"] == "strange").unwrap();
        assert_eq!((&strange["object_type"], &strange["param2"]), (&"type_99".into(), &"0x00000034".into()));
        assert_eq!(json.iter().filter(|o| o["deleted"] == true).count(), 2);
    }
}

#[test]
fn an_argument_that_points_to_a_deleted_object_says_so() {
    let mut buffer = of(&[thread(WORKER, SEND, 1, [SAMPLES, 0, 0, 0])]);
    let mut gone = Registered::new(3, SAMPLES, "samples");
    gone.available = 1;
    buffer.objects = vec![gone];
    let case = Case::new(&buffer, BASE, None);
    assert_eq!(case.texts("list", "queue_ptr"), ["samples(deleted)"]);
}

#[test]
fn the_memory_of_a_thread_may_be_another_object_by_now() {
    let mut buffer = of(&[thread(WORKER, 1, 1, [SAMPLES, 5, 0, WORKER]), thread(SAMPLES, SEND, 2, [SAMPLES, 0, 0, 0])]);
    let mut gone = Registered::new(1, SAMPLES, "gone thread");
    gone.available = 1;
    buffer.objects = vec![gone, Registered::new(3, SAMPLES, "queue"), Registered::new(1, WORKER, "worker")];
    let case = Case::new(&buffer, BASE, None);
    assert_eq!(case.texts("list", "thread_ptr"), ["gone thread"]);
    assert_eq!(case.texts("list", "queue_ptr"), ["queue"]);
    assert_eq!(case.who("list"), ["worker", "gone thread"]);
}

#[test]
fn a_full_registry_is_reported() {
    let full = |buffer: &Buffer| {
        let case = Case::new(buffer, BASE, None);
        let all = case.json("list", "issue");
        assert!(all.iter().all(|i| i["code"] == "registry-full"), "{all:?}");
        all.first().map(|i| (i["count"].as_u64().unwrap(), i["where"]["seq"].clone()))
    };
    let send = |stamp, queue| thread(WORKER, SEND, stamp, [queue, 0, 0, 0]);
    let mut buffer = of(&[send(1, SAMPLES), send(2, QUEUES), send(3, QUEUES), send(4, RAM)]);
    assert_eq!(full(&buffer), Some((4, 0.into())), "no entries at all");
    buffer.objects = vec![Registered::new(1, WORKER, "worker"), Registered::new(3, SAMPLES, "samples")];
    assert_eq!(full(&buffer), Some((2, 1.into())));
    // A free entry: it was not the room that was missing.
    let mut free = Registered::new(0, 0, "");
    free.available = 1;
    buffer.objects.push(free);
    assert_eq!(full(&buffer), None);
    // Full, and everything is there.
    buffer.objects[2] = Registered::new(3, QUEUES, "queues");
    let mut buffer = Buffer { objects: buffer.objects.clone(), ..of(&[send(1, SAMPLES), send(2, QUEUES)]) };
    assert_eq!(full(&buffer), None);
    // Packets of NetX are never registered.
    buffer = Buffer { objects: buffer.objects, ..of(&[thread(WORKER, 394, 1, [0x1234_0000, 0, 0, 0])]) };
    assert_eq!(full(&buffer), None);
}

/// What must not reach a terminal: controls, what turns text around, what is not seen.
fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[test]
fn no_name_reaches_the_terminal_raw() {
    let names: [&[u8]; 10] = [
        b"\x1b[2J\x1b]0;owned\x07",
        b"line\nlast: 0 issues\r",
        b"\xff\xfe\x80bytes\xc3",
        b"\xed\xa0\x80surrogate",
        "a\u{202e}txt.exe\u{2066}b\u{2069}".as_bytes(),
        "zero\u{200b}\u{200d}\u{feff}width".as_bytes(),
        "c1\u{9b}31m\u{85}".as_bytes(),
        b"quote\",'back\\slash",
        b"tab\tdel\x7f",
        "W\u{e4}chter \u{6e29}".as_bytes(),
    ];
    let at = |i: usize| RAM + 0x100 * (i as u64 + 1);
    let mut events = Vec::new();
    for i in 0..names.len() {
        events.push(thread(at(i), SEND, 2 * i as u64, [at(i) + 0x80, 0, 0, 0]));
        events.push(Entry::isr(at(i), 4100, 2 * i as u64 + 1, [at(i), at(i) + 0x80, 0, 0]));
    }
    let mut buffer = of(&events);
    for (i, name) in names.iter().enumerate() {
        for (kind, address) in [(1, at(i)), (3, at(i) + 0x80)] {
            buffer.objects.push(Registered { name: name.to_vec(), ..Registered::new(kind, address, "") });
        }
    }
    let mut w = cortex_m(true);
    w.syms = vec![sym("evil\x1b[31m\n\u{202e}", RAM + 0x9000, 64, GLOBAL_OBJECT, 2)];
    events.push(thread(RAM + 0x9000, SEND, 99, [RAM + 0x9000, 0, 0, 0]));
    let buffer = Buffer { objects: buffer.objects, ..of(&events) };
    let case = Case::new(&buffer, BASE, Some(w.build()));
    for line in [
        "last",
        "list",
        "list --width 120",
        "list --width 200",
        "list --color always",
        "list --format csv",
        "list --format json",
        "show 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20",
        "info",
        "objects",
        "objects --width 200",
        "objects --format md",
        "objects --format csv",
        "objects --format json",
        "list --thread nobody",
        "list --object nothing",
        "list --thread nobody --format json",
    ] {
        let said = case.run(line);
        for (what, text) in [("stdout", &said.out), ("stderr", &said.err)] {
            // Colours are ours, and nothing else.
            let text =
                if line.contains("color") { text.replace("\x1b[", "<").replace('\x1b', "!") } else { text.clone() };
            let bad: Vec<char> = text.chars().filter(|c| is_hostile(*c) && *c != '\n').collect();
            assert!(bad.is_empty() && !text.contains("<2J"), "{line}: {what} has {bad:?}\n{text}");
            assert!(!text.lines().any(|l| l.starts_with("last:")), "{line}: a name begins a line\n{text}");
        }
        if line.contains("json") {
            said.out.lines().for_each(|l| drop(serde_json::from_str::<Value>(l).expect(l)));
        }
    }
    // JSON says exactly what was stored, as far as it was text.
    let json: Vec<String> =
        case.json("objects", "object").iter().step_by(2).map(|o| o["name"].as_str().unwrap().to_owned()).collect();
    let exact: Vec<String> = names.iter().map(|n| String::from_utf8_lossy(n).into_owned()).collect();
    assert_eq!(json, exact);
    assert!(
        case.run("last 1 --width 120").out.contains("&evil\\x1b[31m\\n\\u{202e}"),
        "{}",
        case.run("last 1 --width 120").out
    );
    assert!(case.run("objects").out.contains("Wächter 温"));
}

#[test]
fn every_registered_name_of_real_traces_is_shown() {
    let Some(dir) = support::real_traces() else { return };
    let mut seen = 0;
    for file in std::fs::read_dir(dir.join("threadx")).unwrap().map(|f| f.unwrap().path()) {
        if file.extension().is_none_or(|e| e != "trx") {
            continue;
        }
        let run = |words: &[&str]| {
            let out = Command::new(env!("CARGO_BIN_EXE_tx-trace")).args(words).arg(&file).output().unwrap();
            String::from_utf8(out.stdout).unwrap()
        };
        // The registry by its bytes: names behind heads, of what was used.
        let bytes = std::fs::read(&file).unwrap();
        let wide = bytes[34] == 32 || bytes[35] == 32;
        let wide = wide && bytes[18] != 32 && bytes[19] != 32;
        let big = bytes[..8].windows(4).any(|w| w == b"TXTB");
        let word = |at: usize| {
            let b = &bytes[at..at + if wide { 8 } else { 4 }];
            let fold = |n: u64, b: &u8| n << 8 | u64::from(*b);
            if big { b.iter().fold(0, fold) } else { b.iter().rev().fold(0, fold) }
        };
        let (base, end, head, size) = if wide { (word(16), word(40), 96, 64) } else { (word(8), word(20), 48, 48) };
        let end = (end - base) as usize;
        let table = run(&["objects", "--width", "200"]);
        let mut names = 0;
        for entry in bytes[head..end].chunks(size).filter(|e| e[1] != 0) {
            let name = &entry[size - 32..];
            let name = std::str::from_utf8(&name[..name.iter().position(|b| *b == 0).unwrap()]).unwrap();
            assert!(table.contains(name), "{}: {name}\n{table}", file.display());
            names += 1;
        }
        assert!(names > 0, "{}", file.display());
        assert_eq!(table.lines().count(), names + 1, "{}", file.display());
        seen += 1;
    }
    assert!(seen >= 8, "{seen}");
}
