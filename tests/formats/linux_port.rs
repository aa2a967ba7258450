//! ThreadX's Linux port: each of its threads is a thread of the system, which its control block names by a `pthread_t`. The
//! cores here are built byte by byte; where things are is stated here as numbers.

#![cfg(feature = "cli")]

use crate::support::kernel::{Builder, LAYOUTS, Layout};
use crate::support::machine::{Scratch, tx_trace};
use serde_json::Value;

/// What differs between the two x86.
struct Machine {
    wide: bool,
    number: u16,
    /// In a control block: behind the links of the ready list.
    pthread: u64,
    /// Of an `NT_PRSTATUS`: its size, and where it has the number of the thread, `ip` and `sp`.
    status: [usize; 4],
}

const X86_64: Machine = Machine { wide: true, number: 62, pthread: 64, status: [336, 32, 112 + 16 * 8, 112 + 19 * 8] };
const I386: Machine = Machine { wide: false, number: 3, pthread: 40, status: [144, 24, 72 + 12 * 4, 72 + 15 * 4] };

/// A thread of the system.
struct Lwp {
    number: u32,
    pthread: u64,
    pc: u64,
}

/// Stacks of the system's threads are here: nowhere near those of the control blocks.
const SYSTEM_STACKS: u64 = 0xE000_0000;

impl Machine {
    /// The notes that the kernel of Linux writes for a thread.
    fn notes(&self, lwp: &Lwp, tls: bool) -> Vec<u8> {
        let [size, pid, ip, sp] = self.status;
        let word = if self.wide { 8 } else { 4 };
        let mut desc = vec![0; size];
        let mut put =
            |at: usize, value: u64, len: usize| desc[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
        put(pid, lwp.number.into(), 4);
        put(ip, lwp.pc, word);
        put(sp, SYSTEM_STACKS + u64::from(lwp.number) * 4096, word);
        if self.wide {
            // `fs_base`; the core of a process without threads has 0 there.
            put(112 + 21 * 8, if tls { lwp.pthread } else { 0 }, 8);
        } else {
            // `gs`: entry 12 of the table.
            put(72 + 10 * 4, 12 << 3 | 3, 4);
        }
        let mut out = note(b"CORE\0", 1, &desc);
        if !self.wide && tls {
            // Three entries of number, base, limit, flags: the one that is meant is not the first.
            let entries = [[11u32, 0x1234, 0, 0], [12, lwp.pthread as u32, 0xF_FFFF, 0x51], [13, 0, 0, 0x28]];
            let bytes: Vec<u8> = entries.iter().flatten().flat_map(|n| n.to_le_bytes()).collect();
            out.extend(note(b"LINUX\0", 0x200, &bytes));
        }
        out
    }

    /// A core: one segment of notes, one of memory.
    fn core(&self, lwps: &[Lwp], tls: bool, base: u64, memory: &[u8]) -> Vec<u8> {
        let notes: Vec<u8> = lwps.iter().flat_map(|lwp| self.notes(lwp, tls)).collect();
        let (word, header, entry) = if self.wide { (8, 64u64, 56u64) } else { (4, 52, 32) };
        let mut out = vec![0x7F, b'E', b'L', b'F', if self.wide { 2 } else { 1 }, 1, 1];
        out.resize(16, 0);
        let put = |out: &mut Vec<u8>, value: u64, len: usize| out.extend(&value.to_le_bytes()[..len]);
        for (value, len) in [(4, 2), (self.number.into(), 2), (1, 4), (0, word), (header, word), (0, word), (0, 4)] {
            put(&mut out, value, len);
        }
        for value in [header, entry, 2, 0, 0, 0] {
            put(&mut out, value, 2);
        }
        let (notes_at, memory_at) = (header + 2 * entry, header + 2 * entry + notes.len() as u64);
        for (kind, at, address, len) in
            [(4, notes_at, 0, notes.len() as u64), (1, memory_at, base, memory.len() as u64)]
        {
            put(&mut out, kind, 4);
            if self.wide {
                put(&mut out, 6, 4);
            }
            for value in [at, address, address, len, len] {
                put(&mut out, value, word);
            }
            if !self.wide {
                put(&mut out, 6, 4);
            }
            put(&mut out, 4, word);
        }
        out.extend(notes);
        out.extend(memory);
        out
    }
}

fn note(owner: &[u8], kind: u32, desc: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [owner.len() as u32, desc.len() as u32, kind] {
        out.extend(word.to_le_bytes());
    }
    for part in [owner, desc] {
        out.extend(part);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out
}

fn layout(name: &str) -> Layout {
    LAYOUTS.into_iter().find(|l| l.name == name).unwrap()
}

/// The kernel of the usual story, whose threads are these of the system; those of the system are in no order.
fn story(layout: Layout, machine: &Machine) -> (Builder, Vec<Lwp>) {
    let mut builder = Builder::new(layout, false).build();
    let names: Vec<&str> = builder.threads.iter().map(|t| t.name).collect();
    let mut lwps = vec![Lwp { number: 700, pthread: 0x7000_0000, pc: 0x40_0000 }];
    for (i, name) in (1..).zip(names) {
        let pthread = 0x7000_0000 + 0x1000 * i;
        builder.put(builder.thread(name) + machine.pthread, pthread, layout.pointer);
        // The one that is over has left the system.
        if name != "done" {
            lwps.push(Lwp { number: 700 + i as u32, pthread, pc: 0x40_0000 + 0x100 * i });
        }
    }
    lwps.reverse();
    (builder, lwps)
}

/// The rows of `threads`; words that come before those of the source are its options.
fn rows(words: &[&str]) -> Vec<Value> {
    let out = tx_trace(&[&["threads", "--format", "json"], words].concat());
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&out.stderr));
    let lines = text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
    lines.filter(|l| l["type"] == "row" && l["report"] == "threads").collect()
}

fn symbols(builder: &Builder) -> Vec<String> {
    builder.symbols().iter().flat_map(|(name, at)| ["--symbol".to_owned(), format!("{name}={at:#x}")]).collect()
}

#[test]
fn threads_were_not_those_of_the_system() {
    let scratch = Scratch::new("linux-port");
    for (name, machine) in [("Linux x86-64", X86_64), ("Linux, 32-bit", I386)] {
        let (builder, lwps) = story(layout(name), &machine);
        let core = scratch.path("x.core").display().to_string();
        std::fs::write(&core, machine.core(&lwps, true, builder.base, &builder.bytes())).unwrap();
        let symbols = symbols(&builder);
        let words: Vec<&str> = symbols.iter().map(String::as_str).chain([core.as_str()]).collect();
        let again = scratch.path("again.core").display().to_string();
        let dump = tx_trace(&[&["dump", "-o", &again], &words[..]].concat());
        assert_eq!(dump.status.code(), Some(0), "{}", String::from_utf8_lossy(&dump.stderr));
        for words in [&words[..], &[&again]] {
            let rows = rows(words);
            assert_eq!(rows.len(), 8, "{name}");
            for row in &rows {
                let index = builder.threads.iter().position(|t| row["thread"]["name"] == t.name).unwrap() + 1;
                let thread = &builder.threads[index - 1];
                let (lwp, at) = match thread.name {
                    "done" => (Value::Null, Value::Null),
                    _ => (
                        (700 + index).into(),
                        format!("{:#0w$x}", 0x40_0000 + 0x100 * index, w = machine.digits()).into(),
                    ),
                };
                assert_eq!((&row["lwp"], &row["at"]["address"]), (&lwp, &at), "{name}: {row}");
                for part in ["stack_pointer", "stack_used", "stack_high"] {
                    assert!(row[part].is_null(), "{name}: its stack is not in use: {row}");
                }
                assert!(row["stack_size"].is_u64(), "{name}: {row}");
            }
        }
        let table = tx_trace(&[&["threads", "--width", "160"], &words[..]].concat());
        let table = String::from_utf8(table.stdout).unwrap();
        assert!(table.contains("stacks of the operating system") && !table.contains("/256"), "{table}");
        assert!(table.lines().any(|l| l.starts_with("* watcher ") && l.contains(" 702 ")), "{table}");
    }
}

impl Machine {
    /// Characters of an address.
    fn digits(&self) -> usize {
        if self.wide { 18 } else { 10 }
    }
}

/// GDB's core of an i386 process has no `NT_386_TLS`: no thread is taken for another, nor for the first.
#[test]
fn where_nothing_tells_which_thread_it_is() {
    let scratch = Scratch::new("linux-port-unknown");
    for (name, machine) in [("Linux x86-64", X86_64), ("Linux, 32-bit", I386)] {
        let (builder, lwps) = story(layout(name), &machine);
        let core = scratch.path("x.core").display().to_string();
        std::fs::write(&core, machine.core(&lwps, false, builder.base, &builder.bytes())).unwrap();
        let symbols = symbols(&builder);
        let words: Vec<&str> = symbols.iter().map(String::as_str).chain([core.as_str()]).collect();
        for row in rows(&words) {
            assert!(row["lwp"].is_null() && row["at"].is_null() && row["stack_used"].is_null(), "{name}: {row}");
        }
        let said = tx_trace(&[&["threads"], &words[..]].concat());
        let said = String::from_utf8(said.stderr).unwrap();
        assert!(
            said.contains("this source does not show which thread of the operating system it is (7 times)"),
            "{said}"
        );
    }
}
