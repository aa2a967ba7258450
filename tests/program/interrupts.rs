//! The interrupt in which an event was inserted, as it is shown.

#![cfg(feature = "cli")]

use crate::support::machine::{fixture, text, tx_trace};

/// `last 8` said `ISR` where `list` said `SysTick`: the interrupt's first event was one before. Its end tells too.
#[test]
fn last_forgot_whose_interrupt_it_was_in() {
    let (elf, core) = (fixture("cm3.elf"), fixture("cm3.core"));
    let source = ["--elf", elf.to_str().unwrap(), "--core", core.to_str().unwrap(), "--format", "csv"];
    let who = |words: &[&str]| -> Vec<(String, String)> {
        let out = text(&tx_trace(&[words, &source].concat()).stdout);
        let mut lines = out.lines().map(|l| l.split(',').collect::<Vec<_>>());
        let head = lines.next().unwrap();
        let at = |name| head.iter().position(|h| *h == name).unwrap();
        let (seq, name) = (at("seq"), at("context.name"));
        lines.map(|l| (l[seq].to_owned(), l[name].to_owned())).collect()
    };
    let list = who(&["list"]);
    for n in 1..=list.len() {
        assert_eq!(who(&["last", &n.to_string()]), list[list.len() - n..], "last {n}");
    }
}

/// JSON reported the number of an interrupt (`context.isr`), CSV had no such column.
#[test]
fn csv_had_no_number_of_the_interrupt() {
    let trace = fixture("cm3.trx");
    let out = text(&tx_trace(&["show", "247", "--format", "csv", trace.to_str().unwrap()]).stdout);
    let mut lines = out.lines().map(|l| l.split(','));
    let at = lines.next().unwrap().position(|name| name == "context.isr").unwrap();
    assert_eq!(lines.next().unwrap().nth(at), Some("15"));
}
