//! Files without bytes that their tables name: cut short, or with debug information only.

use goblin::elf::section_header::SHT_NULL;

use super::{Elf, PT_LOAD, SHF_ALLOC, SHF_TLS, SHT_NOBITS, Section, Segment};
use crate::abi::Addr;

impl Elf {
    /// What is missing at the end of a file that is cut short; `None` where all is there that its tables name.
    pub fn cut_short(&self) -> Option<String> {
        if let Some(lost) = self.damage().first() {
            return Some(lost.clone());
        }
        let len = self.bytes().len() as u64;
        let end = |(offset, size): (u64, u64)| offset.checked_add(size);
        let outside = |part: &(u64, u64)| part.1 > 0 && end(*part).is_none_or(|end| end > len);
        let in_file = |s: &Section| s.kind != SHT_NOBITS && s.kind != SHT_NULL;
        let sections = self.sections().filter(in_file).map(|s| (s.offset, s.size)).filter(outside);
        // Files of debug information alone keep program headers of what is in none of their sections.
        let without_sections = self.sections().next().is_none();
        let loads = self.segments().filter(|s| without_sections && s.kind == PT_LOAD);
        let segments = loads.map(|s| (s.offset, s.filesz)).filter(outside);
        let (what, parts): (_, Vec<_>) = match sections.collect::<Vec<_>>() {
            none if none.is_empty() => ("its segments".to_owned(), segments.collect()),
            lost => (format!("{} of its sections", lost.len()), lost),
        };
        if parts.is_empty() {
            return None;
        }
        Some(match parts.into_iter().filter_map(end).max() {
            Some(end) => format!("it has {len} bytes, and {what} reach up to {end}: it is cut short"),
            None => format!("it has {len} bytes, and {what} have offsets that no file has: it is damaged"),
        })
    }

    /// True for a segment of a file of debug information alone (`objcopy --only-keep-debug`): its program header may name
    /// bytes as before, which now are others, and its sections say that they have none.
    pub(super) fn is_debug_only(&self, segment: &Segment) -> bool {
        if segment.kind != PT_LOAD {
            return false;
        }
        // A hostile file has as many segments as sections.
        let starts = self.without_bytes.get_or_init(|| {
            let without = |s: &Section| s.kind == SHT_NOBITS && s.flags & (SHF_ALLOC | SHF_TLS) == SHF_ALLOC;
            let mut all: Vec<Addr> = self.sections().filter(|s| without(s) && s.size > 0).map(|s| s.addr).collect();
            all.sort_unstable();
            all
        });
        let first = starts.get(starts.partition_point(|at| *at < segment.vaddr)..).and_then(<[Addr]>::first);
        first.and_then(|at| at.checked_sub(segment.vaddr)).is_some_and(|into| into < segment.filesz)
    }
}
