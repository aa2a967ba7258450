//! Searching memory for loggers.

use super::super::{Found, Haystack};
use super::layout;
use super::logger::{Kind, Logger};
use super::record::{Header, Packet};
use crate::abi::{Addr, Endian, Width};
use crate::mem::Memory;

/// Every logger in `bytes`: what describes one, and packets that nothing here describes.
pub(super) fn scan(hay: &Haystack<'_>, most: usize) -> Vec<Found> {
    let bytes = hay.bytes();
    let mut found: Vec<Found> = Vec::new();
    let mut packets: Vec<Found> = Vec::new();
    for offset in hay.offsets(4) {
        if found.len() >= most || packets.len() >= most.max(16) {
            break;
        }
        let Some(head) = bytes.get(offset..) else { break };
        if head.len() < 4 {
            break;
        }
        let Some(logger) = likely(head, offset as Addr).filter(|l| l.certain && l.used) else { continue };
        let (base, capacity, word) = (offset as Addr, logger.len.unwrap_or(0) / 4, Width::W4);
        let is_packet = logger.kind == Kind::Packet;
        let events = (!is_packet).then_some(logger.base);
        let one = Found { offset, base, capacity, endian: logger.endian, word, events };
        if is_packet { packets.push(one) } else { found.push(one) }
    }
    found.append(&mut packets);
    place(bytes, &mut found);
    found.truncate(most);
    found
}

/// What these bytes describe. Nearly all words describe nothing: the cheapest test comes first.
fn likely(head: &[u8], address: Addr) -> Option<Logger> {
    let small = matches!(head.get(..4), Some([48 | 44, 0, 0, 0] | [0, 0, 0, 48 | 44]));
    let packet = matches!(head.first(), Some(0xA0 | 0xA8 | 0x30 | 0x38));
    let by_type = matches!(head.get(28..32), Some([8..=10, 0, 0, 0] | [0, 0, 0, 8..=10]));
    let twice = head.get(12..16).filter(|b| **b != [0; 4]).is_some_and(|b| head.get(48..52) == Some(b));
    let candidates = [(Kind::Queue, small), (Kind::Min, by_type), (Kind::Stop, twice), (Kind::Packet, packet)];
    candidates.into_iter().filter(|(_, likely)| *likely).find_map(|(kind, _)| {
        [Endian::Little, Endian::Big].into_iter().find_map(|e| Logger::of(kind, head, address, e))
    })
}

/// Where structure and buffer are in the same bytes, the structure gives the address of the buffer, and so of all finds.
fn place(bytes: &[u8], found: &mut [Found]) {
    let packets: Vec<usize> = found.iter().filter(|f| f.events.is_none()).map(|f| f.offset).collect();
    let shift = found.iter().find_map(|f| {
        let base = f.events?;
        // The one packet that is where the structure's write pointer says.
        let matches = |offset: usize| {
            let logger = bytes.get(f.offset..).and_then(|h| Logger::detect(h, 0, Some(f.endian)))?;
            let write = logger.write?.checked_sub(base).and_then(|w| usize::try_from(w).ok())?;
            let mark = f.endian.u32(bytes, offset.checked_add(write)?).map(Header::of)?;
            (mark.length == 0 && mark.number == 8).then_some(())
        };
        let mut all = packets.iter().filter(|p| matches(**p).is_some());
        let (one, None) = (all.next()?, all.next()) else { return None };
        base.checked_sub(*one as u64)
    });
    if let Some(shift) = shift {
        for f in found {
            f.base = shift.wrapping_add(f.offset as u64);
        }
    }
}

/// The finds of a search, each logger once, the largest first. A structure is preferred to the bare packet: it has the
/// place of the next record.
pub(super) fn sift(memory: &mut dyn Memory, hits: Vec<(Addr, Found)>) -> Vec<(Addr, Found)> {
    let (described, bare): (Vec<_>, Vec<_>) = hits.into_iter().partition(|(_, f)| f.events.is_some());
    let mut kept: Vec<(Addr, Found)> = Vec::new();
    for (at, found) in described {
        if leads_to_packet(memory, &found) && !kept.iter().any(|(_, k)| k.events == found.events) {
            kept.push((at, found));
        }
    }
    let described: Vec<Option<Addr>> = kept.iter().map(|(_, k)| k.events).collect();
    kept.extend(bare.into_iter().filter(|(at, _)| !described.contains(&Some(*at))));
    kept.sort_by_key(|(at, f)| std::cmp::Reverse((f.capacity, std::cmp::Reverse(*at))));
    kept
}

/// True where what describes a logger leads to a packet, if that can be read: numbers that match each other are found in
/// any large memory.
fn leads_to_packet(memory: &mut dyn Memory, found: &Found) -> bool {
    let head = found.events.and_then(|e| memory.read_bytes(e, layout::PACKET).ok());
    head.is_none_or(|h| {
        Packet::of(&h).is_some() || found.endian.u32(&h, 0).map(Header::of).is_some_and(|h| h.is_sound())
    })
}
