//! Memory that belongs into a core: ranges without overlap, read as far as they can be; what cannot be read is reported.

use crate::abi::Addr;
use crate::bytes::Bytes;
use crate::mem::{Memory, ReadError, Region};

/// How much is read at a time.
const STEP: u64 = 1 << 20;
/// After what cannot be read the next try is at a multiple of this.
const GRAIN: u64 = 256;
/// The longest stride over what cannot be read.
const MAX_STRIDE: u64 = 64 << 10;
/// The most bytes in all.
const MAX_TOTAL: u64 = 1 << 30;
/// The most ranges that are reported as missing, one by one.
const MAX_MISSING: usize = 32;

/// First and last address, and what is there; `None` for what may be missing.
type Range = (Addr, Addr, Option<&'static str>);

/// What is to be read.
#[derive(Default)]
pub struct Wanted {
    ranges: Vec<Range>,
}

/// What was read.
#[derive(Default)]
pub struct WhatWasRead {
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
    /// Ranges that are reported where they are missing.
    pub fn add(&mut self, what: &'static str, regions: impl IntoIterator<Item = Region>) {
        self.put(Some(what), regions);
    }

    /// Ranges that go in where they can be read.
    pub(super) fn add_if_there(&mut self, regions: impl IntoIterator<Item = Region>) {
        self.put(None, regions);
    }

    fn put(&mut self, what: Option<&'static str>, regions: impl IntoIterator<Item = Region>) {
        self.ranges.extend(regions.into_iter().filter_map(|r| Some((r.start, r.last()?, what))));
    }

    /// The ranges without overlap, sorted. Where two overlap, the bytes go to the one that must not be missing.
    fn merged(mut self) -> Vec<Range> {
        self.ranges.sort_by_key(|(start, last, what)| (*start, what.is_none(), std::cmp::Reverse(*last)));
        let mut all: Vec<Range> = Vec::new();
        for (start, last, what) in self.ranges {
            match all.last_mut() {
                Some((_, before, of)) if start <= *before => {
                    if last > *before && of.is_some() && what.is_none() {
                        let next = before.checked_add(1);
                        all.extend(next.map(|next| (next, last, what)));
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

    /// Reads them, as at most `most` pieces.
    pub fn read(self, memory: &mut dyn Memory, most: usize) -> WhatWasRead {
        let (mut out, mut total) = (WhatWasRead::default(), 0);
        for range in self.merged() {
            if let Err(error) = out.add(memory, range, most, &mut total) {
                out.failed = Some(error);
                break;
            }
        }
        out
    }
}

impl WhatWasRead {
    /// Reads one range. `total`: bytes that were read before.
    fn add(&mut self, memory: &mut dyn Memory, range: Range, most: usize, total: &mut u64) -> Result<(), ReadError> {
        let (start, last, what) = range;
        let (mut at, mut stride) = (Some(start), GRAIN);
        // Where the bytes begin that cannot be read.
        let mut gap = None;
        while let Some(here) = at.filter(|at| *at <= last) {
            // All of the address space is never wanted.
            let rest = Region::between(here, last).map_or(u64::MAX, |rest| rest.len);
            let len = rest.min(STEP);
            if len > MAX_TOTAL.saturating_sub(*total) || self.pieces.len() >= most {
                self.dropped = self.dropped.saturating_add(rest);
                break;
            }
            match readable(memory, here, len) {
                Ok(bytes) => {
                    let read = bytes.len() as u64;
                    self.pieces.push((here, bytes));
                    self.report_missing(&mut gap, here.checked_sub(1), what);
                    // At most `MAX_TOTAL`.
                    *total = total.saturating_add(read);
                    stride = GRAIN;
                    at = here.checked_add(read);
                }
                Err(error) if error.is_fatal() => return Err(error),
                Err(_) => {
                    gap.get_or_insert(here);
                    // Never back before `here`: a stride is a grain at least.
                    at = here.checked_add(stride).map(|next| next & !(GRAIN - 1));
                    stride = (stride << 1).min(MAX_STRIDE);
                }
            }
        }
        let end = at.and_then(|at| at.checked_sub(1)).map_or(last, |end| end.min(last));
        self.report_missing(&mut gap, Some(end), what);
        Ok(())
    }

    /// A gap ends with the address `last`.
    fn report_missing(&mut self, gap: &mut Option<Addr>, last: Option<Addr>, what: Option<&'static str>) {
        let region = gap.take().zip(last).and_then(|(start, last)| Region::between(start, last));
        if let Some((region, what)) = region.zip(what)
            && self.missing.len() < MAX_MISSING
        {
            self.missing.push((what, region));
        }
    }
}

/// As many bytes from `at` on as can be read, at least one.
fn readable(memory: &mut dyn Memory, at: Addr, len: u64) -> Result<Bytes, ReadError> {
    let mut read = |len: u64| memory.read_bytes(at, usize::try_from(len).unwrap_or(usize::MAX));
    let error = match read(len) {
        Err(error) if !error.is_fatal() => error,
        done => return done,
    };
    // The source says where it failed; up to there memory may be readable.
    match error.addr.checked_sub(at).filter(|before| (1..len).contains(before)) {
        Some(before) => read(before),
        None if len > GRAIN && error.addr != at => read(GRAIN),
        None => Err(error),
    }
}
