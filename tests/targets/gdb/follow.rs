//! `tx-trace follow on`: at every stop what is new since the last one.

use super::tools::*;

#[test]
fn each_stop_prints_what_is_new() {
    require!(installed(&["gdb-multiarch", "qemu-system-arm"]));
    let elf = fixture("cm3-stream.elf");
    let (_server, port) = qemu(&elf);
    let connect = connect(port);
    let commands = [
        &*connect,
        "break _tx_trace_user_event_insert",
        "continue",
        "continue",
        "tx-trace follow on --format csv",
        "echo <one\\n",
        "continue",
        "echo one>\\n<two\\n",
        "continue",
        "echo two>\\n",
        "tx-trace follow off",
        "echo <three\\n",
        "continue",
        "echo three>\\n",
        "echo <refused\\n",
        "tx-trace follow",
    ];
    let done = batch("gdb-multiarch", &[&elf], &commands);
    let rows = |part: &str| -> Vec<String> {
        let text = done.part(part).lines().filter(|l| l.contains(",thread,")).map(str::to_owned);
        text.collect()
    };
    let (one, two) = (rows("one"), rows("two"));
    assert_eq!((one.len(), two.len()), (1, 1), "{}\n{}", done.out, done.err);
    assert!(one[0].starts_with("0,") && two[0].starts_with("1,"), "numbers go on: {one:?} {two:?}");
    assert_ne!(one[0].split(',').nth(1), two[0].split(',').nth(1), "another slot: {one:?} {two:?}");
    assert_eq!(rows("three"), [""; 0], "{}", done.out);
    assert!(done.err.contains("tx-trace follow on"), "{}", done.err);
    assert!(!done.err.contains("tx-trace-place"), "{}", done.err);
}
