//! `explain` over blocks of memory: control blocks and stacks that were written over in the memory of a healthy run, and a block of a
//! pool that is free and in use.
#![cfg(all(unix, feature = "cli"))]

use serde_json::Value;

use super::explain_failures::{RAM, explain, parts, rows_of_fixtures, word};
use super::support::machine::{Scratch, fixture, symbol};

/// The findings where the saved stack pointer of the current thread is another word.
fn with_saved(name: &str, saved: u32) -> Vec<Value> {
    let (scratch, elf) = (Scratch::new(name), fixture("fault.elf"));
    let (mut ram, _) = parts(&fixture("fault-healthy.core.gz"));
    let current = usize::try_from(symbol(&elf, "_tx_thread_current_ptr")).unwrap() - RAM.0;
    let place = word(&ram, current) - RAM.0 + 8;
    ram[place..place + 4].copy_from_slice(&saved.to_le_bytes());
    let image = scratch.path("ram.bin");
    std::fs::write(&image, ram).unwrap();
    explain(&[&elf.display().to_string(), &format!("{}@{:#x}", image.display(), RAM.0)])
}

/// "Nothing wrong found": an index of a telescope's axes was one too large, and its rate was the saved stack pointer of the thread behind
/// them, which the kernel then went on with.
#[test]
fn a_saved_stack_pointer_of_the_current_thread_that_leads_elsewhere_was_not_seen() {
    let all = with_saved("saved-elsewhere", 0x4170_A3D7);
    let first = all.first().expect("a finding");
    assert_eq!((&first["code"], &first["confidence"]), (&"corrupt-control-block".into(), &"likely".into()), "{first}");
    let claim = first["claim"].as_str().unwrap();
    assert!(claim.contains("its saved stack pointer is 0x4170a3d7"), "{claim}");
    assert_eq!(with_saved("saved-none", 0), [] as [Value; 0], "no kernel saved one");
}

/// The storage of a queue was below the stack that overflowed, and its messages were the next symptom.
#[test]
fn the_queue_below_a_stack_that_overflowed_was_not_named() {
    let (scratch, elf) = (Scratch::new("queue-below"), fixture("fault.elf"));
    let (mut ram, _) = parts(&fixture("fault-healthy.core.gz"));
    let at = |name| usize::try_from(symbol(&elf, name)).unwrap() - RAM.0;
    let (queue, stack) = (at("receipts"), at("stacks"));
    let put = |ram: &mut Vec<u8>, at: usize, word: usize| {
        ram[at..at + 4].copy_from_slice(&u32::try_from(word).unwrap().to_le_bytes());
    };
    // Its storage ends where the first stack begins.
    let (end, len) = (RAM.0 + stack, word(&ram, queue + 28) - word(&ram, queue + 24));
    for (member, value) in [(24, end - len), (28, end), (32, end - len), (36, end - len)] {
        put(&mut ram, queue + member, value);
    }
    (0..24).for_each(|n| put(&mut ram, stack + 4 * n, 0x1234_5678 + n));
    let image = scratch.path("ram.bin");
    std::fs::write(&image, ram).unwrap();
    let all = explain(&[&elf.display().to_string(), &format!("{}@{:#x}", image.display(), RAM.0)]);
    let overflow = all.iter().find(|finding| finding["code"] == "stack-overflow").unwrap_or_else(|| panic!("{all:?}"));
    assert!(overflow["explains"].to_string().contains("queue receipts, whose storage ends at"), "{overflow}");
}

/// A pointer to the kernel's type by another name would be one to another struct: all names at the beginning count.
#[test]
fn what_pointers_point_to_has_all_of_its_names() {
    use tx_trace::sym::Symbols as _;
    let elf = std::fs::read(fixture("fault.elf")).unwrap();
    let elf = tx_trace::elf::Elf::open(tx_trace::bytes::Bytes::from(elf)).unwrap();
    let symbols = tx_trace::sym::ElfSymbols::new(std::sync::Arc::new(elf), 0);
    let machine = symbols.lookup("machine").unwrap().address;
    let points_to = |offset| symbols.member(machine + offset).unwrap().points_to;
    assert_eq!(points_to(0), ["frame_of_hoop"]);
    assert_eq!(points_to(8), ["TX_QUEUE", "TX_QUEUE_STRUCT"]);
    let texts = symbols.lookup("failed").unwrap().address;
    assert_eq!(symbols.member(texts).unwrap().points_to, [] as [String; 0], "a pointer to text");
}

/// "perhaps because a thread waits for a message": the block that was checked was free, and its address had been sent twice.
#[test]
fn a_message_with_the_address_of_a_free_block_was_not_named() {
    let paths = ["fault.elf", "fault-sent_twice.core.gz"].map(|name| fixture(name).display().to_string());
    let all = rows_of_fixtures(&[&paths[0], &paths[1]]);
    let first = all.iter().find(|row| row["type"] == "finding").expect("a finding");
    let claim = first["claim"].as_str().unwrap();
    assert!(claim.contains("; the message of queue chutes that chute works on has the address 0x"), "{claim}");
    assert!(claim.contains("of a block of block pool frames that is free: "), "{claim}");
    let healthy = fixture("fault-healthy.core.gz").display().to_string();
    assert!(!explain(&[&paths[0], &healthy]).iter().any(|finding| finding.to_string().contains("that is free")));
}
