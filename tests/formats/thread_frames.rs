//! Where threads stand, and what their CPU does: frames of ports that were laid out here by hand, and cores of QEMU.

use std::collections::HashMap;

use crate::support::kernel::{Builder, LAYOUTS, Layout, STACK, Thread};
use tx_trace::abi::{Addr, Endian, Width};
use tx_trace::bytes::Bytes;
use tx_trace::code::Code;
use tx_trace::cpu::{Architecture, CodeRanges, Frames, Origin, Registers};
use tx_trace::debugger::Stopped;
use tx_trace::kernel::{About, Above, Detail, Kernel, Stacks, Stop, Under, reports};
use tx_trace::mem::segments::{Block, Segments};
use tx_trace::report::{Cell, Report};
use tx_trace::sym::{Symbol, Symbols};

const CORTEX_M: Layout = LAYOUTS[0];
const CORTEX_A: Layout = LAYOUTS[1];
const CORTEX_A64: Layout = LAYOUTS[4];

/// Names, functions and members, each stated by a test.
#[derive(Default)]
struct Names {
    variables: HashMap<String, u64>,
    functions: Vec<(&'static str, u64, u64)>,
    members: HashMap<(&'static str, &'static str), u64>,
}

impl Names {
    fn of(builder: &Builder) -> Self {
        Self { variables: builder.symbols().into_iter().collect(), ..Self::default() }
    }
}

impl Symbols for Names {
    fn lookup(&self, name: &str) -> Option<Symbol> {
        let address = *self.variables.get(name)?;
        Some(Symbol { name: name.to_owned(), address, size: 0 })
    }
    fn function(&self, address: Addr) -> Option<Symbol> {
        let (name, start, size) = *self.functions.iter().find(|(_, at, size)| (*at..at + size).contains(&address))?;
        Some(Symbol { name: name.to_owned(), address: start, size })
    }
    fn member_offset(&self, of: &str, member: &str) -> Option<u64> {
        self.members.iter().find(|((o, m), _)| *o == of && *m == member).map(|(_, offset)| *offset)
    }
}

fn stop(architecture: Architecture, cpus: Vec<Registers>) -> Stop {
    Stop { frames: Some(Frames::new(architecture, Endian::Little)), cpus, ..Stop::default() }
}

fn kernel(builder: &Builder, names: &Names, mut stop: Stop) -> Kernel {
    let mut memory = Segments::new(vec![Block::whole(builder.base, Bytes::from(builder.bytes()))]);
    // Debug information is used where the shape is known as well.
    let pointer = if builder.layout.pointer == 8 { Width::W8 } else { Width::W4 };
    let endian = (!names.members.is_empty()).then_some(Endian::Little);
    let about =
        About { symbols: names, endian, pointer: Some(pointer), names: &|_: Addr| None, registered: &[], stacks: true };
    let mut kernel = Kernel::read(&mut memory, &about).unwrap_or_else(|e| panic!("{e:?}"));
    kernel.place(&mut memory, &mut stop, names);
    kernel
}

fn thread<'k>(kernel: &'k Kernel, name: &str) -> &'k tx_trace::kernel::Thread {
    kernel.threads.iter().find(|t| t.label() == name).unwrap()
}

fn registers(architecture: Architecture, values: &[(&str, u64)]) -> Registers {
    let mut registers = Registers::new(architecture);
    values.iter().for_each(|(name, value)| assert!(registers.set(name, *value), "{name}"));
    registers
}

/// Gives a thread's frame as words from its saved stack pointer on.
fn frame(builder: &mut Builder, name: &str, words: &[u64], width: usize) {
    let sp = builder.at[&format!("stack {name}")] + (STACK - words.len() * width) as u64;
    builder.put(builder.thread(name) + builder.layout.stack_ptr as u64, sp, builder.layout.pointer);
    for (i, word) in words.iter().enumerate() {
        builder.put(sp + (i * width) as u64, *word, width);
    }
}

/// Every frame within a stack.
fn roomy(layout: Layout) -> Builder {
    let mut builder = Builder::new(layout, false);
    builder.threads.iter_mut().for_each(|t| (t.used, t.high) = (STACK, STACK));
    builder.fill = false;
    builder
}

/// Of two threads on a Cortex-A15 one uses the VFP; the code is not in the dump, and registers hold addresses of data:
/// by these the wrong kind of frame was taken, and the pc was a variable.
#[test]
fn a_frame_kind_was_guessed_and_the_pc_was_data() {
    let mut b = roomy(CORTEX_A).build();
    let data = b.thread("asleep");
    // Kernel call with VFP: type, CPSR, d8 to d31, fpscr, r4 to r11, lr. Where lr would be without it is d11.
    let mut words = vec![0, 0x6000_0013];
    words.extend(std::iter::repeat_n(data, 48));
    words.extend([0x10, 4, 5, 6, 7, 8, 9, 10, 11, 0x4000_8200]);
    frame(&mut b, "reader", &words, 4);
    // Without it: above are the thread's own variables, one of which is taken for lr with it.
    let mut words = vec![0, 0x6000_0013, 4, 5, 6, 7, 8, 9, 10, 11, 0x4000_8300];
    words.extend(std::iter::repeat_n(data, 52));
    frame(&mut b, "flagged", &words, 4);
    // Behind the links of the created list.
    let flag = |b: &mut Builder, name: &str, value| b.put(b.thread(name) + 144, value, 4);
    flag(&mut b, "reader", 1);
    let place = |b: &Builder, code: &str| {
        let stop = Stop { code: CodeRanges::from_text(code), ..stop(Architecture::Arm, vec![]) };
        kernel(b, &Names::of(b), stop)
    };
    let k = place(&b, "");
    let at = |k: &Kernel, name: &str| (thread(k, name).position.pc, thread(k, name).position.how.clone());
    assert_eq!(at(&k, "reader"), (Some(0x4000_8200), "switched out in a kernel call".to_owned()));
    assert_eq!(at(&k, "flagged"), (Some(0x4000_8300), "switched out in a kernel call".to_owned()));
    let of = thread(&k, "reader").position.registers.clone().unwrap();
    assert_eq!((of.get("r4"), of.get("d8"), of.get("fpscr")), (Some(4), Some(data << 32 | data), Some(0x10)));
    assert_eq!(of.sp(), Some(b.at["stack reader"] + STACK as u64));
    let of = thread(&k, "flagged").position.registers.clone().unwrap();
    assert_eq!((of.get("r11"), of.get("d8")), (Some(11), None));

    // A flag that was overwritten decides nothing; where the code is decides, and the result is reported.
    flag(&mut b, "reader", 0x2000_0000);
    assert_eq!(thread(&place(&b, ""), "reader").position.pc, None);
    let (pc, how) = at(&place(&b, "40008000-40008fff"), "reader");
    assert_eq!(pc, Some(0x4000_8200));
    assert!(how.contains("assumed to hold floating-point registers"), "{how}");

    // With the wrong flag the pc is data: the frame is shown, and marked.
    flag(&mut b, "reader", 0);
    let k = place(&b, "40008000-40008fff");
    let (pc, how) = at(&k, "reader");
    assert_eq!((pc, thread(&k, "reader").position.registers.is_some()), (Some(data & !1), true));
    assert!(how.ends_with(&format!("its pc {:#x} is not in the code of the program", data & !1)), "{how}");
    let issue = k.issues.iter().find(|i| i.code == Code::NoSavedFrame).unwrap();
    assert!(issue.message.contains("is not in the code") || issue.count > 1, "{issue:?}");
}

/// The same on a Cortex-A53, whose flag is at 248.
#[test]
fn a_frame_kind_was_guessed_on_64_bits_too() {
    let mut b = roomy(CORTEX_A64).build();
    let data = b.thread("asleep");
    // Kernel call: DAIF, 0, fpsr and fpcr, q14 q15 to q8 q9, x27 x28 to x19 x20, x29 x30.
    let mut words = vec![0x140, 0, 0, 0];
    words.extend(std::iter::repeat_n(data, 16));
    words.extend([27, 28, 25, 26, 23, 24, 21, 22, 19, 20, 29, 0x4000_8200]);
    frame(&mut b, "reader", &words, 8);
    let mut words = vec![0x140, 0, 27, 28, 25, 26, 23, 24, 21, 22, 19, 20, 29, 0x4000_8300];
    words.extend(std::iter::repeat_n(data, 18));
    frame(&mut b, "flagged", &words, 8);
    b.put(b.thread("reader") + 248, 1, 4);
    let mut names = Names::of(&b);
    both_kinds(&b, &names);
    // Debug information calls the flag by the name that a macro of the port's header gives it.
    names.members = members_of(CORTEX_A64);
    names.members.insert(("TX_THREAD_STRUCT", "_tx_thread_fp_enable"), 248);
    both_kinds(&b, &names);
}

fn both_kinds(b: &Builder, names: &Names) {
    let k = kernel(b, names, stop(Architecture::Aarch64, vec![]));
    for (name, pc, used) in [("reader", 0x4000_8200, 256), ("flagged", 0x4000_8300, 112)] {
        let stand = &thread(&k, name).position;
        assert_eq!((stand.pc, stand.how.as_str()), (Some(pc), "switched out in a kernel call"), "{name}");
        let r = stand.registers.as_ref().unwrap();
        assert_eq!((r.get("x19"), r.get("x28")), (Some(19), Some(28)), "{name}");
        assert_eq!(r.sp(), Some(b.at[&format!("stack {name}")] + STACK as u64 - 256 + used), "{name}");
    }
}

fn of_report(kernel: &Kernel, detail: Detail, name: &str) -> Report {
    reports(kernel, detail).into_iter().find(|r| r.name == name).unwrap()
}

/// What is printed of a CPU that runs no thread.
fn reported(kernel: &Kernel) -> String {
    // At this width all columns have room: no note says which width shows them.
    let notes = of_report(kernel, Detail::Summary { width: 200, all: false }, "threads").notes;
    notes.join("\n")
}

/// A cell of the one CPU.
fn cell(kernel: &Kernel, name: &str) -> Cell {
    let report = of_report(kernel, Detail::Full, "cpus");
    let index = report.columns.iter().position(|c| c.name == name).unwrap();
    report.rows[0][index].clone()
}

/// No thread is current in all of them; what the CPU does its status register says.
#[test]
fn a_handler_above_idle_was_called_idle() {
    let mut b = Builder::new(CORTEX_M, false);
    b.current = None;
    let b = b.build();
    let mut names = Names::of(&b);
    names.functions = vec![("UsageFault_Handler", 0x900, 2), ("__tx_ts_wait", 0xB82, 10), ("board_isr", 0x400, 16)];
    let of = |values: &[(&str, u64)]| {
        let cpus = if values.is_empty() { vec![] } else { vec![registers(Architecture::CortexM, values)] };
        kernel(&b, &names, stop(Architecture::CortexM, cpus))
    };
    let k = of(&[("xpsr", 0x6100_0003), ("pc", 0x900)]);
    assert_eq!(reported(&k), "no thread runs: the CPU is in exception 3 (HardFault), which came while idle");
    assert_eq!([cell(&k, "state"), cell(&k, "under")], ["exception", "idle"].map(|t| Cell::Text(t.to_owned())));
    assert_eq!(
        [cell(&k, "exception"), cell(&k, "exception_name")],
        [Cell::Count(3), Cell::Text("HardFault".to_owned())]
    );
    // The function's name is that of another exception: several share it.
    assert_eq!(cell(&k, "at"), Cell::Named(0x900, None));
    let k = of(&[("xpsr", 0x0100_0024), ("pc", 0x400)]);
    assert_eq!(reported(&k), "no thread runs: the CPU is in exception 36 (IRQ 20), which came while idle");
    assert_eq!((cell(&k, "exception"), cell(&k, "at")), (Cell::Count(36), Cell::Address(0x400)));
    // The reverse: this port waits in PendSV, with interrupts masked.
    for values in [
        &[("xpsr", 0x0100_000E), ("pc", 0xB84), ("primask", 1)][..],
        &[("xpsr", 0x0100_000E), ("pc", 0x8000)],
        // QEMU's core has no xPSR; where the CPU is tells.
        &[("pc", 0xB84)],
    ] {
        let k = of(values);
        assert_eq!(reported(&k), "no thread runs (idle)", "{values:?}");
        assert_eq!(cell(&k, "state"), Cell::Text("idle".to_owned()), "{values:?}");
    }
    // What nothing tells is not said to be idle.
    for (values, more) in [(&[][..], ""), (&[("xpsr", 0x6000_01F3), ("pc", 0x400)], "; the CPU is in board_isr")] {
        let k = of(values);
        let text = "no thread runs: idle, or in an exception that came while idle: the status register is not known";
        assert_eq!(reported(&k), format!("{text}{more}"), "{values:?}");
        assert_eq!(cell(&k, "state"), Cell::Empty, "{values:?}");
    }
}

/// An abort of other ARMs counts as no interrupt, and whose status register is not known may be in one; of a processor
/// that is not known nothing is known either.
#[test]
fn a_dump_without_registers_was_called_idle() {
    let mut b = Builder::new(CORTEX_A, false);
    b.current = None;
    let b = b.build();
    let arm = Some(Frames::new(Architecture::Arm, Endian::Little));
    for frames in [arm, None] {
        let k = kernel(&b, &Names::of(&b), Stop { frames, ..Stop::default() });
        let text = "no thread runs: idle, or in an exception that came while idle: the status register is not known";
        assert_eq!(reported(&k).lines().next(), Some(text), "{frames:?}");
        assert_eq!(cell(&k, "state"), Cell::Empty, "{frames:?}");
    }
    // The ports for x86 run on a host, whose exceptions are none of the kernel's.
    let host = Some(Frames::new(Architecture::X86, Endian::Little));
    let k = kernel(&b, &Names::of(&b), Stop { frames: host, ..Stop::default() });
    assert_eq!(reported(&k).lines().next(), Some("no thread runs (idle)"));
}

#[test]
fn what_is_to_run_next_and_what_has_not_begun() {
    let mut b = Builder::new(CORTEX_M, false);
    b.current = None;
    let mut b = b.build();
    let low = b.thread("low");
    // A variable of the builder that no list uses.
    let execute = b.at["_tx_thread_system_state"] + 4;
    b.put(execute, low, 4);
    let mut names = Names::of(&b);
    names.variables.insert("_tx_thread_execute_ptr".to_owned(), execute);
    let of = |b: &Builder, xpsr| {
        kernel(b, &names, stop(Architecture::CortexM, vec![registers(Architecture::CortexM, &[("xpsr", xpsr)])]))
    };
    let k = of(&b, 0x0100_000F);
    let text =
        "no thread runs: the CPU is in exception 15 (SysTick), which came while the scheduler ran; low is to run next";
    assert_eq!((reported(&k).as_str(), k.cpus[0].under), (text, Under::Scheduler(low)));
    assert_eq!(cell(&k, "next"), Cell::named(low, Some("low".to_owned())));
    assert_eq!(reported(&of(&b, 0x0100_000E)), "no thread runs: low is to run next");
    b.put(b.at["_tx_thread_system_state"], 0xF0F0_F0F0, 4);
    let text = "no thread runs: the scheduler has not been started; the CPU is in exception 3 (HardFault)";
    assert_eq!(reported(&of(&b, 0x0100_0003)), text);
}

/// In thread mode a Cortex-M runs its thread, wherever the stack pointer has come to: it was "interrupted, or in the
/// kernel".
#[test]
fn a_stack_pointer_below_the_stack_in_thread_mode() {
    let b = Builder::new(CORTEX_M, false).build();
    let below = b.at["stack watcher"] - 64;
    let cpu = registers(Architecture::CortexM, &[("xpsr", 0x0100_0000), ("pc", 0x8400), ("sp", below)]);
    let k = kernel(&b, &Names::of(&b), stop(Architecture::CortexM, vec![cpu]));
    let watcher = thread(&k, "watcher");
    assert_eq!((watcher.position.pc, watcher.stack.used), (Some(0x8400), None));
    let issue = k.issues.iter().find(|i| i.code == Code::StackPointerOutside).unwrap();
    assert!(issue.message.contains(&format!("watcher: its stack pointer {below:#x} is outside")), "{issue:?}");
}

/// The exception is named where the thread's own registers are known, too.
#[test]
fn the_exception_that_interrupted_a_thread_was_a_number() {
    let mut b = Builder::new(CORTEX_M, false).build();
    let psp = b.at["stack watcher"] + 128;
    for (i, word) in [0, 1, 2, 3, 12, 0x8101, 0x8200, 0x2100_0000].into_iter().enumerate() {
        b.put(psp + 4 * i as u64, word, 4);
    }
    let of = |values: &[(&str, u64)]| {
        kernel(&b, &Names::of(&b), stop(Architecture::CortexM, vec![registers(Architecture::CortexM, values)]))
    };
    let k = of(&[("xpsr", 0x0100_0003), ("pc", 0x900), ("psp", psp)]);
    assert_eq!(thread(&k, "watcher").position.pc, Some(0x8200));
    assert_eq!(reported(&k).lines().next(), Some("watcher: interrupted by exception 3 (HardFault)"));
    assert_eq!(k.cpus[0].above, Above::Exception(3, Some("HardFault".to_owned())));
    let k = of(&[("xpsr", 0x0100_0024), ("pc", 0x900)]);
    assert!(reported(&k).starts_with("watcher: interrupted by exception 36 (IRQ 20); its own"), "{}", reported(&k));
}

/// A PSP that was typed, and nothing else of the CPU: that the thread was interrupted is inferred from what is there, and
/// nothing said so; where nothing is there, "it runs" was all that was said.
#[test]
fn what_psp_alone_shows_was_not_marked() {
    let mut b = Builder::new(CORTEX_M, false).build();
    let psp = b.at["stack watcher"] + 128;
    for (i, word) in [0, 1, 2, 3, 12, 0x8101, 0x8200, 0x2100_0000].into_iter().enumerate() {
        b.put(psp + 4 * i as u64, word, 4);
    }
    let of = |psp| {
        let typed = vec![registers(Architecture::CortexM, &[("psp", psp)])];
        kernel(&b, &Names::of(&b), stop(Architecture::CortexM, typed))
    };
    let k = of(psp);
    let watcher = thread(&k, "watcher");
    assert_eq!((watcher.position.pc, watcher.stack.used), (Some(0x8200), Some(STACK as u64 - 128)));
    let how =
        format!("interrupted by an exception, which one is not known, as what an exception pushes is at psp={psp:#x}");
    assert_eq!((watcher.position.how.as_str(), reported(&k)), (how.as_str(), format!("watcher: {how}")));
    let k = of(psp + 64);
    assert_eq!(thread(&k, "watcher").position.pc, None);
    let none = format!("its own registers are at PSP, but at {:#x} there are none of a thread", psp + 64);
    assert!(reported(&k).contains(&none), "{}", reported(&k));
}

/// On processors whose ports count every trap a fault was "an interrupt"; and where the CPU is was a bare number.
#[test]
fn a_fault_was_called_an_interrupt_and_its_place_had_no_name() {
    let mut b = Builder::new(CORTEX_A64, false).build();
    let mut names = Names::of(&b);
    names.functions = vec![("trap_handler", 0x4000_9100, 64)];
    let cpu = || registers(Architecture::Aarch64, &[("pc", 0x4000_9104), ("sp", 0x4100_0000)]);
    let note = |b: &Builder, names: &Names| reported(&kernel(b, names, stop(Architecture::Aarch64, vec![cpu()])));
    let text = "interrupted, or in the kernel: the CPU is at 0x40009104 (trap_handler+0x4), on another stack";
    assert_eq!(note(&b, &names), format!("watcher: {text}"));
    b.put(b.at["_tx_thread_system_state"], 1, 4);
    let text =
        "interrupted: the CPU is in an interrupt or exception, at 0x40009104 (trap_handler+0x4), on another stack";
    assert_eq!(note(&b, &names), format!("watcher: {text}"));
    names.functions = vec![("trap_handler", 0x4000_9104, 64)];
    assert!(note(&b, &names).contains("at 0x40009104 (trap_handler), on"));
    names.functions.clear();
    assert!(note(&b, &names).contains("at 0x40009104, on"));
}

/// A Cortex-A leaves its stack pointer on the stack of the thread that ran last while it waits: that thread was given
/// the registers of the CPU.
#[test]
fn a_waiting_cpu_was_taken_for_the_thread_that_ran_last() {
    let mut b = roomy(CORTEX_A);
    b.current = None;
    let mut b = b.build();
    frame(&mut b, "reader", &[0, 0x6000_0013, 4, 5, 6, 7, 8, 9, 10, 11, 0x4000_8300], 4);
    let sp = b.at["stack reader"] + STACK as u64 - 44;
    let mut names = Names::of(&b);
    names.functions = vec![("__tx_thread_schedule_loop", 0x4000_9000, 64), ("data_abort", 0x4000_9100, 16)];
    let of = |b: &Builder, cpsr, pc| {
        let cpu = registers(Architecture::Arm, &[("cpsr", cpsr), ("pc", pc), ("sp", sp)]);
        kernel(b, &names, stop(Architecture::Arm, vec![cpu]))
    };
    let k = of(&b, 0x6000_0013, 0x4000_9008);
    assert_eq!(thread(&k, "reader").position.pc, Some(0x4000_8300));
    // One that has ended goes on nowhere, whose stack the CPU may still be on.
    assert_eq!(thread(&k, "done").position.pc, None);
    assert_eq!((reported(&k).lines().next(), k.cpus[0].above.clone()), (Some("no thread runs (idle)"), Above::Nothing));
    assert_eq!(
        reported(&of(&b, 0x13, 0x4000_9104)).lines().next(),
        Some("no thread runs (idle); the CPU is in data_abort")
    );
    let abort = "no thread runs: the CPU is in abort mode, which came while idle";
    assert_eq!(reported(&of(&b, 0x6000_0197, 0x4000_9104)).lines().next(), Some(abort));
    // The kernel counts interrupts itself.
    b.put(b.at["_tx_thread_system_state"], 1, 4);
    let isr = "no thread runs: the CPU is in an interrupt or exception, which came while idle";
    assert_eq!(reported(&of(&b, 0x1F, 0x4000_9104)).lines().next(), Some(isr));
}

/// A Cortex-M whose port has what modules need behind the links of the created list.
const MODULES: Layout = Layout { size: 232, own_priority: 200, owned_list: 216, ..CORTEX_M };
/// Those members, as the port lays them out.
const MODULE_MEMBERS: [(&str, u64); 6] = [
    ("tx_thread_module_instance_ptr", 144),
    ("tx_thread_module_kernel_stack_start", 164),
    ("tx_thread_module_kernel_stack_size", 172),
    ("tx_thread_module_stack_ptr", 176),
    ("tx_thread_module_stack_start", 180),
    ("tx_thread_module_stack_size", 188),
];

/// `reader` and `flagged` are a module's; `reader` waits in the kernel, on the stack of `done`; `flagged` was interrupted
/// on its own.
fn with_modules() -> Builder {
    let mut b = Builder::new(MODULES, false);
    b.threads.push(Thread::new("calls", 1, 12, 0));
    b.threads.push(Thread::new("others", 1, 12, 0));
    let mut b = b.build();
    for (name, calls, in_kernel) in [("reader", "calls", true), ("flagged", "others", false)] {
        let (at, own, kernel) = (b.thread(name), b.at[&format!("stack {name}")], b.at[&format!("stack {calls}")]);
        let values = [0x2000_9000, kernel, STACK as u64, own + 160 + 1, own, STACK as u64];
        for ((_, offset), value) in MODULE_MEMBERS.iter().zip(values) {
            b.put(at + offset, value, 4);
        }
        if in_kernel {
            // The kernel puts the other stack into the members for the thread's stack, and its pointer into that.
            for (offset, value) in [(8, kernel + STACK as u64 - 40), (12, kernel), (16, kernel + STACK as u64 - 1)] {
                b.put(at + offset, value, 4);
            }
        }
    }
    b
}

fn members_of(layout: Layout) -> HashMap<(&'static str, &'static str), u64> {
    const THREAD: &str = "TX_THREAD_STRUCT";
    let of = [
        ("tx_thread_id", 0),
        ("tx_thread_run_count", layout.run_count),
        ("tx_thread_stack_ptr", layout.stack_ptr),
        ("tx_thread_stack_start", layout.stack_start),
        ("tx_thread_stack_size", layout.stack_size),
        ("tx_thread_name", layout.thread_name),
        ("tx_thread_priority", layout.priority),
        ("tx_thread_state", layout.state),
        ("tx_thread_entry", layout.entry),
        ("tx_thread_suspend_control_block", layout.control),
        ("tx_thread_created_next", layout.created_next),
        ("tx_thread_created_previous", layout.created_prev),
    ];
    of.into_iter().map(|(name, offset)| ((THREAD, name), offset as u64)).collect()
}

#[test]
fn the_kernel_stack_of_a_modules_thread_was_taken_for_its_own() {
    let b = with_modules();
    let mut names = Names::of(&b);
    names.members = members_of(MODULES);
    names.members.extend(MODULE_MEMBERS.map(|(name, offset)| (("TX_THREAD_STRUCT", name), offset)));
    let k = kernel(&b, &names, stop(Architecture::CortexM, vec![]));
    let (reader, flagged, low) = (thread(&k, "reader"), thread(&k, "flagged"), thread(&k, "low"));
    assert_eq!([reader.stacks, flagged.stacks, low.stacks], [Stacks::Module, Stacks::Module, Stacks::Own]);
    // Its own stack begins at 160 of 256 bytes when it leaves the kernel, of whose stack it uses 40.
    let calls = reader.kernel_stack.unwrap();
    assert_eq!((reader.stack.start, reader.stack.used), (Some(b.at["stack reader"]), Some(96)));
    assert_eq!((calls.start, calls.used, calls.size), (Some(b.at["stack calls"]), Some(40), Some(STACK as u64)));
    assert_eq!((reader.stack.high.bytes(None), calls.high.bytes(None)), (Some(96), Some(96)));
    let calls = flagged.kernel_stack.unwrap();
    assert_eq!((flagged.stack.start, flagged.stack.used, calls.used), (Some(b.at["stack flagged"]), Some(64), Some(0)));
    assert_eq!((low.kernel_stack, low.stack.used), (None, Some(64)));
    assert!(!k.issues.iter().any(|i| i.code.name().starts_with("stack-")), "{:?}", k.issues);
    let rows = of_report(&k, Detail::Full, "threads");
    let index = rows.columns.iter().position(|c| c.name == "kernel_stack_used").unwrap();
    let used: Vec<_> = rows.rows.iter().map(|r| r[index].clone()).filter(|c| *c != Cell::Empty).collect();
    assert_eq!(used, [Cell::Count(40), Cell::Count(0)]);
}

/// Nothing tells which threads are a module's: of those whose function is none of the program's nothing is claimed.
#[test]
fn stacks_of_modules_threads_are_not_known_without_the_members() {
    let b = with_modules();
    let mut names = Names::of(&b);
    // The builder's functions are 16 bytes apart from 0x1000 on; the module brought those of `reader` and `flagged`.
    names.functions = vec![("program", 0x1000, 0x40), ("program", 0x1060, 0x40)];
    let claims =
        |k: &Kernel, name: &str| (thread(k, name).stacks, thread(k, name).stack.used, thread(k, name).stack.start);
    // No module is loaded: every thread is the program's.
    let k = kernel(&b, &names, stop(Architecture::CortexM, vec![]));
    assert_eq!(claims(&k, "flagged").0, Stacks::Own);
    let loaded = b.at["_tx_thread_current_ptr"];
    names.variables.insert("_txm_module_manager_loaded_list_ptr".to_owned(), loaded);
    for members in [HashMap::new(), members_of(MODULES)] {
        names.members = members;
        let k = kernel(&b, &names, stop(Architecture::CortexM, vec![]));
        for name in ["reader", "flagged"] {
            assert_eq!(claims(&k, name), (Stacks::Unknown, None, None), "{name}");
            assert_eq!(thread(&k, name).stack.high.bytes(Some(9)), None);
            // What the control block names is evidence nevertheless.
            assert_eq!(thread(&k, name).stacks().count(), 1);
        }
        assert_eq!(claims(&k, "low"), (Stacks::Own, Some(64), Some(b.at["stack low"])));
        let issue = k.issues.iter().find(|i| i.message.contains("may be of a module")).unwrap();
        assert_eq!((issue.code.name(), issue.count), ("kernel-layout-tail", 2), "{issue:?}");
        let rows = of_report(&k, Detail::Summary { width: 80, all: false }, "threads");
        let row = rows.rows.iter().find(|r| r[0] == Cell::Text("  flagged".to_owned())).unwrap();
        assert_eq!(row[2], Cell::Text("?".to_owned()));
    }
}

/// In a function that a handler had called GDB knew no `msp`, took what was at `sp` for what an exception had pushed, and
/// showed a caller that never was.
#[test]
fn a_function_called_by_a_handler_was_given_a_caller() {
    let b = roomy(LAYOUTS[0]).build();
    let main_stack = |sp: u64| {
        let cpu = registers(Architecture::CortexM, &[("sp", sp), ("pc", 0x8400), ("lr", 0x8301)]);
        let stop = stop(Architecture::CortexM, vec![cpu]);
        let k = kernel(&b, &Names::of(&b), stop.clone());
        let first = Stopped::new(stop, Some(&k), None).threads.remove(0).registers.unwrap();
        assert_eq!((first.sp(), first.get("psp")), (Some(sp), None));
        first.value("msp")
    };
    let main = b.base - 0x100;
    assert_eq!(main_stack(main), Some((main, Origin::Inferred)));
    // On the stack of a thread, or where one that overflowed it would be, nothing says that this is an exception.
    let stack = b.at["stack watcher"];
    assert_eq!([main_stack(stack + 8), main_stack(stack - 8)], [None, None]);
}
