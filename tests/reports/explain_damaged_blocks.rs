//! `explain` over control blocks of threads that were written over in the memory of a healthy run.
#![cfg(all(unix, feature = "cli"))]

use serde_json::Value;

use super::explain_failures::{RAM, explain, parts, word};
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
