//! Packets in, packets out: the target is a table.

use std::rc::Rc;

use super::super::look::{Begun, Forget, Listing, Look, Stopped};
use super::super::translator::{Answered, Todo, Translator};
use crate::abi::Endian;
use crate::cpu::{Architecture, Registers};
use crate::debugger::{ListedThread, Thread, ThreadList};

const RUNS: u64 = 0x2000_0010;
const WAITS: u64 = 0x2000_0020;

/// A target with a thread that runs and one that waits.
struct Table {
    begun: Begun,
    runs: u64,
    pc: u64,
    /// What was asked of it, in words.
    asked: Vec<String>,
}

impl Table {
    fn new(cpus: &[&str]) -> Self {
        let cpus = cpus.iter().map(|id| (*id).to_owned()).collect();
        Self { begun: Begun::Cpus(cpus), runs: RUNS, pc: 0x100, asked: Vec::new() }
    }
}

fn registers(pc: u64) -> Registers {
    let mut registers = Registers::new(Architecture::CortexM);
    registers.set("pc", pc);
    registers
}

impl Look for Table {
    fn begin(&mut self) -> Begun {
        self.begun.clone()
    }

    fn stopped(&mut self, _: usize) -> Stopped {
        Stopped { id: self.runs as usize, pc: Some(self.pc) }
    }

    fn list(&mut self) -> Rc<Listing> {
        self.asked.push("list".to_owned());
        let thread = |id: u64| {
            let cpu = (id == self.runs).then_some(0);
            let (name, extra) = (format!("t{id:x}"), if cpu.is_some() { "running" } else { "waits" }.to_owned());
            Thread { id, cpu, name, extra, registers: Some(registers(id & 0xFF)) }
        };
        let threads = ThreadList::new(Some(Architecture::CortexM), Endian::Little, [RUNS, WAITS].map(thread).to_vec());
        Rc::new(Listing { threads, remark: None })
    }

    fn remark(&self) -> Option<String> {
        None
    }

    fn registers(&mut self, cpu: usize) -> Option<Vec<Option<u8>>> {
        Some(vec![Some(cpu as u8 + 1); 4])
    }

    fn saved(&mut self, thread: &ListedThread) -> Option<Vec<Option<u8>>> {
        Some(vec![None, Some(thread.id as u8)])
    }

    fn described(&mut self, number: u32) -> Option<(String, usize)> {
        let all = [(15, "pc", 4), (26, "msp", 4), (27, "psp", 4), (28, "d0", 8)];
        all.iter().find(|(n, ..)| *n == number).map(|(_, name, len)| ((*name).to_owned(), *len))
    }

    fn select(&mut self, cpu: usize) {
        self.asked.push(format!("select {cpu}"));
    }

    fn code(&mut self, at: u64, len: usize) -> Option<Vec<u8>> {
        (at < 0x1000).then(|| vec![0xBF; len])
    }

    fn forget(&mut self, what: Forget) {
        self.asked.push(format!("{what:?}"));
    }
}

/// A session that has stopped once.
fn stopped(cpus: &[&str]) -> (Translator, Table) {
    let (mut translator, mut table) = (Translator::new(false), Table::new(cpus));
    let reply = translator.reply(Answered::Stop, b"T05thread:p1.1;", &mut table);
    assert_eq!(reply, [b"T05thread:p1.20000010;".to_vec()]);
    table.asked.clear();
    (translator, table)
}

fn said(todo: Todo) -> String {
    match todo {
        Todo::Pass => "pass".to_owned(),
        Todo::Instead(packet) => format!("instead {}", String::from_utf8_lossy(&packet)),
        Todo::Answer(packets) => {
            packets.iter().map(|p| String::from_utf8_lossy(p).into_owned()).collect::<Vec<_>>().join(" ")
        }
    }
}

#[test]
fn packets_about_threads_are_answered_and_others_pass() {
    let (mut translator, mut table) = stopped(&["p1.1"]);
    for (packet, answer) in [
        ("qfThreadInfo", "mp1.20000010,p1.20000020"),
        ("qsThreadInfo", "l"),
        ("qC", "QCp1.20000010"),
        ("Tp1.20000020", "OK"),
        ("Tp1.20000030", "E01"),
        ("Hgp1.20000030", "E01"),
        ("Hgp0.0", "OK"),
        ("g", "01010101"),
        ("Hgp1.20000020", "OK"),
        ("g", "xx20"),
        ("pf", "20000000"),
        ("p1a", "pass"),
        ("p1b", "xxxxxxxx"),
        ("p1c", "xxxxxxxxxxxxxxxx"),
        ("p63", "E01"),
        ("m20000000,4", "pass"),
        ("m100,2", "bfbf"),
        ("X20000000,0:", "pass"),
        ("Z0,100,2", "pass"),
        ("qThreadExtraInfo,p1.20000020", "7432303030303032303a207761697473"),
        ("qXfer:features:read:target.xml:0,ff", "pass"),
        ("qCRC:0,4", "pass"),
        ("qAttached:1", "pass"),
        ("vCont?", "pass"),
        ("QThreadSuffixSupported", ""),
        ("vCont;c:p1.-1", "instead vCont;c"),
    ] {
        assert_eq!(said(translator.request(packet.as_bytes(), &mut table)), answer, "{packet}");
    }
    let refused = {
        translator.reply(Answered::Stop, b"S05", &mut table);
        translator.request(b"Hg20000020", &mut table);
        said(translator.request(b"Pf=00000000", &mut table))
    };
    assert!(refused.starts_with("E.thread t20000020 does not run"), "{refused}");
}

#[test]
fn the_list_comes_in_parts() {
    let (mut translator, mut table) = stopped(&["1"]);
    let (mut document, mut at) = (String::new(), 0);
    loop {
        let part = said(translator.request(format!("qXfer:threads:read::{at:x},40").as_bytes(), &mut table));
        document.push_str(&part[1..]);
        at += part.len() - 1;
        if part.starts_with('l') {
            break;
        }
    }
    assert!(document.contains("<thread id=\"p1.20000020\" name=\"t20000020\">waits</thread>"), "{document}");
    assert_eq!(table.asked, ["list"], "it is made once");
}

/// The first answer looks like a step that is done, so that a debugger gets over its breakpoint; the second ends a
/// debugger's stepping towards a line that never comes.
#[test]
fn a_suspended_thread_is_not_stepped_for_ever() {
    let (mut translator, mut table) = stopped(&["p1.1"]);
    let first = said(translator.request(b"vCont;s:p1.20000020;c:p1.-1", &mut table));
    assert!(first.ends_with(" T05thread:p1.20000020;") && first.starts_with('O'), "{first}");
    let second = said(translator.request(b"vCont;s:p1.20000020;c:p1.-1", &mut table));
    assert!(second.ends_with(" T00thread:p1.20000020;"), "{second}");
    assert!(!table.asked.iter().any(|asked| asked == "Stop"), "nothing ran");
    assert_eq!(said(translator.request(b"vCont;c", &mut table)), "instead vCont;c");
}

/// The kernel switches in the middle of a step: a debugger that gets another thread with the signal of a step takes that for a
/// signal of the program.
#[test]
fn a_step_that_ends_in_another_thread_ends_in_its_own() {
    for (reply, breakpoint, reported) in [
        ("T05thread:p1.1;", false, WAITS),
        ("T05thread:p1.1;", true, RUNS),
        ("T05thread:p1.1;swbreak:;", false, RUNS),
        ("T02thread:p1.1;", false, RUNS),
    ] {
        let (mut translator, mut table) = stopped(&["p1.1"]);
        table.runs = WAITS;
        translator.reply(Answered::Stop, b"T05thread:p1.1;", &mut table);
        if breakpoint {
            translator.request(b"Z0,100,2", &mut table);
        }
        assert_eq!(said(translator.request(b"vCont;s:p1.20000020;c", &mut table)), "instead vCont;s:p1.1");
        table.runs = RUNS;
        let got = translator.reply(Answered::Stop, reply.as_bytes(), &mut table);
        let got = String::from_utf8_lossy(&got[0]).into_owned();
        assert!(got.starts_with(&format!("{}thread:p1.{reported:x};", &reply[..3])), "{reply}: {got}");
    }
}

#[test]
fn what_was_read_is_dropped_when_it_may_have_changed() {
    for (packet, dropped) in [
        ("M20000000,1:00", "All"),
        ("qRcmd,7265736574", "All"),
        ("vFlashDone", "All"),
        ("Pf=00000000", "Registers"),
        ("Z0,100,2", "Code"),
        ("z0,100,2", "Code"),
        ("vCont;c", "Stop"),
        ("c", "Stop"),
        ("bs", "Stop"),
    ] {
        let (mut translator, mut table) = stopped(&["1"]);
        translator.request(packet.as_bytes(), &mut table);
        assert_eq!(table.asked.last().map(String::as_str), Some(dropped), "{packet}");
    }
}

#[test]
fn where_the_stub_shows_threads_all_passes() {
    let mut table = Table { begun: Begun::Threads, ..Table::new(&[]) };
    let mut translator = Translator::new(false);
    let features = b"PacketSize=400;qXfer:threads:read+".to_vec();
    assert_eq!(translator.reply(Answered::Features, &features, &mut table), [features]);
    assert!(!translator.is_on() && translator.take_lines()[0].contains("the stub shows threads itself"));
    assert_eq!(translator.request(b"qfThreadInfo", &mut table), Todo::Pass);
    // An RTOS that the stub finds later.
    let (mut translator, mut table) = stopped(&["1"]);
    table.begun = Begun::Threads;
    translator.request(b"vCont;c", &mut table);
    let reply = translator.reply(Answered::Stop, b"T05thread:20001234;", &mut table);
    assert_eq!(reply.last().unwrap(), b"T05thread:20001234;");
    assert!(reply.len() == 2 && !translator.is_on());
}

#[test]
fn non_stop_mode_is_not_translated() {
    let (mut translator, mut table) = stopped(&["1"]);
    assert_eq!(translator.request(b"QNonStop:1", &mut table), Todo::Pass);
    assert!(!translator.is_on());
    assert_eq!(translator.request(b"vCont;t:20000010", &mut table), Todo::Pass);
}

/// What is not understood is for the stub.
#[test]
fn an_action_that_is_not_known_passes_and_so_does_all_after_it() {
    let (mut translator, mut table) = stopped(&["1"]);
    assert_eq!(translator.request(b"vCont;Q:20000010", &mut table), Todo::Pass);
    assert!(!translator.is_on() && translator.take_lines()[0].contains("not supported"));
    assert_eq!(translator.reply(Answered::Stop, b"T05thread:1;", &mut table), [b"T05thread:1;".to_vec()]);
}

#[test]
fn the_list_is_offered_where_the_stub_has_none() {
    for (features, offered) in [
        ("PacketSize=400", "PacketSize=400;qXfer:threads:read+"),
        ("PacketSize=400;qXfer:threads:read-", "PacketSize=400;qXfer:threads:read+"),
        ("qXfer:threads:read+;a+", "qXfer:threads:read+;a+"),
        ("", ""),
        ("E01", "E01"),
    ] {
        let (mut translator, mut table) = (Translator::new(false), Table::new(&["1"]));
        let reply = translator.reply(Answered::Features, features.as_bytes(), &mut table);
        assert_eq!(String::from_utf8_lossy(&reply[0]), offered);
    }
}

/// Memory is read through any CPU, registers through the thread's own.
#[test]
fn each_thread_is_read_through_its_cpu() {
    let (mut translator, mut table) = stopped(&["p1.1", "p1.2"]);
    translator.request(b"m20000000,4", &mut table);
    translator.request(b"p1a", &mut table);
    assert_eq!(table.asked, ["select 0", "select 0"]);
}

#[test]
fn nonsense_neither_panics_nor_answers_wrong() {
    let (mut translator, mut table) = stopped(&["1"]);
    let mut seed = 1_u64;
    for _ in 0..20_000 {
        let mut byte = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as u8
        };
        let heads: [&[u8]; 12] = [
            b"vCont;",
            b"H",
            b"T",
            b"p",
            b"q",
            b"qXfer:threads:read::",
            b"Z",
            b"s",
            b"qThreadExtraInfo,",
            b"g",
            b"",
            b"Hg",
        ];
        let mut packet = heads[usize::from(byte()) % heads.len()].to_vec();
        let len = byte() % 12;
        let set = b"0123456789abcdefp.-;:,cCsSr\xff\x00#";
        packet.extend((0..len).map(|_| set[usize::from(byte()) % set.len()]));
        translator.request(&packet, &mut table);
        translator.reply(Answered::Stop, &packet, &mut table);
        translator.reply(Answered::Actions, &packet, &mut table);
        if !translator.is_on() {
            (translator, table) = stopped(&["1"]);
        }
    }
}
