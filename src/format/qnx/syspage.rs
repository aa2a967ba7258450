//! The system page: which buffer the kernel writes, and how fast its clock counts.

use crate::abi::{Addr, Endian};
use crate::mem::Memory;

/// Bytes of the page that are read to recognize it.
pub const HEAD: usize = 64;
/// Where `system_private` holds the buffer that is being written: 32-bit x86, 6.4.1. In the copy that the startup
/// program leaves behind it is 0.
const TRACE_BUFFER: u16 = 0x4C;
/// How many entries with offset and size follow the four numbers at its start.
const ENTRIES: usize = 12;
/// Number of the entry of the kernel's own data.
const SYSTEM_PRIVATE: usize = 0;
/// Number of the entry of the clock.
const QTIME: usize = 6;
/// The largest size of a page.
const MAX_PAGE: u16 = 0x8000;
/// At most so many bytes of memory are searched for a page.
const SEARCH: u64 = 256 << 20;
/// How much is searched at a time.
const STEP: u64 = 4 << 20;
/// Pages are looked for at multiples of this.
const ALIGN: usize = 16;

/// What the page says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Syspage {
    /// Where it is.
    pub address: Addr,
    /// The buffer that is being written, as the kernel addresses it.
    pub buffer: Addr,
    /// Ticks in a second.
    pub cycles: Option<u64>,
}

/// Where in a page its two values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Places {
    buffer: u64,
    cycles: u64,
}

/// Reads the table at the start of a page; `None` where it contradicts itself.
#[expect(clippy::arithmetic_side_effects, reason = "adds numbers of 16 bits in 64")]
fn places(head: &[u8], endian: Endian) -> Option<Places> {
    let u16_at = |at: usize| endian.u16(head, at);
    let (size, total, cpus) = (u16_at(0)?, u16_at(2)?, u16_at(6)?);
    if !(64..=0x400).contains(&size) || total < size || total > MAX_PAGE || !(1..=64).contains(&cpus) {
        return None;
    }
    let entry = |number: usize| {
        let at = number.checked_mul(4)?.checked_add(8)?;
        Some((u16_at(at)?, u16_at(at.checked_add(2)?)?))
    };
    let entries: Option<Vec<(u16, u16)>> = (0..ENTRIES).map(entry).collect();
    let filled: Vec<(u16, u16)> = entries?.into_iter().filter(|(_, len)| *len > 0).collect();
    let within = |(offset, len): &(u16, u16)| *offset >= 56 && offset.checked_add(*len).is_some_and(|end| end <= total);
    if filled.len() < 5 || !filled.iter().all(within) {
        return None;
    }
    let (private, private_len) = entry(SYSTEM_PRIVATE)?;
    let (qtime, qtime_len) = entry(QTIME)?;
    let found = private_len >= TRACE_BUFFER + 4 && qtime_len >= 8;
    found.then_some(Places { buffer: u64::from(private) + u64::from(TRACE_BUFFER), cycles: u64::from(qtime) })
}

/// Reads the page at `address`; `None` where there is none, or its kernel traces nothing.
pub fn read(memory: &mut dyn Memory, address: Addr, endian: Endian) -> Option<Syspage> {
    let head = memory.read_bytes(address, HEAD).ok()?;
    let places = places(&head, endian)?;
    let buffer = memory.read_bytes(address.checked_add(places.buffer)?, 4).ok()?;
    let buffer = u64::from(endian.u32(&buffer, 0)?);
    let cycles = memory.read_bytes(address.checked_add(places.cycles)?, 8).ok();
    let cycles = cycles.and_then(|b| rate(&b, 0, endian));
    (buffer != 0).then_some(Syspage { address, buffer, cycles })
}

/// Ticks in a second, from a page whose bytes are here.
pub fn cycles(page: &[u8], endian: Endian) -> Option<u64> {
    let at = usize::try_from(places(page, endian)?.cycles).ok()?;
    rate(page, at, endian)
}

/// Ticks in a second at an offset; `None` for a number that no clock has.
fn rate(bytes: &[u8], at: usize, endian: Endian) -> Option<u64> {
    endian.u64(bytes, at).filter(|ticks| (1_000..1 << 40).contains(ticks))
}

/// Searches memory that lists its regions for a page whose buffer is one that `is_buffer` knows.
#[expect(clippy::arithmetic_side_effects, reason = "counts bytes of a region, up to its end")]
pub fn search(memory: &mut dyn Memory, endian: Endian, is_buffer: &dyn Fn(Addr) -> bool) -> Option<Syspage> {
    let mut left = SEARCH;
    for region in memory.searchable()? {
        let mut offset = 0u64;
        while let Some(len) = region.len.checked_sub(offset).map(|rest| rest.min(STEP).min(left)).filter(|len| *len > 0)
        {
            let start = region.start.checked_add(offset)?;
            if let Some(found) = search_part(memory, start, len, endian, is_buffer) {
                return Some(found);
            }
            left -= len;
            offset += len;
        }
    }
    None
}

fn search_part(
    memory: &mut dyn Memory,
    start: Addr,
    len: u64,
    endian: Endian,
    is_buffer: &dyn Fn(Addr) -> bool,
) -> Option<Syspage> {
    let bytes = memory.read_bytes(start, usize::try_from(len).ok()?).ok()?;
    (start..).step_by(ALIGN).zip(bytes.windows(HEAD).step_by(ALIGN)).find_map(|(address, head)| {
        // Most of memory is not even a number of processors.
        let likely = endian.u16(head, 6).is_some_and(|cpus| (1..=64).contains(&cpus));
        let page = (likely && places(head, endian).is_some()).then(|| read(memory, address, endian)).flatten();
        page.filter(|page| is_buffer(page.buffer))
    })
}
