//! `explain` over what only a trace shows, from traces made by hand.
#![cfg(all(unix, feature = "cli"))]

use serde_json::Value;

use super::explain_circles::{BEAT, FOREVER, IMAGE, MUTEX_GET, MUTEX_PUT, PRINT, SCAN, SLEEP, SLEEPS, Story};

/// The kernel's number of the event.
const INTERRUPT_CONTROL: u64 = 40;

fn of_code<'f>(findings: &'f [Value], code: &str) -> Option<&'f Value> {
    findings.iter().find(|finding| finding["code"] == code)
}

/// "Nothing wrong found": a path of an error did not restore the interrupts, and no event came after the next call.
#[test]
fn interrupts_that_were_not_enabled_by_the_next_call_were_not_seen() {
    let found = |name: &str, does: &dyn Fn(&mut Story)| {
        let mut story = Story::default();
        for round in 0..7 {
            story.wakes(SCAN, SLEEPS);
            story.by(SCAN, MUTEX_GET, [IMAGE, FOREVER, 0, 0]);
            story.by(SCAN, INTERRUPT_CONTROL, [1, 0, 0, 0]);
            if round == 6 {
                does(&mut story);
                return story.findings(name);
            }
            story.by(SCAN, INTERRUPT_CONTROL, [0, 0, 0, 0]);
            story.by(SCAN, MUTEX_PUT, [IMAGE, SCAN, 1, 0]);
            story.by(SCAN, SLEEP, [4, 0, 0, 0]);
            story.blocks(SCAN, SLEEPS, BEAT);
        }
        Vec::new()
    };
    let puts = |story: &mut Story| story.by(SCAN, MUTEX_PUT, [IMAGE, SCAN, 1, 0]);
    let left = found("posture-left", &puts);
    let first = of_code(&left, "interrupts-masked").unwrap_or_else(|| panic!("{left:?}"));
    assert_eq!((&first["rank"], &first["confidence"]), (&1.into(), &"hint".into()), "{first}");
    let claim = first["claim"].as_str().unwrap();
    assert!(claim.starts_with("Scan disabled interrupts and went on without enabling them"), "{claim}");
    // It was about to enable them, did so, or something came.
    let newest = found("posture-newest", &|_| ());
    let set_back = found("posture-set-back", &|story| story.by(SCAN, INTERRUPT_CONTROL, [0, 0, 0, 0]));
    let goes_on = found("posture-goes-on", &|story| {
        puts(story);
        story.goes_on(1);
    });
    for all in [newest, set_back, goes_on] {
        assert!(of_code(&all, "interrupts-masked").is_none(), "{all:?}");
    }
}

/// "Nothing wrong found": a stack pointer was below the stack of its thread, by the registry of the trace.
#[test]
fn a_stack_pointer_below_the_stack_of_the_registry_was_not_looked_at() {
    const STACK: u64 = 0x2000_3500;
    let found = |name: &str, pointers: [u64; 2]| {
        let stacks = vec![(SCAN, [STACK, 0x1A0]), (PRINT, [STACK - 0x208, 0x200])];
        let mut story = Story { stacks, ..Story::default() };
        for sp in pointers {
            story.wakes(SCAN, SLEEPS);
            story.by(SCAN, MUTEX_GET, [IMAGE, FOREVER, 0, 0]);
            story.by(SCAN, MUTEX_PUT, [IMAGE, SCAN, 1, sp]);
            story.by(SCAN, SLEEP, [4, 0, 0, 0]);
            story.blocks(SCAN, SLEEPS, BEAT);
        }
        story.findings(name)
    };
    let all = found("trace-stack", [STACK + 0x80, STACK - 4]);
    let first = of_code(&all, "stack-overflow").unwrap_or_else(|| panic!("{all:?}"));
    assert_eq!((&first["rank"], &first["confidence"]), (&1.into(), &"likely".into()), "{first}");
    let claim = first["claim"].as_str().unwrap();
    assert_eq!(claim, "the stack of Scan (416 bytes) overflowed, by 4 bytes or more; the stack of Print is below it");
    for (name, pointers) in
        [("trace-stack-whole", [STACK + 0x80, STACK]), ("trace-stack-other", [STACK - 0x800, STACK - 0x900])]
    {
        let all = found(name, pointers);
        assert!(of_code(&all, "stack-overflow").is_none(), "{name}: {all:?}");
    }
}
