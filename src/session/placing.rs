//! Where a dump belongs: by the trace header in it, which holds its own address.

use super::file::Piece;
use super::formats;
use crate::abi::Addr;
use crate::code::Code;
use crate::error::Error;
use crate::format::{self, Format};
use crate::trace::Issue;

/// Refuses an address without its `0x`: `ram.bin@20000000`, where the trace header in the file says that the file begins
/// at 0x20000000.
pub(super) fn refuse_decimal(piece: &Piece, only: Option<&'static dyn Format>) -> Result<(), Error> {
    let Some(typed) = piece.address else { return Ok(()) };
    let meant = u64::from_str_radix(&typed.to_string(), 16).ok();
    // Memory begins at round addresses: any other needs no search of the file.
    let is_round = |address: &Addr| address.trailing_zeros() >= 12;
    let Some(meant) = meant.filter(|meant| is_round(meant) && !is_round(&typed)) else { return Ok(()) };
    let (hay, _) = piece.haystack();
    let begins = |found: &format::Found| found.base.checked_sub(found.offset as u64);
    if !formats(only).flat_map(|f| f.search(&hay, 16)).any(|found| begins(&found) == Some(meant)) {
        return Ok(());
    }
    let name = &piece.name;
    Err(Error::failed(
        Code::Image,
        format!(
            "{name}@{typed}: this address is {typed:#x}, and the trace header in the file says it begins at {meant:#x}"
        ),
        format!("did you mean {name}@{meant:#x}?"),
    ))
}

/// Places an image without an address by the trace header in it, which holds its own base. The offset of that header,
/// where it is the only one and is elsewhere than it says.
pub(super) fn place(
    piece: &mut Piece,
    header: Option<Addr>,
    only: Option<&'static dyn Format>,
) -> Result<(Issue, Option<Addr>), Error> {
    let (hay, whole) = piece.haystack();
    let found: Vec<_> = formats(only).flat_map(|f| f.search(&hay, 16)).collect();
    // A header that would place the image before address 0 is elsewhere: a copy.
    let best = found
        .iter()
        .filter(|f| f.base >= f.offset as u64)
        .filter(|f| header.is_none_or(|h| h == f.base))
        .max_by_key(|f| (f.capacity, std::cmp::Reverse(f.offset)))
        .or_else(|| found.first());
    let Some(best) = best else {
        let searched = hay.bytes().len();
        return Err(no_header(piece, (!whole).then_some(searched), only));
    };
    let at = best.base.checked_sub(best.offset as u64);
    let address = at.unwrap_or(0);
    let says = format!("the trace header at its offset {:#x} says it is at {:#x}", best.offset, best.base);
    let message = match at {
        Some(_) => format!("{} is placed at {address:#x}: {says}", piece.name),
        None => format!(
            "{} is placed at 0, as its addresses are not known: {says}, which is below 0 for its first byte",
            piece.name
        ),
    };
    let offset = (found.len() == 1 && at.is_none()).then_some(best.offset as u64);
    piece.address = Some(address);
    Ok((Issue::new(Code::PlacedByHeader, message), offset))
}

/// `searched`: so many bytes, where the image has more.
fn no_header(piece: &Piece, searched: Option<usize>, only: Option<&'static dyn Format>) -> Error {
    let Piece { name, bytes, .. } = piece;
    if let Some(searched) = searched {
        return Error::failed(
            Code::Image,
            format!("{name}: no trace header in the first {searched} of its {} bytes", bytes.len()),
            "say where its first byte belongs, as FILE@ADDR, and where the trace is, with --elf FILE or --header ADDR",
        );
    }
    refuse_cut(name, bytes, only).err().unwrap_or_else(|| {
        Error::not_found(
            Code::NoTrace,
            format!("{name}: no trace header in its {} bytes", bytes.len()),
            "the trace was never enabled, its header was overwritten, or the dump does not cover it; with an ELF and the dump's address (FILE@ADDR) the message says which",
        )
    })
}

/// A file that ends within the header that it begins with.
pub(super) fn refuse_cut(name: &str, bytes: &[u8], only: Option<&'static dyn Format>) -> Result<(), Error> {
    match formats(only).find_map(|f| f.cut_short(bytes)) {
        Some(why) => {
            Err(Error::failed(Code::HeaderDamaged, format!("{name} {why}"), "copy it again from where it was made"))
        }
        None => Ok(()),
    }
}
