//! What people see.

use crate::support::golden::{check, run};

#[test]
fn latency_as_printed() {
    check(
        "latency",
        &[
            "latency cm3.elf cm3.core",
            "latency cm3.elf cm3.core --hz 25M --every user_4097 --span tx_queue_send..tx_queue_receive:queue",
            "latency cm3.elf cm3.core --hz 25M --width 120 --span tx_block_allocate..tx_block_release:memory_ptr",
            "latency cm3.elf cm3.core --every APP_F* --format json",
            "latency cm3.elf cm3.core --from 200 --format csv",
            "latency cm3.elf cm3.core --hz 25M --every user_4097 --from 100",
            "latency smp.elf smp.core",
            "latency qnx.kev --every thread_running --span int_entry..thread_running",
            "latency uia-stop.elf uia-stop.ram.bin",
        ],
    );
}

#[test]
fn use_as_printed() {
    check(
        "use",
        &[
            "objects --use cm3.elf cm3.core",
            "objects --use cm3.elf cm3.core --hz 25M --width 120",
            "objects --use cm3.elf cm3.core --object bus_mutex --format json",
            "objects --use smp.elf smp.core --format csv",
            "objects --use qnx.kev",
            "objects --use uia-stop.elf uia-stop.ram.bin",
        ],
    );
}

#[test]
fn mistakes_are_said() {
    let source = "cm3.elf cm3.core";
    for (words, code, says) in [
        ("latency --span tx_queue_send", 2, "not A..B or A..B:FIELD"),
        ("latency --span tx_queue_send..tx_queue_get", 2, "no catalogue has an event 'tx_queue_get'"),
        ("latency --span tx_queue_send..tx_queue_receive:nonsense", 2, "'tx_queue_send' has no field 'nonsense'"),
        ("latency --every no_such_event", 2, "no catalogue has an event 'no_such_event'"),
        ("latency --every no_such_*", 2, "no event in the catalogue matches 'no_such_*'"),
        ("profile --every tx_queue_send", 2, "--every and --span are options of latency and report"),
        ("latency --every tx_queue_flush", 0, "--every tx_queue_flush: no such event"),
    ] {
        let got = run(&format!("{words} {source}"));
        assert!(got.contains(&format!("[exit {code}]")) && got.contains(says), "{got}");
    }
}
