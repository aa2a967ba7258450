//! A cache: the same bytes are never read twice.
//!
//! For sources where a read costs a round trip. A mapped file needs none.

use std::collections::{BTreeMap, VecDeque};

use super::{MAX_READ, Memory, ReadError, ReadErrorKind, Region};
use crate::abi::{Addr, last_address};
use crate::bytes::Bytes;

/// How many bytes are held by default.
const DEFAULT_LIMIT: usize = 64 << 20;

/// A memory with a cache. What it holds was read at different moments: [`Cache::forget`] when the target has run.
pub struct Cache<M> {
    inner: M,
    /// What is held, by address; no two overlap.
    held: BTreeMap<Addr, Bytes>,
    /// Oldest first.
    order: VecDeque<Addr>,
    size: usize,
    limit: usize,
}

impl<M: Memory> Cache<M> {
    /// Remembers up to 64 MiB of `inner`.
    pub const fn new(inner: M) -> Self {
        Self::with_limit(inner, DEFAULT_LIMIT)
    }

    /// Remembers up to `limit` bytes of `inner`; the oldest are given up first.
    const fn with_limit(inner: M, limit: usize) -> Self {
        Self { inner, held: BTreeMap::new(), order: VecDeque::new(), size: 0, limit }
    }

    /// Forgets all: the target has run.
    pub fn forget(&mut self) {
        self.held.clear();
        self.order.clear();
        self.size = 0;
    }

    /// The source, for what is not reading. What it changes in memory is not noticed: [`Cache::forget`].
    pub const fn inner_mut(&mut self) -> &mut M {
        &mut self.inner
    }

    /// Gives the source back.
    pub fn into_inner(self) -> M {
        self.inner
    }

    /// The parts of a range that are not held, nor in `planned` already.
    fn missing(&self, planned: &BTreeMap<Addr, usize>, addr: Addr, len: usize) -> Vec<(Addr, usize)> {
        let mut gaps = Vec::new();
        let mut at = addr;
        let mut rest = len;
        while rest > 0 {
            let held = covering(&self.held, at, |b| b.len());
            let step = match held.or_else(|| covering(planned, at, |len| *len)) {
                Some(room) => room.min(rest),
                None => {
                    let next = [next_after(&self.held, at), next_after(planned, at)].into_iter().flatten().min();
                    let free = next.and_then(|next| usize::try_from(next.checked_sub(at)?).ok());
                    let step = free.unwrap_or(rest).min(rest);
                    gaps.push((at, step));
                    step
                }
            };
            // A step is no longer than the rest.
            rest = rest.saturating_sub(step);
            let Some(next) = at.checked_add(step as u64) else { break };
            at = next;
        }
        gaps
    }

    #[allow(clippy::arithmetic_side_effects, reason = "`size` is the sum of what is held")]
    fn remember(&mut self, addr: Addr, bytes: &Bytes) {
        // One read larger than all we may hold would only push out the rest.
        if bytes.is_empty() || bytes.len() > self.limit {
            return;
        }
        self.size += bytes.len();
        if let Some(old) = self.held.insert(addr, bytes.clone()) {
            self.size -= old.len();
        } else {
            self.order.push_back(addr);
        }
        while self.size > self.limit {
            let Some(oldest) = self.order.pop_front() else { break };
            if let Some(gone) = self.held.remove(&oldest) {
                self.size -= gone.len();
            }
        }
    }

    /// Puts a range together; `None` where a part is not held.
    fn assemble(&self, fresh: &BTreeMap<Addr, Bytes>, addr: Addr, len: usize) -> Option<Bytes> {
        let mut all: Vec<u8> = Vec::new();
        let mut at = Some(addr);
        while all.len() < len {
            let here = at?;
            let (into, bytes) = [&self.held, fresh].into_iter().find_map(|map| {
                let (start, bytes) = map.range(..=here).next_back()?;
                let into = usize::try_from(here.checked_sub(*start)?).ok()?;
                (into < bytes.len()).then_some((into, bytes))
            })?;
            // Both are positive here.
            let wanted = len.saturating_sub(all.len()).min(bytes.len().saturating_sub(into));
            let part = bytes.cut(into, wanted)?;
            if wanted == len {
                return Some(part);
            }
            all.extend_from_slice(&part);
            at = here.checked_add(wanted as u64);
        }
        Some(Bytes::from(all))
    }
}

/// How many bytes from `at` on an entry of the map covers.
fn covering<T>(map: &BTreeMap<Addr, T>, at: Addr, len: impl Fn(&T) -> usize) -> Option<usize> {
    let (start, entry) = map.range(..=at).next_back()?;
    let into = usize::try_from(at.checked_sub(*start)?).ok()?;
    len(entry).checked_sub(into).filter(|room| *room > 0)
}

fn next_after<T>(map: &BTreeMap<Addr, T>, at: Addr) -> Option<Addr> {
    map.range(at..).next().map(|(start, _)| *start)
}

impl<M: Memory> Memory for Cache<M> {
    fn changes(&self) -> bool {
        self.inner.changes()
    }

    fn refresh(&mut self) {
        self.forget();
        self.inner.refresh();
    }

    fn read(&mut self, addr: Addr, buf: &mut [u8]) -> Result<(), ReadError> {
        let bytes = self.read_bytes(addr, buf.len())?;
        // A source may return another number of bytes than it was asked for.
        if bytes.len() != buf.len() {
            let why = ReadErrorKind::Source("the source returned another number of bytes".into());
            return Err(ReadError::new(addr, buf.len(), why));
        }
        buf.copy_from_slice(&bytes);
        Ok(())
    }

    fn read_bytes(&mut self, addr: Addr, len: usize) -> Result<Bytes, ReadError> {
        self.read_batch(&[(addr, len)]).pop().unwrap_or_else(|| Err(ReadError::unmapped(addr, len)))
    }

    fn read_batch(&mut self, wanted: &[(Addr, usize)]) -> Vec<Result<Bytes, ReadError>> {
        let mut planned: BTreeMap<Addr, usize> = BTreeMap::new();
        for &(addr, len) in wanted {
            // Past the end of the address space or too long: the source reports that, below.
            if len > MAX_READ || last_address(addr, len).is_none() {
                continue;
            }
            planned.extend(self.missing(&planned, addr, len));
        }
        let plan: Vec<(Addr, usize)> = planned.into_iter().collect();
        let mut fresh: BTreeMap<Addr, Bytes> = BTreeMap::new();
        let mut failed: BTreeMap<Addr, ReadError> = BTreeMap::new();
        if !plan.is_empty() {
            for (&(addr, len), result) in plan.iter().zip(self.inner.read_batch(&plan)) {
                match result {
                    Ok(bytes) if bytes.len() == len => drop(fresh.insert(addr, bytes)),
                    Ok(_) => {}
                    Err(error) => drop(failed.insert(addr, error)),
                }
            }
        }
        let mut results = Vec::with_capacity(wanted.len());
        for &(addr, len) in wanted {
            let result = match self.assemble(&fresh, addr, len) {
                Some(bytes) => Ok(bytes),
                // Asked for as it was, and refused: no need to ask again.
                None => match failed.get(&addr).filter(|e| e.is_fatal() || plan.contains(&(addr, len))) {
                    Some(error) => Err(error.clone()),
                    // A part of it failed, perhaps a part that only another wanted.
                    None => self.inner.read_bytes(addr, len),
                },
            };
            results.push(result.map_err(|e| ReadError { len, ..e }));
        }
        for (addr, bytes) in &fresh {
            self.remember(*addr, bytes);
        }
        results
    }

    fn regions(&mut self) -> Option<Vec<Region>> {
        self.inner.regions()
    }

    fn written(&mut self) -> Option<Vec<Region>> {
        self.inner.written()
    }

    fn searchable(&mut self) -> Option<Vec<Region>> {
        self.inner.searchable()
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "tests say what they expect by failing")]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use proptest::prelude::*;

    use super::*;
    use crate::mem::segments::{Block, Segments};

    type Log = Rc<RefCell<Vec<(Addr, usize)>>>;

    /// Writes down what it is asked.
    struct Logged(Segments, Log);

    impl Memory for Logged {
        fn read(&mut self, addr: Addr, buf: &mut [u8]) -> Result<(), ReadError> {
            self.1.borrow_mut().push((addr, buf.len()));
            self.0.read(addr, buf)
        }
    }

    fn source(blocks: &[(Addr, usize)]) -> (Logged, Log) {
        let bytes = |at: Addr, len: usize| (0..len).map(|i| (at as usize + i) as u8).collect::<Vec<_>>();
        let blocks = blocks.iter().map(|&(at, len)| Block::whole(at, Bytes::from(bytes(at, len)))).collect();
        let log = Log::default();
        (Logged(Segments::new(blocks), Rc::clone(&log)), log)
    }

    #[test]
    fn only_what_is_missing_is_fetched() {
        let (memory, log) = source(&[(0, 256)]);
        let mut cache = Cache::new(memory);
        cache.read_bytes(16, 16).unwrap();
        cache.read_bytes(48, 16).unwrap();
        assert_eq!(&*cache.read_bytes(8, 64).unwrap(), &(8..72).collect::<Vec<u8>>()[..]);
        assert_eq!(*log.borrow(), [(16, 16), (48, 16), (8, 8), (32, 16), (64, 8)]);
        cache.read_bytes(8, 64).unwrap();
        cache.read(20, &mut [0; 4]).unwrap();
        assert_eq!(log.borrow().len(), 5);
        cache.forget();
        cache.read_bytes(20, 4).unwrap();
        assert_eq!(log.borrow().last(), Some(&(20, 4)));
    }

    #[test]
    fn a_batch_fetches_shared_bytes_once() {
        let (memory, log) = source(&[(0, 64)]);
        let mut cache = Cache::new(memory);
        let results = cache.read_batch(&[(0, 16), (8, 16), (0, 4), (60, 8), (60, 4)]);
        assert_eq!(results[1].as_ref().unwrap().to_vec(), (8..24).collect::<Vec<u8>>());
        assert_eq!(results[3].as_ref().unwrap_err().addr, 64);
        assert_eq!(results[4].as_ref().unwrap().to_vec(), [60, 61, 62, 63], "its neighbour's failure is not its own");
        let log = log.borrow();
        assert_eq!(log[..3], [(0, 16), (16, 8), (60, 8)]);
    }

    #[test]
    fn the_oldest_are_given_up() {
        let (memory, log) = source(&[(0, 256)]);
        let mut cache = Cache::with_limit(memory, 32);
        for at in [0, 16, 32] {
            cache.read_bytes(at, 16).unwrap();
        }
        cache.read_bytes(16, 32).unwrap();
        assert_eq!(log.borrow().len(), 3);
        cache.read_bytes(0, 16).unwrap();
        cache.read_bytes(64, 64).unwrap();
        cache.read_bytes(0, 16).unwrap();
        assert_eq!(log.borrow().len(), 5, "too large to be remembered, and pushes nothing out");
        assert!(cache.size <= 32);
    }

    #[test]
    fn the_end_of_the_address_space() {
        let (memory, _) = source(&[(Addr::MAX - 3, 4)]);
        let mut cache = Cache::new(memory);
        assert_eq!(cache.read_bytes(Addr::MAX - 3, 4).unwrap().len(), 4);
        assert!(cache.read_bytes(Addr::MAX - 3, 5).is_err());
        assert!(cache.read_bytes(Addr::MAX - 3, usize::MAX).is_err());
    }

    proptest! {
        #[test]
        fn answers_are_those_of_the_source(
            blocks in prop::collection::vec((0u64..200, 1usize..64), 1..4),
            batches in prop::collection::vec(prop::collection::vec((0u64..256, 0usize..64), 1..5), 1..8),
            limit in 0usize..256,
        ) {
            let (mut plain, _) = source(&blocks);
            let mut cache = Cache::with_limit(source(&blocks).0, limit);
            for batch in batches {
                let got = cache.read_batch(&batch);
                for ((addr, len), got) in batch.into_iter().zip(got) {
                    let want = plain.read_bytes(addr, len);
                    prop_assert_eq!(got.is_ok(), want.is_ok());
                    if let (Ok(got), Ok(want)) = (got, want) {
                        prop_assert_eq!(&*got, &*want);
                    }
                }
                prop_assert!(cache.size <= limit);
            }
        }
    }
}
