//! Reads a trace out of memory of your own: `cargo run --example memory -- app.elf ram.bin 0x20000000`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::error::Error;

use tx_trace::{Inputs, Memory, ReadError};

/// RAM that begins at an address.
struct Ram {
    start: u64,
    bytes: Vec<u8>,
}

impl Memory for Ram {
    fn read(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let offset = addr.checked_sub(self.start).and_then(|offset| usize::try_from(offset).ok());
        let part = offset.and_then(|offset| self.bytes.get(offset..offset.checked_add(buf.len())?));
        buf.copy_from_slice(part.ok_or(ReadError::unmapped(addr, buf.len()))?);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [elf, ram, start] = args.as_slice() else { return Err("give an ELF, a dump of RAM and its address".into()) };
    let start = u64::from_str_radix(start.trim_start_matches("0x"), 16)?;
    let mut memory = Ram { start, bytes: std::fs::read(ram)? };
    let trace = Inputs::new().elf(elf).over("my RAM", &mut memory)?.trace()?;
    println!("{} events", trace.events().count());
    Ok(())
}
