//! Files as they are given: unpacked where they are compressed, and put at their addresses where they are text.

use std::path::Path;

use super::scan::LIMIT;
use crate::abi::{Addr, Endian};
use crate::bytes::Bytes;
use crate::code::Code;
use crate::error::Error;
use crate::format::Haystack;
use crate::mem::gzip::{self, End};
use crate::mem::image::parse_number;
use crate::mem::image::text::{self, Dump, Kind, OrderKnown};
use crate::mem::map::{FileMap, MapError};
use crate::near::{did_you_mean, nearest};
use crate::trace::{Issue, Place, Severity};

/// How often one file may be compressed: a script that packs what another has packed already.
const LAYERS: usize = 3;
/// The most names of a directory that are looked at for one near to a name that is not there.
const MOST_FILES: usize = 4096;

/// An open file.
pub(super) struct File {
    /// Its name, and what had to be done to read it.
    pub name: String,
    /// What is in it.
    pub bytes: Bytes,
    /// Where a sparse file holds bytes; `None` where all of it counts.
    pub data: Option<Vec<(u64, u64)>>,
}

/// Opens a file; unpacks it where it is compressed.
pub(super) fn open(path: &Path, issues: &mut Vec<Issue>) -> Result<File, Error> {
    let bytes = FileMap::open(path).map_err(|e| cannot_open(&e))?;
    let data = bytes.data_ranges().to_vec();
    let mut file = unpack(path.display().to_string(), Bytes::from(bytes), issues)?;
    file.data = file.data.map(|_| data);
    Ok(file)
}

/// Why a file cannot be opened, and what was likely meant.
fn cannot_open(error: &MapError) -> Error {
    let (mut message, mut hint) = (error.to_string(), String::new());
    match error {
        MapError::Missing(path) => {
            let text = path.to_string_lossy();
            let parts = text.rsplit_once(['@', ':']).map(|(file, address)| (Path::new(file), address));
            match parts {
                Some((file, address)) if file.is_file() => hint = address_hint(file, address),
                Some((file, address)) if parse_number(address).is_some() => {
                    message = MapError::Missing(file.to_owned()).to_string();
                    hint = near_files(file);
                }
                _ => hint = Some(near_files(path)).filter(|near| !near.is_empty()).unwrap_or_else(|| filter_hint(path)),
            }
        }
        MapError::Directory(path) => hint = format!("give a file in it: {}", path.join("FILE").display()),
        MapError::NotRegular { path, what } => hint = hint_for(what, path),
        MapError::Empty(_) => "the copy or the dump failed: make it again".clone_into(&mut hint),
        _ => {}
    }
    Error::failed(Code::File, message, hint)
}

/// What to do with something that is there and has no size. A device may have no end, so the hint is not to copy it whole.
fn hint_for(what: &str, path: &Path) -> String {
    let path = path.display();
    match what {
        "FIFO" => format!("pipe what comes out of it: cat {path} | tx-trace last --image -"),
        "socket" => format!("the socket of a GDB stub is --remote unix:{path}"),
        _ if path.to_string().contains("/tty") => format!("a stub on a serial line is --remote {path}"),
        _ => format!("copy the part that is needed into a file: head -c 1M {path} > ram.bin"),
    }
}

/// For the name of a file with something after it that is not `@ADDR`.
fn address_hint(file: &Path, address: &str) -> String {
    let file = file.display();
    match parse_number(address) {
        Some(_) => format!("the address of a dump follows an @: {file}@{address}"),
        None => format!("the address of a dump is a number after an @: {file}@0x20000000"),
    }
}

/// For a word that may be the name of a thread or an event: no path, and without the ending of a file's name.
fn filter_hint(path: &Path) -> String {
    let is_name = |text: &&str| text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | ' '));
    path.to_str().filter(is_name).map_or_else(String::new, |name| {
        format!("an argument is the name of a file; to choose a thread: --thread {name}, or threads --bt={name}")
    })
}

/// Files in the same directory whose names are near to that of one that is not there.
fn near_files(path: &Path) -> String {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let entries = std::fs::read_dir(dir.unwrap_or(Path::new("."))).into_iter().flatten().take(MOST_FILES).flatten();
    let names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let near: Vec<String> = nearest(name, names.iter().map(String::as_str))
        .into_iter()
        .map(|near| dir.map_or_else(|| near.to_owned(), |dir| dir.join(near).display().to_string()))
        .collect();
    did_you_mean(&near.iter().map(String::as_str).collect::<Vec<_>>(), "")
}

/// Unpacks bytes that are compressed; what is sound of them is used.
pub(super) fn unpack(name: String, bytes: Bytes, issues: &mut Vec<Issue>) -> Result<File, Error> {
    unpack_within(gzip::bound_of(bytes.len()), name, bytes, issues)
}

/// `bound` is for all layers together: one is in memory while the next is unpacked.
fn unpack_within(mut bound: usize, name: String, bytes: Bytes, issues: &mut Vec<Issue>) -> Result<File, Error> {
    let mut file = File { name, bytes, data: Some(vec![(0, u64::MAX)]) };
    for _ in 0..LAYERS {
        if !gzip::is_gzip(&file.bytes) {
            return Ok(file);
        }
        file = unpack_layer(bound, file.name, &file.bytes, issues)?;
        // No more than `bound` was unpacked.
        bound = bound.saturating_sub(file.bytes.len());
    }
    if !gzip::is_gzip(&file.bytes) {
        return Ok(file);
    }
    Err(Error::failed(
        Code::Gzip,
        format!("{} is compressed more than {LAYERS} times over", file.name),
        "unpack it with gunzip",
    ))
}

/// Unpacks bytes that are compressed, once.
fn unpack_layer(bound: usize, name: String, bytes: &Bytes, issues: &mut Vec<Issue>) -> Result<File, Error> {
    let unpacked = gzip::unpack(bytes, bound);
    let len = unpacked.bytes.len();
    let trouble = match unpacked.end {
        End::Whole => None,
        End::Trailing(n) => Some((Code::GzipTrailing, format!("{n} bytes after its end are not gzip: not used"))),
        End::TooLarge => Some((
            Code::GzipTooLarge,
            format!("it holds more than {len} bytes, and no more are unpacked: gunzip -k makes a file of any size"),
        )),
        End::Cut => Some((Code::GzipCut, format!("it is cut short: {len} bytes could be unpacked"))),
        End::Damaged(why) => Some((
            Code::GzipDamaged,
            format!("it is damaged ({why}): {len} bytes could be unpacked, and the last of them may be wrong"),
        )),
    };
    if len == 0 {
        let why = trouble.map_or_else(|| "it is empty".to_owned(), |(_, sentence)| sentence);
        return Err(Error::failed(Code::Gzip, format!("{name} is compressed (gzip), and {why}"), "copy it again"));
    }
    issues.extend(trouble.map(|(code, sentence)| Issue::new(code, format!("{name}: {sentence}"))));
    Ok(File { name: format!("{name} (gzip, {len} bytes unpacked)"), bytes: Bytes::from(unpacked.bytes), data: None })
}

/// Refuses a file that is compressed in a way that is not unpacked here.
pub(super) fn refuse_packed(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    const KINDS: [(&[u8], &str, &str); 6] = [
        (b"\xFD7zXZ\0", "xz", "unxz -k"),
        (b"\x28\xB5\x2F\xFD", "zstd", "unzstd"),
        (b"BZh91AY&SY", "bzip2", "bunzip2 -k"),
        (b"PK\x03\x04", "zip", "unzip"),
        (b"makedumpfile\0", "kdump", ""),
        (b"KDUMP   ", "kdump", ""),
    ];
    let Some((_, kind, tool)) = KINDS.into_iter().find(|(magic, ..)| bytes.starts_with(magic)) else { return Ok(()) };
    let hint = match tool {
        "" => "write an ELF core instead: QEMU's `dump-guest-memory FILE` without -z, -l and -s, or `makedumpfile -E`"
            .to_owned(),
        tool => format!("{tool} {}", path.display()),
    };
    Err(Error::failed(
        Code::Packed,
        format!("{} is compressed ({kind}); only gzip is unpacked here", path.display()),
        hint,
    ))
}

/// A dump.
pub(super) struct Piece {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: Bytes,
    /// Where the first of them belongs, once that is known.
    pub address: Option<Addr>,
    /// Where a sparse file holds bytes; `None` where all of it counts.
    pub data: Option<Vec<(u64, u64)>>,
}

impl Piece {
    /// The dump that a file holds.
    pub fn of(file: File, address: Option<Addr>) -> Self {
        Self { name: file.name, bytes: file.bytes, address, data: file.data }
    }

    /// What of it is searched for a trace, and whether that is all.
    pub(super) fn haystack(&self) -> (Haystack<'_>, bool) {
        Haystack::new(&self.bytes).with_data(self.data.as_deref()).bounded(LIMIT)
    }
}

/// Text that holds memory is read; all else stays as it is. `order` is the target's byte order, where it is known.
pub(super) fn read_text(
    images: Vec<Piece>,
    order: Option<Endian>,
    issues: &mut Vec<Issue>,
) -> Result<Vec<Piece>, Error> {
    let mut pieces = Vec::with_capacity(images.len());
    for piece in images {
        match text::sniff(&piece.bytes) {
            Some(kind) => {
                put(&piece.name, text::read(kind, &piece.bytes, order), piece.address, &mut pieces, issues)?;
            }
            None => {
                issues.extend(blank(&piece));
                pieces.push(piece);
            }
        }
    }
    Ok(pieces)
}

/// The length of a dump that is looked at: a few bytes may all be the same, and a larger one takes long.
const BLANK: std::ops::RangeInclusive<usize> = 4096..=64 << 20;

/// What is said of a dump in which all bytes are 0, or all are 0xFF: what made it may not have read the target.
fn blank(piece: &Piece) -> Option<Issue> {
    let len = Some(piece.bytes.len()).filter(|len| BLANK.contains(len))?;
    let first = piece.bytes.first().filter(|first| matches!(first, 0 | 0xFF))?;
    let message = format!(
        "{}: all of its {len} bytes are {first:#04x}: what made this dump may not have read the target's memory",
        piece.name
    );
    piece.bytes.iter().all(|byte| byte == first).then(|| Issue::new(Code::DumpBlank, message))
}

/// The blocks of one text file, moved where `FILE@ADDR` says that the first of them belongs.
fn put(
    name: &str,
    dump: Dump,
    address: Option<Addr>,
    pieces: &mut Vec<Piece>,
    issues: &mut Vec<Issue>,
) -> Result<(), Error> {
    // Plain digits count from the start of the file, damaged or not.
    let plain = dump.kind == Kind::Plain;
    let Some(first) = dump.blocks.first().map(|(at, _)| if plain { 0 } else { *at }) else {
        return Err(empty(name, &dump));
    };
    report(name, &dump, issues);
    // `xxd` and `hexdump` count from the start of the file that they were given, as a raw image has no addresses.
    let unplaced = (plain || dump.kind == Kind::HexDump) && first == 0 && dump.blocks.len() == 1;
    if let Some(address) = address.filter(|a| *a != first && !unplaced && !plain) {
        issues.push(
            Issue::new(
                Code::DumpMoved,
                format!("{name} begins at {first:#x} by itself; it was moved to {address:#x}, as given"),
            )
            .at(Place::address(address)),
        );
    }
    let shown = shown(name, &dump);
    for (at, bytes) in dump.blocks {
        let place = match address {
            None => (!unplaced).then_some(at),
            Some(address) => Some(moved(name, at, first, address)?),
        };
        pieces.push(Piece { name: shown.clone(), bytes, address: place, data: None });
    }
    Ok(())
}

/// A text file without any usable line.
fn empty(name: &str, dump: &Dump) -> Error {
    Error::failed(
        Code::DumpEmpty,
        format!("{name} is {}, and nothing in it can be used", a(dump.kind)),
        "copy it again from where it was made",
    )
    .tried(dump.flaws.iter().map(ToString::to_string).collect())
}

/// What is wrong with a text file.
fn report(name: &str, dump: &Dump, issues: &mut Vec<Issue>) {
    for flaw in &dump.flaws {
        let severity = match (flaw.wrong.loses(), flaw.wrong) {
            (true, _) => Severity::Lost,
            (_, text::Wrong::Overlap) => Severity::Inferred,
            _ => Severity::Note,
        };
        let place = flaw.address.map(Place::address).unwrap_or_default();
        let issue = Issue::new(flaw.wrong.code(), format!("{name}: {flaw}"));
        issues.push(issue.severity(severity).times(flaw.count).at(place));
    }
    if dump.words.is_some_and(|w| w.known == OrderKnown::Assumed) {
        let message = format!(
            "{name} holds words, and their byte order is not known: little-endian is assumed (--elf FILE gives it)"
        );
        issues.push(Issue::new(Code::DumpByteOrder, message));
    }
}

/// The name of a text file, with what it is.
fn shown(name: &str, dump: &Dump) -> String {
    // Where the characters beside the groups show their order, they are read in it, whatever the target's is.
    let order = dump.words.filter(|w| w.known != OrderKnown::Text);
    let order = order.map_or(String::new(), |w| format!(", {}-endian words", w.order.name()));
    format!("{name} ({}{order})", dump.kind.name())
}

/// The address of a block of a file that is moved from `first` to `address`.
fn moved(name: &str, at: Addr, first: Addr, address: Addr) -> Result<Addr, Error> {
    at.checked_sub(first).and_then(|offset| address.checked_add(offset)).ok_or_else(|| {
        Error::failed(
            Code::Image,
            format!("{name} begins at {first:#x}: moved to {address:#x} it passes the end of the address space"),
            format!("leave @{address:#x} out: the file holds its addresses itself"),
        )
    })
}

const fn a(kind: Kind) -> &'static str {
    match kind {
        Kind::IntelHex => "an Intel HEX file",
        Kind::SRecord => "an S-record file",
        Kind::HexDump => "a hex dump",
        Kind::Plain => "plain hex",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_is_unpacked_has_a_bound_that_is_reported() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&[7; 5000]).unwrap();
        let packed = Bytes::from(packed.finish().unwrap());
        let mut issues = Vec::new();
        let file = unpack_within(4096, "ram.gz".to_owned(), packed, &mut issues).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(file.bytes.len(), 4096);
        let [issue] = issues.as_slice() else { panic!("{issues:?}") };
        assert_eq!((issue.code, issue.severity), (Code::GzipTooLarge, Severity::Lost));
        assert!(issue.message.starts_with("ram.gz: it holds more than 4096 bytes"), "{}", issue.message);
    }
}
