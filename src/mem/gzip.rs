//! Compressed files: unpacked in memory, up to a bound, and as far as they are sound.

use std::io::Read;

use flate2::bufread::GzDecoder;

/// The most bytes that a small file is unpacked to: a bomb stays small in memory.
const MIN_BOUND: usize = 256 << 20;
/// The most bytes that any file is unpacked to.
const MAX_BOUND: usize = 1 << 30;
/// How many times its own size a large file may unpack to: what a dump of RAM, half of it zeros, packs to.
const DENSITY: usize = 16;
/// DEFLATE packs no byte into less than a 1032nd of one.
const DENSEST: usize = 1032;
/// How much is unpacked at a time: what damage can cost of the sound bytes before it.
const STEP: usize = 16 << 10;

/// What came out of a compressed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpacked {
    /// The bytes, from the first on.
    pub bytes: Vec<u8>,
    /// Why there are no more.
    pub end: End,
}

/// Why unpacking ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// All of it is there, and its checksum is right.
    Whole,
    /// All of it is there; this many bytes after it are something else.
    Trailing(usize),
    /// There is more than the bound.
    TooLarge,
    /// The file ends too early.
    Cut,
    /// The file is damaged: the decoder's words.
    Damaged(String),
}

/// True where bytes begin as gzip does.
pub fn is_gzip(bytes: &[u8]) -> bool {
    // The third byte is the method: DEFLATE is the only one there is.
    bytes.starts_with(&[0x1F, 0x8B, 8])
}

/// The most bytes that a file of this many is unpacked to: 16 times its size, at least 256 MiB and at most 1 GiB.
pub fn bound_of(packed: usize) -> usize {
    packed.saturating_mul(DENSITY).clamp(MIN_BOUND, MAX_BOUND)
}

/// Unpacks `packed`, all its members one after the other, to at most `bound` bytes.
pub fn unpack(packed: &[u8], bound: usize) -> Unpacked {
    let mut bytes = Vec::new();
    // The file gives its size at its end (modulo 4 GiB, of the last member): believed as far as it can be true.
    let size = packed.last_chunk::<4>().map_or(0, |b| usize::try_from(u32::from_le_bytes(*b)).unwrap_or(0));
    bytes.reserve_exact(size.min(bound).min(packed.len().saturating_mul(DENSEST)));
    let mut rest = packed;
    let mut step = vec![0; STEP];
    loop {
        let mut decoder = GzDecoder::new(rest);
        loop {
            match decoder.read(&mut step) {
                Ok(0) => break,
                Ok(n) => {
                    let room = bound.saturating_sub(bytes.len());
                    bytes.extend_from_slice(step.get(..n.min(room)).unwrap_or(&[]));
                    if n > room {
                        return Unpacked { bytes, end: End::TooLarge };
                    }
                }
                Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Unpacked { bytes, end: End::Cut },
                Err(e) => return Unpacked { bytes, end: End::Damaged(e.to_string()) },
            }
        }
        let before = rest.len();
        rest = decoder.into_inner();
        // Tapes and block devices pad with zeros.
        if rest.iter().all(|b| *b == 0) {
            return Unpacked { bytes, end: End::Whole };
        }
        if !is_gzip(rest) || rest.len() == before {
            return Unpacked { bytes, end: End::Trailing(rest.len()) };
        }
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "tests say what they expect by failing")]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn pack(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    fn noise(len: usize) -> Vec<u8> {
        let mut x = 1u32;
        let mut next = || {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            x as u8
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn members_are_joined_and_padding_is_passed_over() {
        let mut packed = pack(b"abc");
        packed.extend(pack(b"def"));
        assert_eq!(unpack(&packed, 100), Unpacked { bytes: b"abcdef".to_vec(), end: End::Whole });
        packed.extend([0; 512]);
        assert_eq!(unpack(&packed, 100).end, End::Whole);
        packed.extend(b"more");
        assert_eq!(unpack(&packed, 100), Unpacked { bytes: b"abcdef".to_vec(), end: End::Trailing(516) });
    }

    #[test]
    fn a_bomb_stops_at_the_bound() {
        let packed = pack(&vec![0; 8 << 20]);
        assert!(packed.len() < 16 << 10);
        let out = unpack(&packed, 1 << 20);
        assert_eq!((out.bytes.len(), out.end), (1 << 20, End::TooLarge));
        assert_eq!(unpack(&packed, 8 << 20).end, End::Whole);
    }

    #[test]
    fn what_is_sound_before_the_damage_is_kept() {
        let bytes = noise(200_000);
        let packed = pack(&bytes);
        let cut = unpack(&packed[..packed.len() / 2], usize::MAX);
        assert_eq!(cut.end, End::Cut);
        assert!(cut.bytes.len() > 50_000 && bytes.starts_with(&cut.bytes), "{}", cut.bytes.len());
        let mut bad = packed.clone();
        let at = bad.len() - 6;
        bad[at] ^= 1;
        let bad = unpack(&bad, usize::MAX);
        assert_eq!(bad.bytes, bytes, "only the checksum is wrong");
        assert!(matches!(bad.end, End::Damaged(_)), "{:?}", bad.end);
    }

    #[test]
    fn a_size_that_lies_costs_nothing() {
        let mut packed = pack(b"abc");
        let at = packed.len() - 4;
        packed[at..].copy_from_slice(&[0xFF; 4]);
        let out = unpack(&packed, bound_of(packed.len()));
        assert_eq!(out.bytes, b"abc");
        assert!(out.bytes.capacity() < 64 << 10, "{}", out.bytes.capacity());
    }

    proptest! {
        #[test]
        fn garbage_never_panics(head in any::<bool>(), mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if head {
                bytes.splice(0..0, [0x1F, 0x8B, 8]);
            }
            let out = unpack(&bytes, 1 << 16);
            prop_assert!(out.bytes.len() <= 1 << 16);
        }
    }
}
