//! Bytes to be searched for traces, without those in which none can begin: holes of a file, and long runs of zeros.

/// How much is compared with zeros at a time.
const BLOCK: usize = 4096;
/// What begins a trace may begin so many bytes before the first of it that is not zero; a multiple of every alignment.
const BEFORE: usize = 256;
static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// Bytes to be searched.
#[derive(Debug, Clone, Copy)]
pub struct Haystack<'a> {
    bytes: &'a [u8],
    data: Option<&'a [(u64, u64)]>,
}

impl<'a> Haystack<'a> {
    /// All of these bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, data: None }
    }

    /// The bytes of a sparse file, which holds some only here (offset and length, sorted).
    #[must_use]
    pub const fn with_data(self, data: Option<&'a [(u64, u64)]>) -> Self {
        Self { data, ..self }
    }

    /// No more of them than this many bytes, not counting holes; `false` where that leaves some out.
    pub fn bounded(self, most: u64) -> (Self, bool) {
        const ALL: &[(u64, u64)] = &[(0, u64::MAX)];
        let mut left = most;
        for (at, len) in self.data.unwrap_or(ALL) {
            let Some(rest) = left.checked_sub(*len) else {
                let end = usize::try_from(at.saturating_add(left)).unwrap_or(usize::MAX);
                let bytes = self.bytes.get(..end).unwrap_or(self.bytes);
                return (Self { bytes, ..self }, bytes.len() == self.bytes.len());
            };
            left = rest;
        }
        (self, true)
    }

    /// The bytes, from the first on.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The first offset, from `at` on, where a search has to look. Of an `at` that a block begins with only: a search
    /// that asks at every step pays for one comparison.
    pub fn next(&self, at: usize) -> usize {
        if at.is_multiple_of(BLOCK) { self.behind_zeros(at) } else { at }
    }

    /// The offsets where a search has to look, multiples of `step`.
    pub fn offsets(self, step: usize) -> impl Iterator<Item = usize> + use<'a> {
        let all = std::iter::successors(Some(self.next(0)), move |at| Some(self.next(at.saturating_add(step))));
        all.take_while(move |at| *at < self.bytes.len())
    }

    fn behind_zeros(&self, at: usize) -> usize {
        let mut end = at;
        loop {
            let data = self.behind_hole(end);
            let block = self.bytes.get(data..data.saturating_add(BLOCK));
            if block == Some(&ZEROS[..]) {
                end = data.saturating_add(BLOCK);
            } else if data == end {
                break;
            } else {
                end = data;
            }
        }
        if end == at { at } else { end.saturating_sub(BEFORE).max(at) }
    }

    /// The last multiple of a block before the next byte of the file that is in no hole; `at` where it is in none.
    fn behind_hole(&self, at: usize) -> usize {
        let Some(data) = self.data else { return at };
        let here = u64::try_from(at).unwrap_or(u64::MAX);
        let next = data.partition_point(|(start, len)| start.saturating_add(*len) <= here);
        let start = data.get(next).map_or(usize::MAX, |(start, _)| usize::try_from(*start).unwrap_or(usize::MAX));
        let start = start.min(self.bytes.len());
        start.saturating_sub(start % BLOCK).max(at)
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "tests say what they expect by failing")]
mod tests {
    use super::*;

    /// Every offset at which a search looks.
    fn looks(hay: &Haystack<'_>) -> Vec<usize> {
        hay.offsets(4).collect()
    }

    #[test]
    fn zeros_are_passed_over_and_what_may_begin_in_them_is_not() {
        let mut bytes = vec![0; 100 * BLOCK];
        bytes[50 * BLOCK + 10] = 1;
        let looks = looks(&Haystack::new(&bytes));
        assert!(looks.len() < 2 * BLOCK / 4, "{}", looks.len());
        assert!(looks.contains(&(50 * BLOCK + 8)) && looks.contains(&(50 * BLOCK - BEFORE)));
    }

    #[test]
    fn holes_are_not_touched() {
        // What is in a hole reads as zeros; here it does not, which shows that it is not read.
        let bytes = vec![7; 100 * BLOCK];
        let data = [(20 * BLOCK as u64 + 5, 10), (60 * BLOCK as u64, BLOCK as u64)];
        let hay = Haystack::new(&bytes).with_data(Some(&data));
        let touched = looks(&hay);
        let blocks: std::collections::BTreeSet<usize> = touched.iter().map(|at| at / BLOCK).collect();
        assert_eq!(blocks.into_iter().collect::<Vec<_>>(), [19, 20, 59, 60, 99]);
        assert_eq!(looks(&Haystack::new(&bytes)).len(), bytes.len() / 4);
    }

    #[test]
    fn a_bound_counts_what_is_no_hole() {
        let bytes = vec![7; 1000];
        let data = [(100, 50), (500, 100)];
        let hay = Haystack::new(&bytes).with_data(Some(&data));
        assert_eq!((hay.bounded(150).0.bytes().len(), hay.bounded(150).1), (1000, true));
        assert_eq!((hay.bounded(60).0.bytes().len(), hay.bounded(60).1), (510, false));
        let all = Haystack::new(&bytes);
        assert_eq!((all.bounded(1000).0.bytes().len(), all.bounded(1000).1), (1000, true));
        assert_eq!((all.bounded(999).0.bytes().len(), all.bounded(999).1), (999, false));
    }
}
