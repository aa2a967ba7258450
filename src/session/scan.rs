//! Where the trace is: each format is asked, and where none finds it the memory itself is searched.

use super::{Identity, Target, formats, program};
use crate::abi::Addr;
use crate::code::Code;
use crate::error::Error;
use crate::format::{Format, Found, Located, Location};
use crate::mem::Memory;
use crate::trace::{Issue, Place};

/// How much is searched at a time; a header that straddles two steps is found in the second, by the overlap.
const STEP: u64 = 16 << 20;
/// Bytes that two steps share: more than any header.
const OVERLAP: u64 = 256;
/// The most traces that a search reports.
const MAX_HITS: usize = 64;
/// The most bytes that a search looks at, not counting the holes of sparse files.
pub(super) const LIMIT: u64 = 4 << 30;

/// A trace that a search found, at its address.
#[derive(Clone, Copy)]
pub struct Hit {
    pub format: &'static dyn Format,
    pub address: Addr,
    pub found: Found,
}

pub(super) fn find(session: &mut Target<'_>) -> Result<(&'static dyn Format, Box<dyn Located>), Error> {
    let mut first: Option<Error> = None;
    if !session.info.scan || session.info.hints.header.is_some() {
        for format in by_content(session) {
            match format.locate(session.memory.memory(), &session.info.symbols, &session.info.hints) {
                Ok(located) => return Ok((format, located)),
                Err(error) if matches!(error.code, Code::SourceFailed | Code::Interrupted) => return Err(error),
                // The error of a format whose symbols are there is better than that of another system.
                Err(error) => {
                    first = first.filter(|f| f.code != Code::NoTraceSymbol || f.code == error.code).or(Some(error));
                }
            }
        }
    }
    let mut error = first.unwrap_or_else(|| Error::not_found(Code::NoTrace, "no trace was found", ""));
    if program::is_by_zero(&error) {
        // Only here a live target's code is worth its reads.
        let identity = Identity { code: session.code_match(), load: session.load_offset(), ..Identity::default() };
        error = program::doubt(&identity, error);
    }
    if session.is_live() && !session.info.scan {
        return Err(error);
    }
    instead(session, error)
}

/// The formats, those that know the bytes at the given header first.
fn by_content(session: &mut Target<'_>) -> Vec<&'static dyn Format> {
    let mut all: Vec<&'static dyn Format> = formats(session.info.only).collect();
    if let Some(header) = session.info.hints.header
        && all.len() > 1
    {
        let memory = session.memory.memory();
        let head = HEADS.into_iter().find_map(|len| memory.read_bytes(header, len).ok());
        all.sort_by_key(|f| !head.as_ref().is_some_and(|h| f.describes(h)));
    }
    all
}

/// Bytes by which a format is recognized: more than any header, and fewer where a short header is the last thing in a dump.
const HEADS: [usize; 9] = [256, 192, 128, 96, 64, 52, 48, 44, 32];

/// Searches the memory after all else failed with `error`.
pub(super) fn instead(
    session: &mut Target<'_>,
    error: Error,
) -> Result<(&'static dyn Format, Box<dyn Located>), Error> {
    let searched = search(session)?;
    let Some(best) = choose(&searched.hits) else { return Err(none_found(session, &searched, error)) };
    let Searched { hits, whole, .. } = searched;
    let part = if whole { "the memory".to_owned() } else { format!("the first {} GiB of memory", LIMIT >> 30) };
    let how = format!("a search of {part} found a header at {:#x}", best.address);
    let elsewhere = (!best.found.claims(best.address)).then(|| {
        let (base, by) = (best.found.base, best.found.base.abs_diff(best.address));
        let side = if best.address > base { "too high" } else { "too low" };
        format!(
            "; its own header says that it is at {base:#x}: the address of the dump is {by:#x} {side}, or this is a copy"
        )
    });
    session.is_trace_elsewhere = elsewhere.is_some();
    if error.code == Code::NeverEnabled && elsewhere.is_none() {
        session.issues.push(
            Issue::new(
                Code::LeftOver,
                format!(
                    "{}; this trace is at {:#x} and is left over from before the last start",
                    error.message, best.address
                ),
            )
            .at(Place::address(best.address)),
        );
    } else if !error.message.is_empty() && error.code != Code::NoTrace && error.code != Code::NoTraceSymbol {
        session.issues.push(
            Issue::new(Code::FoundBySearch, format!("{}; {how}{}", error.message, elsewhere.unwrap_or_default()))
                .at(Place::address(best.address)),
        );
    } else if let Some(elsewhere) = elsewhere {
        session
            .issues
            .push(Issue::new(Code::FoundBySearch, format!("{how}{elsewhere}")).at(Place::address(best.address)));
    }
    let others: Vec<String> =
        hits.iter().filter(|h| h.address != best.address).map(|h| format!("{:#x}", h.address)).collect();
    if !others.is_empty() {
        session.issues.push(
            Issue::new(
                Code::SeveralTraces,
                format!("more traces are at {}: choose one with --header ADDR", others.join(", ")),
            )
            .times(others.len() as u64),
        );
    }
    let location = Location {
        header: best.address,
        endian: Some(best.found.endian),
        pointer: session.info.hints.pointer,
        how,
        by_symbols: false,
    };
    Ok((best.format, best.format.at(location)))
}

/// The error of a search that found no header.
fn none_found(session: &Target<'_>, searched: &Searched, mut error: Error) -> Error {
    let Searched { bytes, whole, .. } = *searched;
    error.tried.push(match bytes {
        Some(bytes) if !whole => {
            error.hint = format!("more than {} GiB are not searched: {WHERE}", LIMIT >> 30);
            format!("searching the first {bytes} bytes of memory for a trace header: none")
        }
        Some(bytes) => format!("searching {bytes} bytes of memory for a trace header: none"),
        None => "searching: this source does not list its memory".to_owned(),
    });
    let blank = session.issues.iter().find(|issue| issue.code == Code::DumpBlank);
    if let Some(blank) = blank.filter(|_| error.code == Code::NeverEnabled) {
        error.message.push_str(", or this memory was not read");
        error.tried.push(blank.message.clone());
    }
    if session.info.scan && whole && error.code == Code::NoTrace {
        error.message = "no trace header is in this memory".to_owned();
        error.hint = "check that the dump covers the RAM with the trace buffer".to_owned();
    }
    if error.code == Code::NoTraceSymbol && whole && bytes.is_some() {
        // It was searched already.
        let elf = match session.info.elf() {
            None => "the program's ELF as well (last app.elf app.core)",
            Some(_) => "the unstripped ELF of the program that ran",
        };
        error.hint = format!("give {elf}, and check that the dump covers the RAM with the trace buffer");
    }
    of_cut(session, error)
}

/// An error with what was lost on the way here in front: the trace may have been there.
fn of_cut(session: &Target<'_>, mut error: Error) -> Error {
    const CUT: [Code; 4] = [Code::CoreTruncated, Code::GzipCut, Code::GzipDamaged, Code::DumpCut];
    if let Some(cut) = session.issues.iter().find(|issue| CUT.contains(&issue.code)) {
        let detail = std::mem::replace(&mut error.message, format!("{}, and no trace is in the rest", cut.message));
        error.tried.insert(0, detail);
        error.hint = "copy the file again from where it was made".to_owned();
    }
    error
}

/// The first hit of each format is the best of that format; of several formats the one with the largest trace is chosen.
fn choose(hits: &[Hit]) -> Option<Hit> {
    let first =
        |h: &&Hit| hits.iter().find(|o| o.format.name() == h.format.name()).is_some_and(|o| o.address == h.address);
    hits.iter()
        .filter(first)
        .copied()
        .max_by_key(|h| (h.found.claims(h.address), h.found.capacity, std::cmp::Reverse(h.address)))
}

/// What to try where there is more memory than is searched.
const WHERE: &str = "say where the trace is, with --elf FILE or --header ADDR";

/// What a search found.
pub struct Searched {
    /// Every trace that was found.
    pub hits: Vec<Hit>,
    /// How many bytes were searched; `None` where the source does not list its memory.
    bytes: Option<u64>,
    /// False where there is more memory than a search looks at.
    whole: bool,
}

/// Every trace in the memory.
pub(super) fn search(session: &mut Target<'_>) -> Result<Searched, Error> {
    let only = session.info.only;
    let memory = session.memory.memory();
    let Some(regions) = memory.searchable() else {
        return Ok(Searched { hits: Vec::new(), bytes: None, whole: false });
    };
    let mut hits: Vec<Hit> = Vec::new();
    let mut searched = 0u64;
    let mut whole = true;
    'regions: for region in regions {
        let mut offset = 0;
        while let Some(rest) = region.len.checked_sub(offset).filter(|rest| *rest > 0) {
            let len = rest.min(STEP);
            if len > LIMIT.saturating_sub(searched) {
                whole = false;
                break 'regions;
            }
            let Some(start) = region.start.checked_add(offset) else { break };
            search_part(memory, only, start, len, &mut hits)?;
            // At most `LIMIT`.
            searched = searched.saturating_add(len);
            if len == rest {
                break;
            }
            offset = offset.saturating_add(STEP - OVERLAP);
        }
    }
    let mut sifted = Vec::new();
    for format in formats(only) {
        let own = hits.iter().filter(|h| h.format.name() == format.name()).map(|h| (h.address, h.found)).collect();
        let own = format.sift(memory, own);
        sifted.extend(own.into_iter().map(|(address, found)| Hit { format, address, found }));
    }
    Ok(Searched { hits: sifted, bytes: Some(searched), whole })
}

fn search_part(
    memory: &mut dyn Memory,
    only: Option<&'static dyn Format>,
    start: Addr,
    len: u64,
    hits: &mut Vec<Hit>,
) -> Result<(), Error> {
    let bytes = match memory.read_bytes(start, usize::try_from(len).unwrap_or(usize::MAX)) {
        Ok(bytes) => bytes,
        Err(e) if e.is_fatal() => return Err(e.explain("searching the memory")),
        Err(_) => return Ok(()),
    };
    for format in formats(only) {
        for found in format.scan(&bytes, MAX_HITS.saturating_sub(hits.len())) {
            let Some(address) = start.checked_add(found.offset as u64) else { continue };
            if !hits.iter().any(|h| h.address == address) {
                hits.push(Hit { format, address, found });
            }
        }
    }
    Ok(())
}
