//! The frames that real switches left on real stacks: every thread of the firmware goes on in the function in which it
//! was switched out.

use std::sync::Arc;

use tx_trace::abi::{Endian, Width};
use tx_trace::cpu::{Architecture, CodeRanges, Frames, SavedKind, from_notes};
use tx_trace::elf::Elf;
use tx_trace::mem::Memory;
use tx_trace::mem::core::Core;
use tx_trace::sym::{ElfSymbols, Symbols};

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Offsets in a control block of 32-bit ThreadX without options.
const STACK_PTR: u64 = 8;
const STACK_START: u64 = 12;
const STACK_END: u64 = 16;
const NAME: u64 = 40;
const NEXT: u64 = 136;

#[test]
fn every_thread_of_the_firmware() {
    let elf = Arc::new(Elf::open(fixture("cm3.elf")).unwrap());
    let mut core = Core::open(Elf::open(fixture("cm3.core")).unwrap()).unwrap();
    let symbols = ElfSymbols::new(Arc::clone(&elf), 0);
    let frames = Frames::of(&elf).unwrap();
    assert_eq!(frames.architecture, Architecture::CortexM);
    let word = |core: &mut Core, at: u64| Endian::Little.word(Width::W4, &core.read_bytes(at, 4).unwrap(), 0).unwrap();
    let first = word(&mut core, symbols.lookup("_tx_thread_created_ptr").unwrap().address);
    let running = word(&mut core, symbols.lookup("_tx_thread_current_ptr").unwrap().address);
    let (mut thread, mut seen) = (first, Vec::new());
    loop {
        let name = word(&mut core, thread + NAME);
        let text = core.read_bytes(name, 24).unwrap();
        let text = String::from_utf8_lossy(text.split(|b| *b == 0).next().unwrap()).into_owned();
        let at = word(&mut core, thread + STACK_PTR);
        if thread != running {
            let saved = frames.read(&mut core, at, &CodeRanges::of(&elf, 0)).unwrap();
            let function = |address: Option<u64>| symbols.function(address.unwrap()).map(|s| s.name);
            let (start, end) = (word(&mut core, thread + STACK_START), word(&mut core, thread + STACK_END));
            let sp = saved.registers.sp().unwrap();
            assert!(sp > start && sp <= end + 1 && sp.is_multiple_of(4), "{text}: {sp:#x}");
            seen.push((text, saved.kind, function(saved.registers.pc()).unwrap()));
        }
        thread = word(&mut core, thread + NEXT);
        if thread == first {
            break;
        }
    }
    let of = |name: &str| seen.iter().find(|(n, ..)| n == name).map(|(_, kind, at)| (*kind, at.as_str()));
    assert_eq!(seen.len(), 9);
    // Waiting, preempted, never started.
    assert_eq!(of("control"), Some((SavedKind::Switched, "port_restore")));
    assert_eq!(of("filter"), Some((SavedKind::Switched, "port_tick")));
    assert_eq!(of("updater"), Some((SavedKind::NeverRan, "mk_thread_shell")));
}

#[test]
fn cores_of_several_makers() {
    let registers = |core: &str, program: &str| {
        let core = Core::open(Elf::open(fixture(core)).unwrap()).unwrap();
        let program = Elf::open(fixture(program)).unwrap();
        let architecture = Architecture::of(&program).unwrap();
        let of = |desc| from_notes(architecture, program.endian(), desc, None).unwrap();
        let all: Vec<_> = core.threads().into_iter().map(|(desc, _)| of(desc)).collect();
        (all, program)
    };
    // GDB's core of bare metal stands in the spin behind the fault; QEMU's of a process at the store that faulted.
    let (cm3, program) = registers("cm3.core", "cm3.elf");
    let symbols = ElfSymbols::new(Arc::new(program), 0);
    let at = |address: u64| symbols.function(address).map(|s| s.name);
    assert_eq!((cm3.len(), at(cm3[0].pc().unwrap()).as_deref()), (1, Some("fault_spin")));
    let (smp, program) = registers("smp.core", "smp.elf");
    let symbols = ElfSymbols::new(Arc::new(program), 0);
    assert_eq!(smp.len(), 1);
    assert!(symbols.function(smp[0].pc().unwrap()).is_some());
    let (host, _) = registers("host.core", "host.elf");
    assert!(host[0].pc().is_some() && host[0].sp().is_some());
}
