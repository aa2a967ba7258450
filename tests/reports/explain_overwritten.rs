//! `explain` over the RAM of the healthy fixture, or of another one, with words that were written over: control blocks, stacks, pools.
//! What was overwritten is the first finding, or nothing is claimed of what is in order.
#![cfg(all(unix, feature = "cli"))]

use std::path::Path;

use serde_json::Value;

use super::explain_failures::{RAM, explain, parts, word};
use super::support::machine::{Scratch, fixture, symbol, tx_trace};

/// The healthy run's RAM with words written over, explained with its ELF.
fn explain_damaged(name: &str, words: &[(usize, u32)]) -> Vec<Value> {
    explain_damaged_with(name, words, &[])
}

/// The same with more options.
fn explain_damaged_with(name: &str, words: &[(usize, u32)], options: &[&str]) -> Vec<Value> {
    let scratch = Scratch::new(name);
    let elf = fixture("failure.elf").display().to_string();
    let (mut ram, _) = parts(&fixture("failure-healthy.core.gz"));
    for (address, word) in words {
        let at = address - RAM.0;
        ram[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    let image = scratch.path("ram.bin");
    std::fs::write(&image, ram).unwrap();
    explain(&[&[elf.as_str(), &format!("{}@{:#x}", image.display(), RAM.0)], options].concat())
}

/// "Nothing wrong found" and exit code 0 of a dump that does not hold the kernel where the ELF says it is.
#[test]
fn nothing_was_found_in_a_kernel_that_was_not_read() {
    let scratch = Scratch::new("explain-no-kernel");
    let elf = fixture("failure.elf").display().to_string();
    let (ram, _) = parts(&fixture("failure-healthy.core.gz"));
    let image = scratch.path("ram.bin");
    std::fs::write(&image, ram).unwrap();
    let explained = |elf: &str, image: &Path, at: usize| {
        let out = tx_trace(&["explain", elf, &format!("{}@{at:#x}", image.display())]);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (out.status.code(), text(out.stdout), text(out.stderr))
    };
    let (code, said, _) = explained(&elf, &image, RAM.0);
    assert!(code == Some(0) && said.starts_with("Nothing wrong found\n"), "{said}");
    for at in [RAM.0 + 0x1000, RAM.0 + 0x1000_0000] {
        let (code, said, error) = explained(&elf, &image, at);
        assert!(said.starts_with("Nothing wrong found, but threads, waits and stacks were not"), "{said}");
        assert!(said.contains("\n\nDoubtful: ") && code != Some(0), "{code:?} {said}");
        assert!(error.contains("error: "), "{error}");
    }
    // No trace either: the error is about the memory, and not about how the program was built.
    let without = fixture("cm3-notrace.elf").display().to_string();
    let (code, said, error) = explained(&without, &fixture("cm3-notrace.ram.bin"), RAM.0 + 0x1000);
    assert!(code != Some(0) && said.is_empty() && !error.contains("without its event trace"), "{error}");
    assert!(error.contains("check that the ELF belongs to this memory"), "{error}");
}

/// "What kind of fault is not known": the kernel went on with a thread whose saved registers were overwritten while it slept, by another one
/// that still had the address of a local variable.
#[test]
fn saved_registers_that_were_overwritten_were_not_looked_at() {
    const WRITER: usize = 0x2000_2ff4;
    const READER: usize = 0x2000_30a8;
    let elf = fixture("failure.elf");
    let address = |name: &str| usize::try_from(symbol(&elf, name) & !1).unwrap();
    let (ram, _) = parts(&fixture("failure-healthy.core.gz"));
    let saved = |thread: usize| word(&ram, thread + 8 - RAM.0);
    // r4 to r11 and lr are below what the exception pushed.
    let (pushed, other) = (saved(READER) + 36, saved(WRITER) + 36 + 32 + 8);
    let found = |name: &str, report: &[u32], psp: usize| {
        let current = (address("_tx_thread_current_ptr"), u32::try_from(READER).unwrap());
        let pointer = (other, u32::try_from(pushed - 16).unwrap());
        let report = (pushed..).step_by(4).zip(report.iter().copied());
        let words: Vec<(usize, u32)> = [current, pointer].into_iter().chain(report).collect();
        let registers = [
            format!("pc={:#x}", address("HardFault_Handler")),
            "lr=0xfffffffd".to_owned(),
            "xpsr=0x1000003".to_owned(),
            "sp=0x20007f80".to_owned(),
            format!("psp={psp:#x}"),
        ];
        let options: Vec<&str> = registers.iter().flat_map(|register| ["--reg", register]).collect();
        explain_damaged_with(name, &words, &options).into_iter().next().expect("a finding")
    };
    let report = [1, 2, 3, 4, 6096, 11_920, 266, 1000];
    for psp in [pushed, pushed + 36] {
        let first = found("resumed", &report, psp);
        assert_eq!([&first["code"], &first["confidence"]], ["usage-fault", "likely"], "{first}");
        let claim = first["claim"].as_str().unwrap();
        assert!(claim.contains("reader was to go on") && claim.contains("perhaps by writer"), "{claim}");
    }
    // They are as they were, or the stack pointer is elsewhere.
    for first in [found("resumed-whole", &[], pushed), found("resumed-elsewhere", &report, pushed + 64)] {
        assert!(!first["claim"].as_str().unwrap().contains("was to go on"), "{first}");
    }
}

/// Text over a thread that is below the top of the main stack. It is likely where the dump has memory of that stack.
#[test]
fn the_main_stack_that_overflowed_into_a_control_block_was_not_named() {
    const WRITER: usize = 0x2000_2ff4;
    const READER: usize = 0x2000_30a8;
    const TOP: usize = 0x2000_7ff0;
    let explained = |thread: usize, end: usize, top: usize| {
        let text = (thread + 8..end).step_by(4).enumerate().map(|(n, at)| (at, 0x3334_3536 + n as u32));
        let words: Vec<(usize, u32)> = text.chain([(TOP, u32::try_from(top).unwrap())]).collect();
        explain_damaged_with("main-stack", &words, &["--symbol", &format!("_tx_thread_system_stack_ptr={TOP:#x}")])
    };
    // `reader` ends 4 bytes below this address, `writer` at its own.
    for (thread, top, confidence) in [(READER, READER + 184, "likely"), (WRITER, WRITER + 180, "hint")] {
        let findings = explained(thread, top, top);
        let first = findings.iter().find(|finding| finding["code"] == "stack-overflow").expect("a finding");
        assert_eq!(first["confidence"], confidence, "{first}");
        assert!(first["claim"].as_str().unwrap().starts_with("the main stack ("), "{first}");
        assert!(confidence == "hint" || first["rank"] == 1, "{findings:?}");
    }
    // Where other variables are between, it was none of the main stack.
    let findings = explained(WRITER, WRITER + 180, WRITER + 180 + 0x800);
    assert!(findings.iter().all(|finding| finding["code"] != "stack-overflow"), "{findings:?}");
}

/// `the list of threads is broken: the entry at 0x200030a8 points to ..`, without a name and without evidence.
#[test]
fn a_control_block_that_leads_out_of_memory_was_not_named() {
    const READER: usize = 0x2000_30a8;
    let text = (READER + 8..READER + 0xB0).step_by(4).map(|at| (at, 0x3736_3534));
    let findings = explain_damaged("astray", &text.collect::<Vec<_>>());
    let first = findings.first().expect("a finding");
    assert_eq!([&first["code"], &first["confidence"]], ["corrupt-control-block", "likely"], "{first}");
    let claim = first["claim"].as_str().unwrap();
    assert!(claim.starts_with("thread reader was overwritten: ") && claim.contains("(\"4567\")"), "{claim}");
    let evidence = first["evidence"].to_string();
    assert!(evidence.contains("its stack of ") && evidence.contains("a priority or threshold of "), "{evidence}");
    // The rest of the block is in order: the dump may be a part of memory.
    let (ram, _) = parts(&fixture("failure-healthy.core.gz"));
    let threads = [0x2000_2ff4, 0x2000_2f40, 0x2000_29d4, 0x2000_2e8c];
    let next = (0x20..0xB0).step_by(4).find(|at| threads.contains(&word(&ram, READER + at - RAM.0))).unwrap();
    let findings = explain_damaged("elsewhere", &[(READER + next, 0x6000_0010)]);
    let first = findings.first().expect("a finding");
    assert_eq!([&first["code"], &first["confidence"]], ["corrupt-control-block", "hint"], "{first}");
    assert!(first["detractors"].to_string().contains("may lack the memory"), "{first}");
}

/// A stack that is larger than its memory, which the kernel filled over a queue that was created before.
#[test]
fn the_stack_whose_fill_is_in_a_control_block_was_not_named() {
    const THREAD: usize = 0x2000_2ff4;
    const QUEUE: usize = 0x2000_2aa8;
    let stack = [(12, 0x2000_2a80), (16, 0x2000_2b7f), (20, 0x100)].map(|(offset, word)| (THREAD + offset, word));
    let fill = (QUEUE..QUEUE + 60).step_by(4).map(|at| (at, 0xEFEF_EFEF));
    let findings = explain_damaged("filled-queue", &stack.into_iter().chain(fill).collect::<Vec<_>>());
    let all = format!("{findings:?}");
    assert!(
        all.contains("records, in the stack of writer, was overwritten") && all.contains("created (writer)"),
        "{all}"
    );
}

/// One control block that was written over was taken for an ELF of another build, which made every finding a hint.
#[test]
fn damaged_control_blocks_were_taken_for_another_elf() {
    // All but two of the threads, behind the id and the run count: stack, entry and name are gone.
    let threads = ["0x200030a8", "0x20002ff4", "0x20002f40", "0x200029d4", "0x20002e8c"];
    let at = |text: &str| usize::from_str_radix(&text[2..], 16).unwrap();
    let blocks = threads.iter().map(|text| at(text));
    let words: Vec<(usize, u32)> =
        blocks.flat_map(|at| (8..0x90).step_by(4).map(move |n| (at + n, 0x3130_3938))).collect();
    let findings = explain_damaged("damaged-blocks", &words);
    let first = findings.first().expect("a finding");
    assert_eq!((&first["code"], &first["confidence"]), (&"corrupt-control-block".into(), &"likely".into()), "{first}");
    let all = format!("{findings:?}");
    assert!(
        !all.contains("not known to be of this build") && !all.contains("the ELF is of another build, and"),
        "{all}"
    );
}

/// A callback wrote 100 and a number of ticks into the control block of a thread: "its stack was used to its end", at 0x794.
#[test]
fn a_start_of_a_stack_that_was_overwritten_was_an_overflow() {
    const READER: usize = 0x2000_30a8;
    let findings = explain_damaged("start-of-stack", &[(READER + 8, 0x64), (READER + 12, 0x794)]);
    let first = findings.first().expect("a finding");
    assert_eq!([&first["code"], &first["confidence"]], ["corrupt-control-block", "likely"], "{first}");
    let claim = first["claim"].as_str().unwrap();
    assert!(claim.contains("thread reader was overwritten: it says that the stack begins at 0x794"), "{claim}");
    assert!(claim.contains("the saved stack pointer is 0x64") && claim.ends_with(" say 0x20003160"), "{claim}");
    assert!(findings.iter().all(|finding| finding["code"] != "stack-overflow"), "{findings:?}");
    // Without a start that can be no stack, nothing shows which of the members is wrong.
    let moved = explain_damaged("moved-stack", &[(READER + 12, 0x2000_3180)]);
    assert!(moved.iter().any(|finding| finding["code"] == "corrupt-control-block"), "{moved:?}");
    assert!(moved.iter().all(|finding| finding["confidence"] == "hint"), "{moved:?}");
    let longer = explain_damaged("longer-stack", &[(READER + 20, 0x4000_0000)]);
    assert!(!format!("{longer:?}").contains("it says that the stack begins at"), "the size is wrong: {longer:?}");
}

/// A thread whose calls return at once, as BASEPRI keeps the switch back: "the count of the queue was written past the end of what is in
/// front of it".
#[test]
fn waits_that_a_queue_counts_and_that_have_ended_were_damage() {
    const WRITER: usize = 0x2000_2ff4;
    const QUEUE: usize = 0x2000_2aa8;
    let elf = fixture("failure.elf");
    let [current, entry] = ["_tx_thread_current_ptr", "writer_entry"].map(|name| symbol(&elf, name) as usize);
    let words = [(current, WRITER as u32), (QUEUE + 44, 1000)];
    let pc = format!("pc={:#x}", (entry & !1) + 8);
    let registers = [pc.as_str(), "sp=0x200036a0", "xpsr=0x01000000", "basepri=0x40", "primask=0"];
    let options: Vec<&str> = registers.iter().flat_map(|register| ["--reg", register]).collect();
    let findings = explain_damaged_with("counted-waits", &words, &options);
    let first = findings.first().expect("a finding");
    assert_eq!(first["code"], "interrupts-masked", "{first}");
    assert!(first["evidence"].to_string().contains("queue records counts 1000 waits, and 1 thread waits"), "{first}");
    // A count of a moment is one more or one less.
    let findings = explain_damaged_with("counted-once", &[words[0], (QUEUE + 44, 2)], &options);
    assert!(!format!("{findings:?}").contains("counts 2 waits, and"), "{findings:?}");
}

/// A thread that was created with a preemption-threshold of 0 keeps all others off, the thread of the kernel's timers, too.
#[test]
fn a_threshold_that_a_thread_was_created_with_was_not_named() {
    const CRUNCHER: usize = 0x2000_29d4;
    let current = symbol(&fixture("failure.elf"), "_tx_thread_current_ptr") as usize;
    let of = |name: &str, threshold: u32| {
        let words = [(current, CRUNCHER as u32), (CRUNCHER + 48, 0), (CRUNCHER + 60, threshold)];
        // The functions of the fixture's kernel have other names.
        let options = ["--symbol", "_tx_thread_create=0x8f4"];
        let findings = explain_damaged_with(name, &words, &options);
        findings.into_iter().find(|finding| finding["code"] == "starvation")
    };
    let found = of("threshold-0", 0).expect("a finding");
    let claim = found["claim"].as_str().unwrap();
    assert!(claim.starts_with("cruncher (priority 11) goes on with preemption-threshold 0, and "), "{found}");
    assert!(claim.contains("System Timer Thread") && claim.contains("it was created with it"), "{found}");
    assert_eq!(found["confidence"], "hint", "{found}");
    assert_eq!(of("threshold-own", 11), None, "its priority");
}

/// `the object at 0x0 was overwritten` was said of the variable that leads to the list.
#[test]
fn the_head_of_a_list_was_called_the_object_at_0() {
    let head = super::support::machine::symbol(&fixture("failure.elf"), "_tx_mutex_created_ptr");
    let findings = explain_damaged("damaged-head", &[(usize::try_from(head).unwrap(), 0x1179)]);
    let claim = findings.first().expect("a finding")["claim"].as_str().unwrap();
    assert!(claim.starts_with("_tx_mutex_created_ptr was overwritten: "), "{claim}");
    assert!(!format!("{findings:?}").contains("object at 0x0"), "{findings:?}");
}

/// A queue that was created with more bytes than its storage has: its messages overwrite what is behind it.
#[test]
fn storage_of_a_queue_that_reaches_over_other_objects_was_not_named() {
    let queue = 0x2000_2aa8;
    let (ram, _) = parts(&fixture("failure-healthy.core.gz"));
    let member = |offset: usize| word(&ram, queue + offset - RAM.0);
    let (size, start, capacity) = (member(8), member(24), 0x1000 / 4);
    let words = [(12, capacity), (20, capacity), (28, start + capacity * size * 4)];
    let words = words.map(|(offset, word)| (queue + offset, u32::try_from(word).unwrap()));
    let findings = explain_damaged("large-queue", &words);
    let first = findings.first().expect("a finding");
    assert_eq!((&first["code"], &first["confidence"]), (&"corrupt-control-block".into(), &"likely".into()), "{first}");
    let claim = first["claim"].as_str().unwrap();
    assert!(claim.starts_with("the storage of queue records (") && claim.contains(" reaches over "), "{claim}");
}

/// The stack that a pool reaches over was said to be too small.
#[test]
fn memory_of_a_pool_that_reaches_over_a_stack_was_an_overflow_of_that_stack() {
    // Blocks of 16 bytes, each with a pointer in front.
    let (pool, total, start, size) = (0x2000_2b70, 12, 20, 24);
    let stacks = usize::try_from(super::support::machine::symbol(&fixture("failure.elf"), "stacks")).unwrap();
    let findings = |blocks: usize| {
        let of_pool = [(total, blocks), (start, stacks - 40), (size, 20 * blocks), (8, 0)];
        let words = of_pool.map(|(offset, word)| (pool + offset, u32::try_from(word).unwrap()));
        // A block that is free leads to the next one.
        let written = (0..20).map(|word| (stacks + 4 * word, 0x2000_2b70));
        explain_damaged(&format!("large-pool-{blocks}"), &words.into_iter().chain(written).collect::<Vec<_>>())
    };
    let is_of_pool = |finding: &Value| {
        let claim = finding["claim"].as_str().unwrap();
        claim.starts_with("the memory of block pool buffers (") && claim.contains(" reaches over the stack of ")
    };
    let large = findings(10);
    let first = large.first().expect("a finding");
    assert_eq!((&first["code"], &first["confidence"]), (&"corrupt-control-block".into(), &"likely".into()), "{first}");
    assert!(is_of_pool(first), "{first}");
    assert!(!large.iter().any(|finding| finding["code"] == "stack-overflow"), "{large:?}");
    // It ends where the stack begins: that was used up.
    let fits = findings(2);
    assert!(!fits.iter().any(is_of_pool), "{fits:?}");
    assert!(fits.iter().any(|finding| finding["code"] == "stack-overflow"), "{fits:?}");
}

/// The fixture's threads are bound to cores, which its control blocks do not show: core 0 may be free for the owner.
#[test]
fn an_inversion_on_several_cores_was_likely_though_one_of_them_idles() {
    for words in [&["smp.elf", "smp.core"][..], &["smp.trx"]] {
        let words: Vec<String> = words.iter().map(|name| fixture(name).display().to_string()).collect();
        let findings = explain(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let first = findings.first().expect("a finding");
        assert_eq!((&first["code"], &first["confidence"]), (&"priority-inversion".into(), &"hint".into()), "{first}");
        assert!(first["detractors"].to_string().contains("tx_thread_smp_core_exclude"), "{first}");
    }
}

/// A thread that has ended was said to be the only one that put a semaphore, though another one calls the same function through a
/// table of pointers.
#[test]
fn a_function_that_is_called_through_a_pointer_gave_nothing() {
    for build in ["use", "use-other"] {
        let [elf, core] = [format!("{build}.elf"), format!("{build}-by_pointer.core.gz")].map(|name| fixture(&name));
        let findings = explain(&[&elf.display().to_string(), &core.display().to_string()]);
        assert!(findings.is_empty(), "{findings:?}");
    }
}

/// Two threads had all blocks of a pool and waited for more, though a register of the CPU had the address of one: who runs may
/// release it.
#[test]
fn a_block_that_a_register_has_was_taken_for_one_of_those_who_wait() {
    let scratch = Scratch::new("register-has");
    let elf = fixture("resource.elf").display().to_string();
    let (ram, mut registers) = parts(&fixture("resource-hold_and_wait.core.gz"));
    let image = scratch.path("ram.bin");
    std::fs::write(&image, ram).unwrap();
    let image = format!("{}@{:#x}", image.display(), RAM.0);
    let explained = |registers: &[String]| {
        let options: Vec<&str> = registers.iter().flat_map(|pair| ["--reg", pair.as_str()]).collect();
        explain(&[&[elf.as_str(), image.as_str()], options.as_slice()].concat())
    };
    let findings = explained(&registers);
    assert_eq!(findings[0]["code"], "deadlock", "{findings:?}");
    let evidence = findings[0]["evidence"].as_array().unwrap();
    let block = evidence.iter().find(|one| one["kind"] == "stack").unwrap()["value"].as_str().unwrap().to_owned();
    let r8 = registers.iter_mut().find(|pair| pair.starts_with("r8=")).unwrap();
    *r8 = format!("r8={block}");
    let findings = explained(&registers);
    assert!(findings.iter().all(|finding| finding["code"] != "deadlock"), "{findings:?}");
}

/// A fault that no pointer caused was said to come from the pointer of the instruction at which it was seen.
#[test]
fn the_pointer_of_another_fault_was_blamed() {
    let [elf, core] =
        ["resource.elf", "resource-released_object.core.gz"].map(|name| fixture(name).display().to_string());
    let is_named = |cfsr: &str| {
        let findings = explain(&[&elf, &core, "--reg", &format!("cfsr={cfsr}")]);
        findings[0]["claim"].as_str().unwrap().contains("the pointer was read from")
    };
    assert!(is_named("0x100"), "IBUSERR");
    assert!(!is_named("0x400"), "IMPRECISERR: some instructions before");
    assert!(!is_named("0x80000"), "NOCP: the FPU is off");
}

/// The place was a number of bytes in a struct, and that an array ends there was not said.
#[test]
fn the_array_in_front_of_the_address_of_a_fault_was_not_named() {
    let logged = super::support::machine::symbol(&fixture("failure.elf"), "logged");
    let [elf, core] = ["failure.elf", "failure-healthy.core.gz"].map(|name| fixture(name).display().to_string());
    let first = |at: u64| {
        let mmfar = format!("mmfar={at:#x}");
        let findings =
            explain(&[elf.as_str(), &core, "--reg", "xpsr=0x1000004", "--reg", "cfsr=0x82", "--reg", mmfar.as_str()]);
        findings.first().expect("a finding").clone()
    };
    let behind = first(logged + 32);
    let claim = behind["claim"].as_str().unwrap();
    assert!(claim.contains("(in logged.records.tx_queue_id); that is the first element behind"), "{claim}");
    assert!(claim.contains("behind the array logged.line[8]"), "{claim}");
    assert!(behind["next"].as_str().unwrap().contains("an index of logged.line is one too large"), "{behind}");
    for (at, place) in
        [(28, "(in logged.line[7])"), (34, "(in logged.records.tx_queue_id+0x2)"), (0, "(in logged.line[0])")]
    {
        let claim = first(logged + at)["claim"].as_str().unwrap().to_owned();
        assert!(claim.ends_with(place), "{claim}");
    }
}

/// Only how many bytes are in front of the block was said.
#[test]
fn the_array_in_front_of_a_control_block_that_was_overwritten_was_not_named() {
    let files = [("queue_overwritten", "logged"), ("thread_overwritten", "parsed")];
    for (name, variable) in files {
        let [elf, core] = ["failure.elf".to_owned(), format!("failure-{name}.core.gz")]
            .map(|name| fixture(&name).display().to_string());
        let findings = explain(&[elf.as_str(), core.as_str()]);
        let first = findings.first().expect("a finding");
        let wanted = format!("the array {variable}.line[8], which ends in front of it, in {variable} itself");
        assert!(first["next"].as_str().unwrap().contains(&wanted), "{first}");
    }
}

/// For minutes: each of many segments that hold code and variables was compared with each of many sections.
#[test]
fn an_elf_of_many_segments_and_sections_kept_explain_busy() {
    const MANY: usize = 60_000;
    let mut elf = std::fs::read(fixture("use.elf")).unwrap();
    let (segments, sections) = (word(&elf, 28), word(&elf, 32));
    let [len, count, section_len, section_count] =
        [42, 44, 46, 48].map(|at| usize::from(u16::from_le_bytes([elf[at], elf[at + 1]])));
    let header = |words: [u32; 10], len: usize| words.map(u32::to_le_bytes).concat()[..len].to_vec();
    let mut all = elf[segments..segments + len * count].to_vec();
    // PT_LOAD, readable, writable and executable.
    all.extend(header([1, 0, 0x6000_0000, 0x6000_0000, 0, 0x1000_0000, 7, 1, 0, 0], len).repeat(MANY - count));
    let at_sections = elf.len() + all.len();
    all.extend(&elf[sections..sections + section_len * section_count]);
    for n in section_count..MANY {
        // SHT_NOBITS, allocated, of code.
        let address = 0x6000_0000 + u32::try_from(n).unwrap() * 16;
        all.extend(header([0, 8, 6, address, 0, 8, 0, 0, 1, 0], section_len));
    }
    let at_segments = elf.len();
    let mut set = |at: usize, value: &[u8]| elf[at..at + value.len()].copy_from_slice(value);
    set(28, &u32::try_from(at_segments).unwrap().to_le_bytes());
    set(32, &u32::try_from(at_sections).unwrap().to_le_bytes());
    let many = u16::try_from(MANY).unwrap().to_le_bytes();
    set(44, &many);
    set(48, &many);
    elf.extend(all);
    let scratch = Scratch::new("many-segments");
    let path = scratch.path("many.elf");
    std::fs::write(&path, elf).unwrap();
    let core = fixture("use-healthy.core.gz").display().to_string();
    let begun = std::time::Instant::now();
    assert!(explain(&[path.display().to_string().as_str(), core.as_str()]).is_empty(), "the system is healthy");
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
}

/// A store at an index below 0 wrote to the count of a mutex that nobody had: "it may be a moment in the middle of a call of the kernel",
/// though the CPU was in none.
#[test]
fn a_mutex_that_nobody_has_and_that_is_counted_was_a_moment() {
    let address = usize::try_from(symbol(&fixture("failure.elf"), "config_lock")).unwrap();
    let (_, registers) = parts(&fixture("failure-healthy.core.gz"));
    let options: Vec<&str> = registers.iter().flat_map(|pair| ["--reg", pair.as_str()]).collect();
    let first = |name: &str, options: &[&str]| {
        let found = explain_damaged_with(name, &[(address + 8, 2)], options).into_iter().next().expect("a finding");
        let text = |name: &str| found[name].as_str().unwrap().to_owned();
        (text("code"), text("confidence"), text("claim"))
    };
    let said = |confidence: &str| {
        let claim = "mutex config lock: it is owned 2 times, by no thread".to_owned();
        ("corrupt-control-block".to_owned(), confidence.to_owned(), claim)
    };
    assert_eq!(first("counted-by-none", &options), said("likely"));
    assert_eq!(first("counted-without-registers", &[]), said("hint"));
}

/// The return address behind the first call of a function, in a file whose code begins at address 0 and at this offset.
fn behind_call(elf: &[u8], function: u32) -> u32 {
    const TEXT: usize = 0x1000;
    let calls = |at: u32| {
        let offset = function.wrapping_sub(at + 4);
        let sign = offset >> 31;
        // J1 and J2 are set where the distance is small (Armv7-M Architecture Reference Manual, A7.7.18).
        let halves = [0xF000 | sign << 10 | (offset >> 12 & 0x3FF), 0xF800 | (offset >> 1 & 0x7FF)];
        let bytes: Vec<u8> = halves.iter().flat_map(|half| (*half as u16).to_le_bytes()).collect();
        elf[TEXT + at as usize..].starts_with(&bytes)
    };
    (0..0x2000).step_by(2).find(|at| calls(*at)).expect("a call") + 4 + 1
}

/// Nothing was found, or a thread whose return address was damaged, where interrupts had overflowed the main stack into the stack of a
/// thread below it.
#[test]
fn the_main_stack_that_overflowed_into_a_stack_was_not_named() {
    const TOP: usize = 0x2000_7ff0;
    // The last variable of the program, the stacks of its threads, ends here.
    const END: usize = 0x2000_4960;
    const MAIN: usize = END + 0x200;
    let elf = fixture("failure.elf");
    // What it calls has a frame of nine words.
    let back = behind_call(&std::fs::read(&elf).unwrap(), u32::try_from(symbol(&elf, "mk_mutex_get") & !1).unwrap());
    let found = |name: &str, words: &[(usize, u32)]| {
        let used = (0..16).map(|n| (END + 64 + 4 * n, 0x100 + n as u32));
        let words: Vec<(usize, u32)> =
            used.chain([(TOP, u32::try_from(MAIN).unwrap())]).chain(words.iter().copied()).collect();
        let option = format!("_tx_thread_system_stack_ptr={TOP:#x}");
        let all = explain_damaged_with(name, &words, &["--symbol", &option]);
        all.into_iter().find(|finding| finding["code"] == "stack-overflow")
    };
    let own = u32::try_from(END + 0x80).unwrap();
    let above: Vec<(usize, u32)> = (0..4).map(|n| (END + 4 * n, n as u32 + 7)).collect();
    let spilled = [above.as_slice(), &[(END - 8, own), (END - 20, own + 8), (END - 12, back)]].concat();
    let claim = |found: Option<Value>| found.expect("a finding")["claim"].as_str().unwrap().to_owned();
    let words = claim(found("main-stack-words", &spilled));
    assert!(words.starts_with("the main stack (512 bytes below 0x20004b60)"), "{words}");
    assert!(words.contains("overflowed into the stack of ") && words.contains("words of a stack are there"), "{words}");
    assert_eq!(found("main-stack-one", &[above.as_slice(), &[(END - 8, own), (END - 12, back)]].concat()), None);
    let reaches = claim(found("main-stack-frame", &[(END + 4, back)]));
    assert!(reaches.contains("overflowed into the stack of "), "{reaches}");
    assert_eq!(found("main-stack-room", &[(END + 0x100, back)]), None, "its frame has room");
}

/// "Nothing wrong found": a thread was ready by its state, and in no list of ready threads.
#[test]
fn a_ready_thread_that_is_in_no_list_was_healthy() {
    const READER: usize = 0x2000_30a8;
    // The kernel's array of lists, in a program whose kernel calls it otherwise.
    let lists = symbol(&fixture("failure.elf"), "ready");
    let option = format!("_tx_thread_priority_list={lists:#x}");
    // `tx_thread_state` in the control block of this program.
    const STATE: usize = 0x30;
    let found = |name: &str, words: &[(usize, u32)]| {
        let all = explain_damaged_with(name, words, &["--symbol", &option]);
        all.into_iter().find(|finding| finding["claim"].as_str().unwrap().contains("in no list of ready threads"))
    };
    assert_eq!(found("ready-lists", &[]), None, "the others are in their lists");
    let lost = found("ready-lost", &[(READER + STATE, 0)]).expect("a finding");
    assert_eq!([&lost["code"], &lost["confidence"]], ["corrupt-control-block", "likely"], "{lost}");
    assert!(lost["claim"].as_str().unwrap().starts_with("reader is ready"), "{lost}");
}

/// "No code sets the flag" was said of a thread whose wait an interrupt had begun in its place.
#[test]
fn a_wait_that_an_interrupt_began_was_that_of_the_thread() {
    const WRITER: usize = 0x2000_2ff4;
    let elf = fixture("failure.elf");
    let (ram, _) = parts(&fixture("failure-healthy.core.gz"));
    // r4 to r11 and lr are below what the exception pushed, of which pc is the seventh word.
    let pc = word(&ram, WRITER + 8 - RAM.0) + 36 + 24;
    let own = u32::try_from(symbol(&elf, "writer_entry") & !1).unwrap();
    let all = explain_damaged("outer-wait", &[(pc, own)]);
    let found = all.iter().find(|finding| finding["code"] == "wrong-context").expect("a finding");
    assert_eq!(found["confidence"], "hint", "no handler of the program waits for it: {found}");
    let claim = found["claim"].as_str().unwrap();
    assert!(claim.starts_with("writer waits for queue records, and it was interrupted in writer_entry"), "{claim}");
    let healthy = explain_damaged("own-wait", &[]);
    assert!(healthy.iter().all(|finding| finding["code"] != "wrong-context"), "{healthy:?}");
}

/// "Proven: the stack of the thread that is current overflowed", where the kernel's check had found that of a thread which it resumed.
#[test]
fn the_current_thread_was_said_to_have_the_stack_that_a_check_found() {
    const READER: u32 = 0x2000_30a8;
    let elf = fixture("failure.elf");
    let (mut ram, registers) = parts(&fixture("failure-checked_overflow.core.gz"));
    let scratch = Scratch::new("explain-resumed");
    let mut found = |name: &str, current: Option<u32>| {
        let at = usize::try_from(symbol(&elf, "_tx_thread_current_ptr")).unwrap() - RAM.0;
        let current = current.unwrap_or(word(&ram, at) as u32);
        ram[at..at + 4].copy_from_slice(&current.to_le_bytes());
        let image = scratch.path(name);
        std::fs::write(&image, &ram).unwrap();
        let image = format!("{}@{:#x}", image.display(), RAM.0);
        // No register holds the argument of the handler, which runs on the stack of the current thread.
        let (kept, sp) = match current {
            READER => (["pc=", "xpsr="].as_slice(), Some("sp=0x200033bc")),
            _ => (["pc=", "xpsr=", "lr=", "sp="].as_slice(), None),
        };
        let is_kept = |pair: &&String| kept.iter().any(|name| pair.starts_with(name));
        let registers = registers.iter().filter(is_kept).map(String::as_str);
        let registers: Vec<&str> = registers.chain(sp).flat_map(|pair| ["--reg", pair]).collect();
        let elf = elf.display().to_string();
        let all = explain(&[&[elf.as_str(), &image], registers.as_slice()].concat());
        let is_it = |one: &Value| one["claim"].as_str().unwrap().contains("the kernel's check found it");
        all.into_iter().find(is_it).expect("a finding")
    };
    // Of a thread that is not the current one it is inferred.
    for (name, current, confidence) in [("own.bin", None, "proven"), ("other.bin", Some(READER), "likely")] {
        let one = found(name, current);
        assert!(one["claim"].as_str().unwrap().starts_with("the stack of cruncher "), "{one}");
        assert_eq!([&one["code"], &one["confidence"]], ["stack-overflow", confidence], "{one}");
    }
}

/// "Nothing wrong found": a thread was ready and in its list, and the kernel had no thread to run.
#[test]
fn a_ready_thread_that_the_kernel_does_not_run_was_healthy() {
    const TIMERS: u32 = 0x2000_2874;
    let elf = fixture("failure.elf");
    let [lists, execute] = ["ready", "_tx_thread_execute_ptr"].map(|name| usize::try_from(symbol(&elf, name)).unwrap());
    let option = format!("_tx_thread_priority_list={lists:#x}");
    let pc = format!("pc={:#x}", symbol(&elf, "PendSV_Handler"));
    // A word of this program in which the kernel could note the priorities of ready threads.
    let maps = usize::try_from(symbol(&elf, "no_waiters")).unwrap();
    let map = format!("_tx_thread_priority_maps={maps:#x}");
    // The system is idle, and the thread of timers is ready.
    let found = |name: &str, next: u32, xpsr: &str, bits: u32| {
        let options = ["--symbol", &option, "--symbol", &map, "--reg", &pc, "--reg", xpsr];
        let all = explain_damaged_with(name, &[(execute, next), (maps, bits)], &options);
        let is_it = |claim: &str| claim.contains("the kernel has no thread to run");
        all.into_iter().filter(|finding| is_it(finding["claim"].as_str().unwrap())).collect::<Vec<Value>>()
    };
    let idle = "xpsr=0x100000e";
    for (name, bits, confidence) in [("next-lost", 0, "likely"), ("next-noted", 1, "hint")] {
        let all = found(name, 0, idle, bits);
        let [lost] = all.as_slice() else { panic!("one for the most urgent: {all:?}") };
        assert_eq!([&lost["code"], &lost["confidence"]], ["corrupt-control-block", confidence], "{lost}");
        assert!(lost["claim"].as_str().unwrap().starts_with("System Timer Thread is ready, and"), "{lost}");
    }
    assert!(found("next-known", TIMERS, idle, 0).is_empty(), "it is the next one to run");
    assert!(
        found("next-handler", 0, "xpsr=0x1000015", 0).is_empty(),
        "a handler may have come in the middle of a call"
    );
}
