//! `tx-trace gdb`: printing and installing.

use std::process::Command;

use super::tools::*;

#[test]
fn prints_the_file() {
    let done = shell(&["gdb"]);
    assert_eq!(done.out, std::fs::read_to_string(script()).unwrap());
    let plain = shell(&["gdb", "--no-python"]).out;
    assert!(plain.contains("define tx-trace\n") && !plain.contains('@'.to_string().repeat(2).as_str()));
    assert!(!plain.contains("@RUN@") && !plain.contains("@PLAIN@"));
}

#[test]
fn installs_and_says_which_lines_load_it() {
    let scratch = Scratch::new();
    let install = |words: &[&str]| {
        let mut command = Command::new(binary());
        command.env("XDG_DATA_HOME", &scratch.0).env("PATH", "/nowhere").args(["gdb", "--install"]).args(words);
        run(&mut command)
    };
    let file = scratch.path("tx-trace/tx_trace.py");
    let done = install(&[]);
    assert_eq!(done.status, Some(0), "{}", done.err);
    assert_eq!(done.out.lines().next(), Some(&*format!("source {file}")));
    assert!(done.out.contains("\nset tx-trace binary /"), "{}", done.out);
    assert!(done.err.contains("(written)"), "{}", done.err);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), std::fs::read_to_string(script()).unwrap());
    // Again: nothing changes, and it says so.
    let again = install(&[]);
    assert_eq!((again.status, &again.out), (Some(0), &done.out));
    assert!(again.err.contains("there already"), "{}", again.err);
    assert_eq!(install(&["--no-python"]).out, format!("source {}\n", scratch.path("tx-trace/tx_trace.gdb")));
    assert_eq!(std::fs::read_dir(scratch.0.join("tx-trace")).unwrap().count(), 2);
    // The lines work as they stand.
    if installed(&["gdb-multiarch"]) {
        let init = scratch.path("gdbinit");
        std::fs::write(&init, &done.out).unwrap();
        let mut command = gdb("gdb-multiarch");
        command.env_remove("TX_TRACE_BIN").args(["-batch", "-x", &init, "-ex", "tx-trace events tx_time_get"]);
        let done = run(&mut command);
        assert!(done.out.contains("tx_time_get"), "{}", done.err);
    }
}
