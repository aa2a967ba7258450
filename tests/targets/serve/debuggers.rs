//! Scripted sessions of real debuggers.

use std::process::Command;

use super::image::{CORE, Image, RAM};
use super::tools::{Done, binary, fixture, gdb, installed, run};

/// Runs GDB over these commands; what it prints and what it complains of, in the order of a terminal.
pub fn session(commands: &[&str]) -> String {
    let mut inner = gdb("gdb-multiarch");
    inner.args(["-nh", "-batch", "-iex", "set width 0", "-iex", "set height 0", "-iex", "set confirm off"]);
    // Whether the sources are there is another matter.
    inner.args(["-iex", "set print frame-info location"]);
    for command in commands {
        inner.args(["-ex", &format!("echo (gdb) {}\\n", command.replace('\\', "\\\\"))]);
        inner.args(["-ex", command]);
    }
    inner.arg("cm3.elf");
    let mut both = Command::new("sh");
    both.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(inner.get_program()).args(inner.get_args());
    both.current_dir(fixture(""));
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => both.env(name, value),
            None => both.env_remove(name),
        };
    }
    run(&mut both).out
}

/// Compares with a golden; the port is no part of it.
fn golden(name: &str, text: &str) {
    let path = format!("{}/tests/golden/serve/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = text.lines().zip(want.lines()).position(|(a, b)| a != b);
    assert!(
        text == want,
        "{name}: line {} differs from {path} (UPDATE_GOLDEN=1 takes the new one)\n{text}",
        differs.map_or(0, |n| n + 1)
    );
}

/// The part of a session that one command printed.
pub fn of<'a>(session: &'a str, command: &str) -> &'a str {
    let text = session.split_once(&format!("(gdb) {command}\n")).unwrap_or_else(|| panic!("{command}: {session}")).1;
    text.split("\n(gdb) ").next().unwrap()
}

const LOOK: &[&str] = &[
    "info threads",
    "thread apply all bt",
    "thread 4",
    "info registers",
    "frame 2",
    "info locals",
    "print *t",
    "x/4wx &_tx_thread_created_ptr",
    "x/3i $pc",
    "disassemble /r port_restore",
    "monitor help",
    "monitor tx-trace last 3",
    "monitor tx-trace threads",
    "monitor tx-trace last 3 --elf other.elf",
    "monitor tx-trace dump -o x.core",
    "monitor reset halt",
    "monitor nonsense",
];

const REFUSED: &[&str] = &[
    "continue",
    "stepi",
    "next",
    "finish",
    "until",
    "break fault_spin",
    "hbreak mk_mutex_get",
    "continue",
    "watch _tx_thread_created_count",
    "continue",
    "set $r5 = 1",
    "print $r5",
    "set variable _tx_thread_created_count = 3",
    "print _tx_thread_created_count",
    "print mk_pick()",
    "info threads",
];

#[test]
fn a_session_of_gdb_on_a_core() {
    require!(installed(&["gdb-multiarch"]));
    let image = Image::serve(&CORE);
    let target = format!("target remote :{}", image.port);
    let commands: Vec<&str> = [&[&*target][..], LOOK, REFUSED, &["detach"]].concat();
    let text = session(&commands).replace(&format!(":{}", image.port), ":PORT");
    golden("core", &text);
    // Each suspended thread stands in the service that it is blocked in.
    let all = of(&text, "thread apply all bt");
    for (thread, service) in [("control", "mk_mutex_get"), ("sensor", "mk_queue_send"), ("comms", "mk_semaphore_get")] {
        let from = all.split_once(&format!("\"{thread}\"")).unwrap().1;
        assert!(from.split("\nThread ").next().unwrap().contains(service), "{thread}: {from}");
    }
    // A second client finds it as the first did.
    let again =
        session(&[&target, "info threads", "kill", "info threads"]).replace(&format!(":{}", image.port), ":PORT");
    assert_eq!(of(&again, "info threads"), of(&text, "info threads"));
    let third = session(&[&target, "info threads", "detach"]);
    assert_eq!(of(&third, "info threads"), of(&text, "info threads"));
    assert!(!image.said().contains("disconnected"), "{}", image.said());
}

/// A monitor line draws what the shell draws; `export` writes files, and is refused.
#[test]
fn a_monitor_line_draws_a_timeline() {
    require!(installed(&["gdb-multiarch"]));
    let image = Image::serve(&CORE);
    let target = format!("target remote :{}", image.port);
    let around = "monitor tx-trace timeline --around 110";
    let text = session(&[&target, around, "monitor tx-trace export -o x.json", "detach"]);
    let words = ["timeline", "--width", "80", "--around", "110", &fixture("cm3.elf"), &fixture("cm3.core")];
    let wanted = crate::support::tools::shell(&words);
    assert_eq!(of(&text, around).trim_end(), wanted.out.trim_end());
    assert!(of(&text, "monitor tx-trace export -o x.json").contains("error: "), "{text}");
}

/// The same by a pipe, on RAM alone: nothing tells the registers of the thread that ran.
#[test]
fn a_session_of_gdb_by_stdio_on_ram() {
    require!(installed(&["gdb-multiarch"]));
    let target = format!("target remote | {} serve --stdio {}", binary(), RAM.join(" "));
    let commands: Vec<&str> = [&[&*target][..], &["thread 1", "info registers"], LOOK, REFUSED, &["detach"]].concat();
    let text = session(&commands).replace(binary(), "tx-trace");
    golden("ram", &text);
    assert!(of(&text, "info registers").contains("pc             <unavailable>"), "{text}");
}

/// What a crash log printed takes the place of what the dump does not hold.
#[test]
fn registers_that_were_typed() {
    require!(installed(&["gdb-multiarch"]));
    let image = Image::serve(&[RAM[0], RAM[1], "--reg", "pc=0x1d74", "--reg", "sp=0x20002f20", "--reg", "lr=0x1d93"]);
    let text = session(&[&format!("target remote :{}", image.port), "info threads", "p/x $pc", "p/x $r4", "detach"]);
    assert!(of(&text, "p/x $pc").ends_with("= 0x1d74") && of(&text, "p/x $r4").contains("unavailable"), "{text}");
    assert!(of(&text, "info threads").contains("* 1    Thread 536891096 \"watchdog\" (running, priority 1)"), "{text}");
}

/// At the start of the fault handler, as a crash log prints it. `msp` is what `sp` is in an exception; GDB said "Register 91
/// is not available", of every thread.
#[test]
fn psp_alone_was_not_enough_for_gdb() {
    require!(installed(&["gdb-multiarch"]));
    let log = ["--reg", "pc=0x2540", "--reg", "sp=0x20007fa0", "--reg", "lr=0xfffffffd", "--reg", "xpsr=0x1000003"];
    let look = |psp: &[&str]| {
        let image = Image::serve(&[&RAM[..], &log, psp].concat());
        session(&[&format!("target remote :{}", image.port), "bt", "thread apply all bt", "p $msp", "detach"])
    };
    // The fixture's thread was in this function, with its registers there.
    let text = look(&["--reg", "psp=0x20002f00"]);
    let all = of(&text, "thread apply all bt");
    assert!(of(&text, "bt").contains("#0  record_write ("), "GDB begins at the crash: {text}");
    assert!(all.contains("#1  <signal handler called>\n#2  record_write ("), "the CPU: {text}");
    assert!(of(&text, "p $msp").contains("0x20007fa0") && !text.contains("Register 91"), "{text}");
    assert_eq!(all.matches("mk_thread_shell () at kernel.c").count(), 8, "every thread to its start: {text}");
    // Without it GDB took the main stack for the thread's, and showed the caller of another function.
    let text = look(&[]);
    assert!(!of(&text, "bt").contains("port_start"), "{text}");
    assert_eq!(of(&text, "thread apply all bt").matches("mk_thread_shell () at kernel.c").count(), 8, "{text}");
}

/// The same log without `xpsr`, and what QEMU writes for a Cortex-M, does not say that the CPU is in an exception; `lr` does.
/// `psp` was dropped, and GDB took the main stack for the thread's: it showed a caller that there was not.
#[test]
fn psp_was_dropped_where_only_lr_says_that_it_is_an_exception() {
    require!(installed(&["gdb-multiarch"]));
    let look = |lr: &str, psp: &[&str]| {
        let log = ["--reg", "pc=0x2540", "--reg", "sp=0x20007fa0", "--reg", lr];
        let image = Image::serve(&[&RAM[..], &log, psp].concat());
        let target = format!("target remote :{}", image.port);
        session(&[&target, "p $msp", "p $psp", "bt", "thread apply all bt", "detach"])
    };
    let text = look("lr=0xfffffffd", &["--reg", "psp=0x20002f00"]);
    assert!(of(&text, "bt").contains("#1  <signal handler called>\n#2  record_write ("), "{text}");
    assert!(of(&text, "p $msp").contains("0x20007fa0"), "{text}");
    let all = of(&text, "thread apply all bt");
    assert_eq!(all.matches("mk_thread_shell () at kernel.c").count(), 8, "every thread to its start: {text}");
    // In a function that the handler called: `psp` is in the stack of the thread that runs, and `sp` is not.
    let text = look("lr=0x1d93", &["--reg", "psp=0x20002f00"]);
    assert!(of(&text, "p $msp").contains("0x20007fa0") && of(&text, "p $psp").contains("0x20002f00"), "{text}");
    for lr in ["lr=0xfffffffd", "lr=0xffffffed", "lr=0xffffffbc", "lr=0xfffffff1"] {
        let text = look(lr, &[]);
        let of_first = of(&text, "bt");
        assert!(of_first.contains("Register 92 is not available") && !of_first.contains("#1"), "{lr}: {text}");
        let all = of(&text, "thread apply all bt");
        assert_eq!(all.matches("mk_thread_shell () at kernel.c").count(), 8, "all that do not run: {text}");
    }
    // Thread mode on the main stack, and `lr` after a reset: PSP has no part in these.
    for lr in ["lr=0xfffffff9", "lr=0xffffffff"] {
        let text = look(lr, &[]);
        assert!(!of(&text, "bt").contains("Register 92"), "{lr}: {text}");
    }
}

/// GDB goes on behind the exception by whatever is at PSP.
#[test]
fn a_frame_at_psp_without_its_thumb_bit_was_taken_without_a_word() {
    require!(installed(&["gdb-multiarch"]));
    for (psp, doubt) in [("psp=0x20002f00", false), ("psp=0x20002f04", true)] {
        let image = Image::serve(&["cm3.elf", "cm3.core", "--reg", psp]);
        let text = session(&[&format!("target remote :{}", image.port), "info threads", "detach"]);
        let first = of(&text, "info threads").lines().find(|l| l.starts_with('*')).unwrap();
        let how = if doubt { "in" } else { "interrupted by" };
        assert!(first.contains(&format!("\"watchdog\" (running, {how} exception 3 (HardFault), priority 1")), "{text}");
        assert_eq!(first.contains("at 0x20002f04 there are none of a thread: pc 0x"), doubt, "{text}");
    }
}

/// The CPU was in a handler, and no thread ran: its line did not say so, nor in which.
#[test]
fn a_handler_above_idle_had_no_name() {
    require!(installed(&["gdb-multiarch"]));
    let scratch = std::env::temp_dir().join(format!("tx-trace-above-idle-{}", std::process::id()));
    let mut ram = std::fs::read(fixture("cm3.ram.bin")).unwrap();
    let nm = |name: &str| {
        let symbols = std::process::Command::new("nm").arg(fixture("cm3.elf")).output().unwrap().stdout;
        let symbols = String::from_utf8(symbols).unwrap();
        let line = symbols.lines().find(|l| l.ends_with(&format!(" {name}"))).unwrap();
        usize::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap() - 0x2000_0000
    };
    for name in ["_tx_thread_current_ptr", "_tx_thread_execute_ptr"] {
        ram[nm(name)..][..4].fill(0);
    }
    std::fs::write(&scratch, ram).unwrap();
    let ram = format!("{}@0x20000000", scratch.display());
    let words = ["--elf", "cm3.elf", "--image", &ram, "--reg", "xpsr=0x01000024", "--reg", "pc=0x1d74"];
    let image = Image::serve(&[&words[..], &["--reg", "sp=0x20002c00"]].concat());
    let text = session(&[&format!("target remote :{}", image.port), "info threads", "detach"]);
    let first = of(&text, "info threads").lines().find(|l| l.starts_with('*')).unwrap();
    let what = "\"CPU\" (no thread runs: the CPU is in exception 36 (IRQ 20), which came while idle)";
    assert!(first.contains(what), "{text}");
    std::fs::remove_file(&scratch).unwrap();
}

/// A position-independent program was elsewhere than GDB thought: its variables were not to be read.
#[test]
fn gdb_did_not_know_where_a_program_was_loaded() {
    require!(installed(&["gdb-multiarch"]));
    let image = Image::serve(&["host.elf", "host.core"]);
    let mut inner = gdb("gdb-multiarch");
    inner.args(["-nh", "-batch", "-iex", "set confirm off", "-ex", &format!("target remote :{}", image.port)]);
    inner.args(["-ex", "print &watchdog", "-ex", "print watchdog.tx_thread_name", "-ex", "detach", "host.elf"]);
    inner.current_dir(fixture(""));
    let text = run(&mut inner).out;
    assert!(text.contains("0x555555560940 <watchdog>") && text.contains("\"watchdog\""), "{text}");
}

/// A fixture in which nothing begins as a thread does, under a name of its own.
struct WithoutThreads(std::path::PathBuf);

impl WithoutThreads {
    fn of(name: &str) -> Self {
        let mut bytes = std::fs::read(fixture(name)).unwrap();
        while let Some(at) = bytes.windows(4).position(|w| w == b"DRHT") {
            bytes[at] = 0;
        }
        let path = std::env::temp_dir().join(format!("tx-trace-no-threads-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for WithoutThreads {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// No kernel that can be read: the CPU alone, with the registers of the core.
#[test]
fn without_a_kernel_there_is_the_cpu() {
    require!(installed(&["gdb-multiarch"]));
    let core = WithoutThreads::of("cm3.core");
    let image = Image::serve(&["cm3.stripped.elf", core.name()]);
    assert!(image.said().contains("no threads of a kernel"), "{}", image.said());
    let target = format!("target remote :{}", image.port);
    let text = session(&[&target, "info threads", "bt 1", "monitor tx-trace last 1", "detach"]);
    let threads = of(&text, "info threads");
    assert!(threads.contains("* 1    Thread 1 \"CPU\" (its registers, as the core has them) fault_spin ()"), "{text}");
    assert!(of(&text, "monitor tx-trace last 1").contains("tx_thread_identify"), "{text}");
}

/// A stripped program had none of its threads here.
#[test]
fn threads_of_a_stripped_program_are_served() {
    require!(installed(&["gdb-multiarch"]));
    let image = Image::serve(&["cm3.stripped.elf", "cm3.core"]);
    let text = session(&[&format!("target remote :{}", image.port), "info threads", "detach"]);
    let threads = of(&text, "info threads");
    assert!(threads.contains("\"control\" (suspended on mutex bus_mutex owned by low_task, priority 4)"), "{text}");
    assert!(image.said().contains("found through the trace's registry"), "{}", image.said());
}

/// Nothing but memory: GDB attaches, and its thread list says that no program counter is known.
#[test]
fn where_nothing_is_known_of_registers() {
    require!(installed(&["gdb-multiarch"]));
    let ram = WithoutThreads::of("cm3.ram.bin");
    let image = Image::serve(&["cm3.stripped.elf", &format!("{}@0x20000000", ram.name())]);
    let text =
        session(&[&format!("target remote :{}", image.port), "info threads", "x/wx 0x20000000", "p $sp", "detach"]);
    assert!(of(&text, "info threads").contains("pc 0 is reported"), "{text}");
    assert!(
        of(&text, "p $sp").contains("unavailable") && of(&text, "x/wx 0x20000000").contains("0x20000000"),
        "{text}"
    );
}

/// A process's core: its threads, or the kernel's on stacks of its own.
#[test]
fn other_processors() {
    require!(installed(&["gdb-multiarch"]));
    for (files, named) in [(["host.elf", "host.core"], "System Timer Thread"), (["smp.elf", "smp.core"], "0x")] {
        let image = Image::serve(&files);
        let target = format!("target remote :{}", image.port);
        let mut inner = gdb("gdb-multiarch");
        inner.args(["-nh", "-batch", "-ex", &target, "-ex", "info threads", "-ex", "bt 3", "-ex", "continue"]);
        inner.args(["-ex", "detach", files[0]]).current_dir(fixture(""));
        let Done { out, err, .. } = run(&mut inner);
        assert!(!err.contains("Could not read registers"), "{files:?}: {out}{err}");
        assert!(
            out.contains("* 1 ") && out.contains(named) && format!("{out}{err}").contains("it cannot run"),
            "{files:?}: {out}{err}"
        );
        assert!(out.contains("detached"), "{files:?}: {out}{err}");
    }
}

/// A processor of which no register is known: the ELF was given, and is not asked for again.
#[test]
fn a_processor_that_is_not_known_is_named() {
    let image = Image::serve(&["be.elf", "be.core"]);
    let said = image.said();
    assert!(said.contains("this processor (PowerPC)") && !said.contains("--elf"), "{said}");
}

#[test]
fn lldb_attaches_and_lists_the_threads() {
    require!(installed(&["lldb"]));
    let image = Image::serve(&CORE);
    let mut lldb = Command::new("lldb");
    lldb.args(["--no-lldbinit", "-b", "-o", &format!("gdb-remote 127.0.0.1:{}", image.port)]);
    for line in ["thread list", "thread select 4", "bt", "register read sp"] {
        lldb.args(["-o", line]);
    }
    lldb.args(["-o", "continue", "cm3.elf"]).current_dir(fixture(""));
    let Done { out, err, .. } = run(&mut lldb);
    for name in ["watchdog", "System Timer Thread", "startup", "control", "sensor", "comms", "filter", "low_task"] {
        assert!(out.contains(&format!("name = '{name}'")), "{name}: {out}\n{err}");
    }
    for part in ["`mk_mutex_get(", "`control_entry(", "sp = 0x200034ec", "it cannot run", "Process 1 stopped"] {
        assert!(out.contains(part), "{part}: {out}\n{err}");
    }
    assert!(!out.contains("0xcccccccc"), "{out}");
    assert!(!image.said().contains("disconnected"), "{}", image.said());
}

/// What `docs/serve.md` shows is what happens.
#[test]
fn the_sessions_of_the_document() {
    require!(installed(&["gdb-multiarch"]));
    let document = std::fs::read_to_string(format!("{}/docs/serve.md", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let shown: Vec<&str> =
        document.lines().filter_map(|l| l.strip_prefix("    ").or(l.is_empty().then_some(""))).collect();
    let all = shown.join("\n");
    let from = all.find("(gdb) target remote :3333\n").expect("a session");
    let block = &all[from..];
    let end = block.find("(gdb) detach").expect("its end");
    let block = &block[..end];
    let commands: Vec<&str> = block.lines().filter_map(|l| l.strip_prefix("(gdb) ")).collect();
    assert!(commands.len() >= 6, "{commands:?}");
    let image = Image::serve(&CORE);
    let target = format!("target remote :{}", image.port);
    let typed: Vec<&str> = commands.iter().map(|c| if *c == "target remote :3333" { &*target } else { c }).collect();
    let happens = session(&typed).replace(&target, "target remote :3333");
    let lines = |text: &str| -> Vec<String> {
        // A document has no lines of more than a hundred columns: what it leaves out it marks.
        text.lines().map(|l| l.trim_end().to_owned()).filter(|l| !l.is_empty()).collect()
    };
    let (shown, happens) = (lines(block), lines(&happens));
    let mut rest = happens.iter();
    for line in &shown {
        let fits = |real: &&String| match line.split_once("...") {
            Some((head, tail)) => real.starts_with(head) && real.ends_with(tail),
            None => *real == line,
        };
        assert!(rest.by_ref().any(|real| fits(&real)), "`{line}` does not follow in\n{}", happens.join("\n"));
    }
}

/// The registers of the thread that the server chose were taken for those of the CPU.
#[test]
fn a_dump_without_registers_has_none_over_serve() {
    let image = Image::serve(&RAM);
    let remote = format!("127.0.0.1:{}", image.port);
    let (elf, ram) = (fixture("cm3.elf"), format!("{}@0x20000000", fixture("cm3.ram.bin")));
    let ours = |words: &[&str]| run(Command::new(binary()).args(words)).out;
    let last = ours(&["last", "1", "--elf", &elf, "--remote", &remote]);
    assert!(last.contains("now: in an interrupt; watchdog is the running thread"), "{last}");
    assert_eq!(last, ours(&["last", "1", &elf, &ram]));
    let threads = ours(&["threads", "--elf", &elf, "--remote", &remote, "--width", "200"]);
    let watchdog = threads.lines().find(|line| line.starts_with("* watchdog")).unwrap();
    assert!(!watchdog.contains("port_restore"), "{threads}");
}
