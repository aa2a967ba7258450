//! Files without bytes that their tables name: cut short, or with debug information only.

use super::{Elf, PT_LOAD, SHF_ALLOC, SHF_TLS, SHT_NOBITS, Section, Segment};
use crate::abi::Addr;

impl Elf {
    /// What is missing at the end of a file that is cut short; `None` where all is there that its tables name.
    #[must_use]
    pub fn cut_short(&self) -> Option<String> {
        if let Some(lost) = self.damage().first() {
            return Some(lost.clone());
        }
        let len = u64::try_from(self.bytes().len()).unwrap_or(u64::MAX);
        let (mut any, mut lost, mut end) = (false, 0_usize, 0);
        for section in self.sections() {
            any = true;
            let past = section.offset.saturating_add(section.size);
            if section.kind != SHT_NOBITS && section.kind != 0 && section.size > 0 && past > len {
                lost = lost.saturating_add(1);
                end = past.max(end);
            }
        }
        if lost > 0 {
            return Some(format!("it has {len} bytes, and {lost} of its sections reach up to {end}: it is cut short"));
        }
        // Files of debug information alone keep program headers of what is in none of their sections.
        let loads = self.segments().filter(|s| !any && s.kind == PT_LOAD);
        let end = loads.map(|s| s.offset.saturating_add(s.filesz)).max().filter(|end| *end > len)?;
        Some(format!("it has {len} bytes, and its segments reach up to {end}: it is cut short"))
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
