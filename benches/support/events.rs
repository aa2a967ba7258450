//! Trace buffers of any size: the fixture's events over and over, with the stamps going on.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

/// Bytes of an entry.
pub const ENTRY: usize = 32;

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// A ring of at least so many events that has just wrapped, its header and registry in front of it.
pub fn make(path: &Path, events: usize) {
    let small = std::fs::read(super::fixture("cm3.trx")).unwrap();
    let base = word(&small, 8);
    let [ring, end, current] = [24, 28, 32].map(|at| (word(&small, at) - base) as usize);
    let order = [&small[current..end], &small[ring..current]].concat();
    let span = word(&order, order.len() - ENTRY + 12).wrapping_sub(word(&order, 12)) + 1000;
    let rounds = events.div_ceil(order.len() / ENTRY);
    let mut head = small[..ring].to_vec();
    let new_end = base.wrapping_add((ring + rounds * order.len()) as u32);
    head[28..32].copy_from_slice(&new_end.to_le_bytes());
    head[32..36].copy_from_slice(&base.wrapping_add(ring as u32).to_le_bytes());
    let mut out = BufWriter::new(File::create(path).unwrap());
    out.write_all(&head).unwrap();
    for round in 0..rounds as u32 {
        for entry in order.chunks_exact(ENTRY) {
            let stamp = word(entry, 12).wrapping_add(span.wrapping_mul(round));
            out.write_all(&entry[..12]).unwrap();
            out.write_all(&stamp.to_le_bytes()).unwrap();
            out.write_all(&entry[16..]).unwrap();
        }
    }
    out.flush().unwrap();
}

/// The same in a sixtieth of the time, with steps between events that vary as real ones do: a writer that packs differences
/// cannot profit from the repetition.
pub fn make_varied(path: &Path, events: usize) {
    let small = std::fs::read(super::fixture("cm3.trx")).unwrap();
    let base = word(&small, 8);
    let [ring, end, current] = [24, 28, 32].map(|at| (word(&small, at) - base) as usize);
    let order = [&small[current..end], &small[ring..current]].concat();
    let rounds = events.div_ceil(order.len() / ENTRY);
    let mut head = small[..ring].to_vec();
    head[28..32].copy_from_slice(&base.wrapping_add((ring + rounds * order.len()) as u32).to_le_bytes());
    head[32..36].copy_from_slice(&base.wrapping_add(ring as u32).to_le_bytes());
    let mut out = BufWriter::new(File::create(path).unwrap());
    out.write_all(&head).unwrap();
    let (mut time, mut dice) = (0u32, 0x2545_F491_4F6C_DD1Du64);
    for _ in 0..rounds {
        let mut before = word(&order, 12).wrapping_sub(5000);
        for entry in order.chunks_exact(ENTRY) {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            let stamp = word(entry, 12);
            let step = stamp.wrapping_sub(std::mem::replace(&mut before, stamp)) / 60;
            time = time.wrapping_add(step / 2 + (u64::from(step) * (dice >> 40) / (1 << 24)) as u32 + 1);
            out.write_all(&entry[..12]).unwrap();
            out.write_all(&time.to_le_bytes()).unwrap();
            out.write_all(&entry[16..]).unwrap();
        }
    }
    out.flush().unwrap();
}
