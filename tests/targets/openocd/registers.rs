//! Registers that OpenOCD has beyond those of a `g` packet.

use super::machine::Scratch;
use super::*;

/// Where the fixture's fault handler kept what a crash log would print, as words.
fn fault_words(chip: &CortexM) -> impl Fn(u32) -> u32 {
    let at = symbol(chip.elf(), "fw_fault") as u32;
    let words: Vec<u32> = (0..16).map(|i| chip.peek(at + 4 * i)).collect();
    move |i| words[i as usize]
}

/// The first row of `threads`: the one that runs.
fn first(output: &Output) -> serde_json::Value {
    let lines = text(&output.stdout);
    let rows = lines.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
    rows.into_iter().find(|l| l["type"] == "row").unwrap_or_else(|| panic!("{lines}{}", text(&output.stderr)))
}

/// Its `g` packet stops at `xpsr`, and it answers `p12`.
#[test]
fn the_process_stack_pointer_was_not_asked_for() {
    let Some((chip, openocd)) = start(Setup { state: State::Halted, ..Setup::default() }) else { return };
    let word = fault_words(&chip);
    let (psp, pc) = (word(4), word(11));
    let (msp_number, psp_number) = (17, 18);
    chip.set_register(psp_number, psp);
    assert_ne!(chip.register(msp_number), psp);
    let live = run(&chip, &openocd.gdb(), &["threads", "--format", "json"]);
    assert_eq!(live.status.code(), Some(0), "{}{}", text(&live.stderr), openocd.log());
    let row = first(&live);
    assert_eq!(row["thread"]["name"], "watchdog", "{row}");
    assert_eq!(row["at"]["address"], format!("{pc:#010x}"), "{row}");
    assert!(row["stack_used"].as_u64().is_some_and(|n| n > 0), "{row}");

    // The core of it has them too, though its notes have no place for them.
    let scratch = Scratch::new("openocd-registers");
    let core = scratch.path("x.core").display().to_string();
    let dump = run(&chip, &openocd.gdb(), &["dump", "-o", &core]);
    assert_eq!(dump.status.code(), Some(0), "{}", text(&dump.stderr));
    for words in [&["threads", "--format", "json", &core][..], &["threads", "--format", "json", &core, "--elf"]] {
        let elf = chip.elf().display().to_string();
        let words: Vec<&str> = words.iter().copied().chain((words.len() == 5).then_some(&*elf)).collect();
        let row = first(&tx_trace(&words));
        assert_eq!(row["at"]["address"], format!("{pc:#010x}"), "{words:?}: {row}");
    }
    let facts = String::from_utf8_lossy(&std::fs::read(&core).unwrap()).into_owned();
    assert!(facts.contains(&format!("psp={psp:#x}")) && facts.contains("control="), "every one that OpenOCD has");
    assert_eq!((chip.stats().writes, chip.stats().resets), (vec![], 0));
}
