//! Images: the bytes of a file, at a given address; and text that holds its addresses itself.

mod collect;
mod hexdump;
mod ihex;
mod plain;
mod srec;
pub mod text;

use super::Region;
use super::segments::{Block, Segments};
use crate::abi::{Addr, Width};
use crate::bytes::Bytes;

/// An address, count or size: hexadecimal after `0x`, else decimal; `_` may separate digits, and a `+` may precede them.
/// `None` where it is something else, or does not fit into 64 bits.
pub fn parse_number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None => (text, 10),
    };
    if digits.starts_with('_') || digits.ends_with('_') {
        return None;
    }
    let digits: String = digits.chars().filter(|c| *c != '_').collect();
    u64::from_str_radix(&digits, radix).ok()
}

/// The bytes of a file, and their address.
#[derive(Debug, Clone)]
pub struct Image {
    /// The file's name.
    pub name: String,
    /// Its bytes.
    pub bytes: Bytes,
    /// Where the first of them belongs.
    pub addr: Addr,
    /// Where a sparse file holds bytes, as offset and length, sorted; `None`: everywhere.
    pub data: Option<Vec<(u64, u64)>>,
}

/// Why images make no memory. Each names the images and their ranges.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// It passes the end of the address space.
    #[error("{name} at {addr:#x} has {len} bytes and passes the end of the address space ({last:#x})")]
    PastEnd {
        /// The image.
        name: String,
        /// Where it was placed.
        addr: Addr,
        /// Its bytes.
        len: u64,
        /// The last address there is.
        last: Addr,
    },
    /// Two claim the same addresses: which one is right only the user knows.
    #[error(
        "{first} ({first_at}) and {second} ({second_at}) overlap: one of the two addresses is wrong, or one image is too many"
    )]
    Overlap {
        /// The lower image.
        first: String,
        /// Where it is.
        first_at: Region,
        /// The upper image.
        second: String,
        /// Where it is.
        second_at: Region,
    },
}

impl Image {
    /// An image at an address.
    pub fn placed(name: impl Into<String>, bytes: impl Into<Bytes>, addr: Addr) -> Self {
        Self { name: name.into(), bytes: bytes.into(), addr, data: None }
    }

    /// The same image, of a file that holds bytes only here (offset and length, sorted).
    #[must_use]
    pub fn with_data(self, data: Option<Vec<(u64, u64)>>) -> Self {
        Self { data, ..self }
    }
}

/// One memory of several images. `width` bounds the address space: the target's address width, 64-bit where
/// that is unknown.
///
/// # Errors
/// Where an image passes the end of the address space, or overlaps another.
pub fn memory_of(images: &[Image], width: Width) -> Result<Segments, ImageError> {
    let mut placed: Vec<(Region, &Image)> = Vec::new();
    for image in images {
        let addr = image.addr;
        let len = image.bytes.len() as u64;
        if len == 0 {
            continue;
        }
        let region = Region { start: addr, len };
        if region.last().is_none_or(|last| last > width.max()) {
            return Err(ImageError::PastEnd { name: image.name.clone(), addr, len, last: width.max() });
        }
        placed.push((region, image));
    }
    placed.sort_by_key(|(region, _)| region.start);
    for pair in placed.windows(2) {
        if let [(a, first), (b, second)] = pair
            && a.overlaps(*b)
        {
            let (first, second) = (first.name.clone(), second.name.clone());
            return Err(ImageError::Overlap { first, first_at: *a, second, second_at: *b });
        }
    }
    let block = |(at, image): (Region, &Image)| Block {
        written: image.data.as_deref().map(Into::into),
        ..Block::whole(at.start, image.bytes.clone())
    };
    Ok(Segments::new(placed.into_iter().map(block).collect()))
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "tests say what they expect by failing")]
#[path = "image/tests.rs"]
mod text_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::Memory;

    #[test]
    fn numbers() {
        assert_eq!(parse_number("0x2000_0000"), Some(0x2000_0000));
        assert_eq!(parse_number("0XfF"), Some(255));
        assert_eq!(parse_number("010"), Some(10));
        assert_eq!(parse_number("18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_number("+1"), Some(1));
        for bad in ["", "0x", "x", "+", "-1", "0x-1", "12 ", "ff", "_1", "0x1_", "1.5", "٣", "0x10000000000000000"] {
            assert_eq!(parse_number(bad), None, "{bad}");
        }
    }

    #[test]
    fn several_images_are_one_memory() {
        let images = [Image::placed("b", vec![2; 4], 0x14), Image::placed("a", vec![1; 4], 0x10)];
        let mut memory = memory_of(&images, Width::W4).unwrap();
        assert_eq!(&*memory.read_bytes(0x12, 4).unwrap(), [1, 1, 2, 2]);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let text = |images: &[Image], width| memory_of(images, width).unwrap_err().to_string();
        assert_eq!(
            text(&[Image::placed("a", vec![1; 4], 0x10), Image::placed("b", vec![1; 4], 0x0D)], Width::W4),
            "b (0xd to 0x10) and a (0x10 to 0x13) overlap: one of the two addresses is wrong, or one image is too many"
        );
        assert_eq!(
            text(&[Image::placed("a", vec![1; 4], 0xFFFF_FFFD)], Width::W4),
            "a at 0xfffffffd has 4 bytes and passes the end of the address space (0xffffffff)"
        );
        assert!(memory_of(&[Image::placed("a", vec![1; 4], 0xFFFF_FFFC)], Width::W4).is_ok());
        assert!(memory_of(&[Image::placed("a", vec![1; 4], u64::MAX)], Width::W8).is_err());
        assert!(memory_of(&[Image::placed("a", vec![], u64::MAX)], Width::W4).is_ok());
    }
}
