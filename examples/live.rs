//! Prints the newest events of a live target: `cargo run --example live -- app.elf :3333`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::error::Error;

use tx_trace::{Endpoint, Inputs, Target, escape};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(elf), Some(stub)) = (args.next(), args.next()) else { return Err("give an ELF and a stub".into()) };
    let mut target = Target::open(Inputs::new().elf(elf).remote(Endpoint::parse(&stub)?))?;
    let trace = target.last(50)?;
    // From here on the target runs again, if it ran before.
    if let Some(message) = target.leave() {
        eprintln!("{message}");
    }
    for event in trace.events() {
        println!(
            "{:>10} {:16} {}",
            event.ticks,
            escape(&trace.context_name(&event)),
            escape(&trace.event_name(&event))
        );
    }
    Ok(())
}
