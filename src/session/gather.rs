//! Stretches of memory that belong into a core: merged, read as far as they can be, and what cannot be is told.

use crate::abi::Addr;
use crate::bytes::Bytes;
use crate::mem::{Memory, ReadError, Region};

/// How much is read at a time.
const STEP: u64 = 1 << 20;
/// Behind what cannot be read the next try is at a multiple of this.
const GRAIN: u64 = 256;
/// The longest stride over what cannot be read.
const STRIDE: u64 = 64 << 10;
/// The most bytes in all.
const MOST: u64 = 1 << 30;
/// The most stretches that are told as missing, one by one.
const TOLD: usize = 32;

/// What is to be read.
#[derive(Default)]
pub struct Wanted {
    /// Start, last address, what it is; `None` where nobody minds if it is not there.
    ranges: Vec<(Addr, Addr, Option<&'static str>)>,
}

/// What was read.
pub struct Gathered {
    /// By address; no two overlap.
    pub pieces: Vec<(Addr, Bytes)>,
    /// What could not be read.
    pub missing: Vec<(&'static str, Region)>,
    /// Bytes that were left out because there would have been too many.
    pub dropped: u64,
    /// The source itself failed.
    pub failed: Option<ReadError>,
}

impl Wanted {
    /// Stretches that are to be there.
    pub fn add(&mut self, what: &'static str, regions: impl IntoIterator<Item = Region>) {
        self.put(Some(what), regions);
    }

    /// Stretches that go in where they can be read.
    pub fn add_if_there(&mut self, regions: impl IntoIterator<Item = Region>) {
        self.put(None, regions);
    }

    fn put(&mut self, what: Option<&'static str>, regions: impl IntoIterator<Item = Region>) {
        let last = |r: Region| Some((r.start, r.start.checked_add(r.len.checked_sub(1)?)?, what));
        self.ranges.extend(regions.into_iter().filter_map(last));
    }

    /// The stretches without overlap, sorted: what is wanted for a reason wins over what is only taken along.
    fn merged(mut self) -> Vec<(Addr, Addr, Option<&'static str>)> {
        self.ranges.sort_by_key(|(start, last, what)| (*start, what.is_none(), std::cmp::Reverse(*last)));
        let mut all: Vec<(Addr, Addr, Option<&'static str>)> = Vec::new();
        for (start, last, what) in self.ranges {
            match all.last_mut() {
                Some((_, before, of)) if start <= *before => {
                    if last > *before && of.is_some() && what.is_none() {
                        let next = before.saturating_add(1);
                        all.push((next, last, what));
                    } else if last > *before {
                        *before = last;
                        *of = of.or(what);
                    }
                }
                _ => all.push((start, last, what)),
            }
        }
        all
    }

    /// Reads them. At most `most` pieces.
    pub fn gather(self, memory: &mut dyn Memory, most: usize) -> Gathered {
        let mut out = Gathered { pieces: Vec::new(), missing: Vec::new(), dropped: 0, failed: None };
        let mut total = 0u64;
        for (start, last, what) in self.merged() {
            let mut at = start;
            let mut stride = GRAIN;
            let mut gap: Option<Region> = None;
            while at <= last {
                let rest = last.saturating_sub(at).saturating_add(1);
                let len = rest.min(STEP);
                if total.saturating_add(len) > MOST || out.pieces.len() >= most {
                    out.dropped = out.dropped.saturating_add(rest);
                    break;
                }
                match readable(memory, at, len) {
                    Ok(bytes) => {
                        let read = u64::try_from(bytes.len()).unwrap_or(len);
                        total = total.saturating_add(read);
                        out.pieces.push((at, bytes));
                        stride = GRAIN;
                        tell(&mut out.missing, &mut gap, what);
                        let Some(next) = at.checked_add(read) else { break };
                        at = next;
                    }
                    Err(error) if error.is_fatal() => {
                        out.failed = Some(error);
                        return out;
                    }
                    Err(_) => {
                        let next = at.checked_add(stride).map_or(Addr::MAX, |n| n & !(GRAIN.saturating_sub(1)));
                        let next = next.max(at.saturating_add(1)).min(last.saturating_add(1));
                        stride = stride.saturating_mul(2).min(STRIDE);
                        let from = gap.map_or(at, |g| g.start);
                        gap = Some(Region { start: from, len: next.saturating_sub(from) });
                        if next <= at {
                            break;
                        }
                        at = next;
                    }
                }
            }
            tell(&mut out.missing, &mut gap, what);
        }
        out
    }
}

/// As many bytes from `at` on as can be read, at least one.
fn readable(memory: &mut dyn Memory, at: Addr, len: u64) -> Result<Bytes, ReadError> {
    let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    match memory.read_bytes(at, size(len)) {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.is_fatal() => Err(error),
        Err(error) => {
            // The source tells where it failed; up to there it may go.
            let before = error.addr.checked_sub(at).filter(|n| *n > 0 && *n < len);
            match before {
                Some(before) => memory.read_bytes(at, size(before)),
                None if len > GRAIN && error.addr != at => memory.read_bytes(at, size(GRAIN)),
                None => Err(error),
            }
        }
    }
}

fn tell(missing: &mut Vec<(&'static str, Region)>, gap: &mut Option<Region>, what: Option<&'static str>) {
    if let Some((region, what)) = gap.take().zip(what)
        && missing.len() < TOLD
    {
        missing.push((what, region));
    }
}
