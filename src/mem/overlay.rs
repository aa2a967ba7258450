//! Layers of memory: what the first does not have is asked of the next.
//!
//! A RAM dump has no code in it; the ELF's read-only segments below it make back traces and names of
//! functions work. A live stub may refuse flash that the ELF holds.

use super::{MAX_READ, Memory, ReadError, Region};
use crate::abi::Addr;
use crate::bytes::Bytes;
use crate::mem::segments::join;

struct Layer<'a> {
    memory: Box<dyn Memory + 'a>,
    /// What it has; `None` where only trying shows it.
    known: Option<Vec<Region>>,
}

/// Several memories as one. A read that straddles them is joined.
#[derive(Default)]
pub struct Overlay<'a> {
    layers: Vec<Layer<'a>>,
}

impl<'a> Overlay<'a> {
    /// No memory at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts `memory` below all that is there. It is asked for its regions now, once.
    #[must_use]
    pub fn below(mut self, memory: impl Memory + 'a) -> Self {
        let mut memory: Box<dyn Memory + 'a> = Box::new(memory);
        let known = memory.regions();
        self.layers.push(Layer { memory, known });
        self
    }
}

/// Fills `buf` from the first layer down.
fn fill(layers: &mut [Layer<'_>], addr: Addr, buf: &mut [u8]) -> Result<(), ReadError> {
    if buf.is_empty() {
        return Ok(());
    }
    let Some((top, below)) = layers.split_first_mut() else {
        return Err(ReadError::unmapped(addr, buf.len()));
    };
    let Some(known) = &top.known else {
        return match top.memory.read(addr, buf) {
            Err(error) if !error.is_fatal() => patch(top, below, addr, buf, error),
            done => done,
        };
    };
    let mut at = Some(addr);
    let mut rest = buf;
    while !rest.is_empty() {
        let here = at.ok_or_else(|| ReadError::unmapped(Addr::MAX, rest.len()))?;
        let (inside, room) = at_region(known, here);
        let len = usize::try_from(room).unwrap_or(usize::MAX).min(rest.len());
        let (now, later) = rest.split_at_mut(len);
        if inside {
            match top.memory.read(here, now) {
                Err(error) if !error.is_fatal() => fill(below, here, now).map_err(|_| error)?,
                done => done?,
            }
        } else {
            fill(below, here, now)?;
        }
        at = here.checked_add(room);
        rest = later;
    }
    Ok(())
}

/// The top layer could not serve the whole range and does not say what it has. Where the layers below begin
/// and end, the range may be divided between them.
fn patch(
    top: &mut Layer<'_>,
    below: &mut [Layer<'_>],
    addr: Addr,
    buf: &mut [u8],
    error: ReadError,
) -> Result<(), ReadError> {
    let ends = |r: &Region| [Some(r.start), r.start.checked_add(r.len)];
    let mut cuts: Vec<usize> = below
        .iter()
        .filter_map(|layer| layer.known.as_ref())
        .flatten()
        .flat_map(ends)
        .filter_map(|end| usize::try_from(end?.checked_sub(addr)?).ok())
        .filter(|&into| into > 0 && into < buf.len())
        .collect();
    if cuts.is_empty() {
        return fill(below, addr, buf).map_err(|_| error);
    }
    cuts.sort_unstable();
    cuts.dedup();
    cuts.push(buf.len());
    let (mut from, mut rest) = (0, buf);
    for cut in cuts {
        // The cuts are sorted.
        let (now, later) = rest.split_at_mut(cut.saturating_sub(from).min(rest.len()));
        let here = addr.checked_add(from as u64).ok_or_else(|| error.clone())?;
        match top.memory.read(here, now) {
            Err(error) if !error.is_fatal() => fill(below, here, now).map_err(|_| error)?,
            done => done?,
        }
        (from, rest) = (cut, later);
    }
    Ok(())
}

/// Whether `at` is in one of the sorted regions, and how many bytes from there it stays so.
fn at_region(regions: &[Region], at: Addr) -> (bool, u64) {
    let upto = regions.partition_point(|r| r.start <= at);
    let inside = upto.checked_sub(1).and_then(|i| regions.get(i)).and_then(|r| r.len.checked_sub(r.offset_of(at)?));
    match (inside, regions.get(upto)) {
        (Some(room), _) => (true, room),
        (None, Some(next)) => (false, next.start.abs_diff(at)),
        (None, None) => (false, u64::MAX),
    }
}

impl Overlay<'_> {
    /// The first address of a range that no layer has, of those layers that know what they have.
    fn missing(&self, addr: Addr, len: usize) -> Option<Addr> {
        let (mut here, mut rest) = (addr, len as u64);
        while rest > 0 {
            let rooms = self.layers.iter().filter_map(|l| Some(at_region(l.known.as_ref()?, here)));
            let Some(room) = rooms.filter(|(inside, _)| *inside).map(|(_, room)| room).max() else { return Some(here) };
            rest = rest.saturating_sub(room);
            let Some(next) = here.checked_add(room).or((rest == 0).then_some(here)) else { return Some(Addr::MAX) };
            here = next;
        }
        None
    }
}

impl Memory for Overlay<'_> {
    fn changes(&self) -> bool {
        self.layers.iter().any(|l| l.memory.changes())
    }

    fn refresh(&mut self) {
        self.layers.iter_mut().for_each(|l| l.memory.refresh());
    }

    fn read(&mut self, addr: Addr, buf: &mut [u8]) -> Result<(), ReadError> {
        let len = buf.len();
        fill(&mut self.layers, addr, buf).map_err(|e| ReadError { len, ..e })
    }

    fn read_bytes(&mut self, addr: Addr, len: usize) -> Result<Bytes, ReadError> {
        self.read_batch(&[(addr, len)]).pop().unwrap_or_else(|| Err(ReadError::unmapped(addr, len)))
    }

    fn read_batch(&mut self, wanted: &[(Addr, usize)]) -> Vec<Result<Bytes, ReadError>> {
        let Some(top) = self.layers.first_mut() else {
            let none = |&(addr, len): &(Addr, usize)| match len {
                0 => Ok(Bytes::from(Vec::new())),
                _ => Err(ReadError::unmapped(addr, len)),
            };
            return wanted.iter().map(none).collect();
        };
        let mut results = top.memory.read_batch(wanted);
        for (result, &(addr, len)) in results.iter_mut().zip(wanted) {
            match result {
                Err(error) if !error.is_fatal() && len <= MAX_READ => {
                    let error = error.clone();
                    *result = self.put_together(addr, len, error);
                }
                _ => {}
            }
        }
        results
    }

    fn regions(&mut self) -> Option<Vec<Region>> {
        union(self.layers.iter().map(|l| l.known.clone()))
    }

    fn written(&mut self) -> Option<Vec<Region>> {
        union(self.layers.iter_mut().map(|l| l.memory.written()))
    }

    fn searchable(&mut self) -> Option<Vec<Region>> {
        union(self.layers.iter_mut().map(|l| l.memory.searchable()))
    }
}

/// All of these as one; `None` where one of them is not known.
fn union(all: impl Iterator<Item = Option<Vec<Region>>>) -> Option<Vec<Region>> {
    let all: Option<Vec<Vec<Region>>> = all.collect();
    let mut spans: Vec<(Addr, Addr)> = all?.into_iter().flatten().filter_map(|r| Some((r.start, r.last()?))).collect();
    spans.sort_unstable();
    Some(join(spans.into_iter()))
}

impl Overlay<'_> {
    /// The first layer failed with `error` on the whole range: it is put together from all of them.
    fn put_together(&mut self, addr: Addr, len: usize, error: ReadError) -> Result<Bytes, ReadError> {
        if self.layers.len() < 2 {
            return Err(error);
        }
        // Before memory is asked for: a read of a gigabyte of which a part is missing costs nothing.
        if self.layers.iter().all(|l| l.known.is_some())
            && let Some(missing) = self.missing(addr, len)
        {
            return Err(ReadError::unmapped(missing, len));
        }
        let Some((top, below)) = self.layers.split_first_mut() else { return Err(error) };
        let mut buf = vec![0; len];
        match &top.known {
            None => patch(top, below, addr, &mut buf, error),
            Some(_) => fill(&mut self.layers, addr, &mut buf),
        }
        .map_err(|e| ReadError { len, ..e })?;
        Ok(Bytes::from(buf))
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "tests say what they expect by failing")]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::rc::Rc;

    use proptest::prelude::*;

    use super::*;
    use crate::mem::ReadErrorKind;
    use crate::mem::segments::{Block, Segments};

    fn segments(list: &[(Addr, &[u8])]) -> Segments {
        Segments::new(list.iter().map(|(at, data)| Block::whole(*at, Bytes::from(data.to_vec()))).collect())
    }

    /// A stub: cannot say what it has, and counts what it is asked.
    struct Stub(Segments, Rc<RefCell<usize>>);

    impl Memory for Stub {
        fn read(&mut self, addr: Addr, buf: &mut [u8]) -> Result<(), ReadError> {
            *self.1.borrow_mut() += 1;
            self.0.read(addr, buf).map_err(|_| ReadError::unmapped(addr, buf.len()))
        }
    }

    struct Broken;

    impl Memory for Broken {
        fn read(&mut self, addr: Addr, buf: &mut [u8]) -> Result<(), ReadError> {
            Err(ReadError::new(addr, buf.len(), ReadErrorKind::Source("the link is gone".into())))
        }
    }

    fn get(m: &mut impl Memory, addr: Addr, len: usize) -> Result<Vec<u8>, Addr> {
        m.read_bytes(addr, len).map(|b| b.to_vec()).map_err(|e| e.addr)
    }

    #[test]
    fn the_first_layer_has_priority_and_gaps_are_filled() {
        let ram = segments(&[(0x10, &[1, 1, 1, 1]), (0x18, &[1, 1])]);
        let rom = segments(&[(0x0C, &[2; 16])]);
        let mut all = Overlay::new().below(ram).below(rom);
        assert_eq!(get(&mut all, 0x0E, 14), Ok(vec![2, 2, 1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2]));
        assert_eq!(get(&mut all, 0x1A, 3), Err(0x1C));
        assert_eq!(all.regions(), Some(vec![Region { start: 0x0C, len: 16 }]));
        assert_eq!(get(&mut Overlay::new(), 0, 1), Err(0));
        let mut top = Overlay::new().below(segments(&[(Addr::MAX, &[3])]));
        assert_eq!(get(&mut top, Addr::MAX, 1), Ok(vec![3]));
        assert_eq!(get(&mut top, Addr::MAX, 2), Err(Addr::MAX));
    }

    #[test]
    fn a_stub_is_asked_once_where_it_has_all() {
        let asked = Rc::new(RefCell::new(0));
        let stub = Stub(segments(&[(0x10, &[1; 8])]), Rc::clone(&asked));
        let mut all = Overlay::new().below(stub).below(segments(&[(0x18, &[2; 8])]));
        assert_eq!(get(&mut all, 0x10, 8), Ok(vec![1; 8]));
        assert_eq!(*asked.borrow(), 1);
        assert_eq!(get(&mut all, 0x14, 8), Ok(vec![1, 1, 1, 1, 2, 2, 2, 2]), "divided where the layer below begins");
        assert_eq!(get(&mut all, 0x40, 4), Err(0x40));
        assert_eq!(all.regions(), None);
    }

    #[test]
    fn a_broken_source_is_not_papered_over() {
        let mut all = Overlay::new().below(Broken).below(segments(&[(0, &[2; 8])]));
        assert!(all.read_bytes(0, 4).unwrap_err().is_fatal());
        assert!(all.read(0, &mut [0; 4]).unwrap_err().is_fatal());
    }

    proptest! {
        #[test]
        fn layers_are_those_of_a_byte_map(
            layers in prop::collection::vec(prop::collection::vec((0u64..64, 1usize..16), 0..4), 0..4),
            base in 0u64..80, len in 0usize..40,
        ) {
            let mut model = BTreeMap::new();
            let mut all = Overlay::new();
            for (n, blocks) in layers.iter().enumerate() {
                for &(start, size) in blocks {
                    for i in 0..size as u64 {
                        model.entry(start + i).or_insert(n as u8);
                    }
                }
                let blocks = blocks.iter().map(|&(at, size)| Block::whole(at, Bytes::from(vec![n as u8; size])));
                all = all.below(Segments::new(blocks.collect()));
            }
            let expected: Result<Vec<u8>, Addr> =
                (base..base + len as u64).map(|at| model.get(&at).copied().ok_or(at)).collect();
            prop_assert_eq!(get(&mut all, base, len), expected.clone());
            let mut buf = vec![0; len];
            prop_assert_eq!(all.read(base, &mut buf).map(|()| buf).map_err(|e| e.addr), expected);
        }
    }
}
