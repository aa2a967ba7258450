//! What each fuzz target does with its bytes. Everything that reads bytes from outside is driven here through the
//! public interface; `tests/fuzz_bodies.rs` runs the same functions on every `cargo test`.
//!
//! A body fails by panicking, by not ending, or by one of the claims that it checks. It returns how much it understood
//! (tokens, segments, events), so that a test can tell whether its seeds reach the code that they are meant for.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tx_trace::abi::{Region, Width};
use tx_trace::catalogue::{Catalogue, Names, user};
use tx_trace::code::Code;
use tx_trace::cpu::{Architecture, CodeRanges, Registers};
use tx_trace::elf::Elf;
use tx_trace::format::{ALL, Capture, DecodeOptions, Extent, Format, Hints, Located, Location};
use tx_trace::mem::Memory;
use tx_trace::mem::core::{Core, elf_readonly};
use tx_trace::mem::gzip;
use tx_trace::mem::image::{Image, memory_of, parse_number, text};
use tx_trace::mem::overlay::Overlay;
use tx_trace::mem::segments::{Block, Segments};
use tx_trace::output::{self, NoNames, TableOptions, View, Window};
use tx_trace::query::{Amount, Edge, Filters, Key, Position, Query};
use tx_trace::rsp::packet::{self, Decoder, Kind};
use tx_trace::rsp::transport::{Transport, TransportError};
use tx_trace::rsp::{Client, Endpoint, Leave, Options};
use tx_trace::sym::dwarf::Dwarf;
use tx_trace::sym::{ElfSymbols, NoSymbols, Symbols};
use tx_trace::trace::Trace;
use tx_trace::unwind::{MAX_FRAMES, Search, Unwinder};

/// The link: any bytes are cut into tokens without loss, however they come; what we encode we understand.
pub fn rsp_packet(data: &[u8]) -> usize {
    let (step, stream) = data.split_first().map_or((1, data), |(first, rest)| (usize::from(*first).max(1), rest));
    let mut decoder = Decoder::default();
    let (mut raw, mut tokens) = (Vec::new(), 0_usize);
    'link: for chunk in stream.chunks(step) {
        decoder.push(chunk);
        loop {
            match decoder.next_token() {
                Ok(Some(kind)) => {
                    assert!(!decoder.raw().is_empty(), "a token of no bytes: the link would never end");
                    raw.extend_from_slice(decoder.raw());
                    tokens = tokens.saturating_add(1);
                    if let Kind::Packet(body) | Kind::Notification(body) = kind {
                        assert!(body.data.len() <= packet::MAX_BODY.saturating_add(255));
                        let _ = packet::from_hex(&body.data);
                    }
                }
                Ok(None) => break,
                Err(_) => break 'link,
            }
        }
    }
    assert!(stream.starts_with(&raw), "tokens are the bytes that came");
    let frame = packet::encode(stream);
    let token = packet::next_token(&frame);
    let Ok(Some(token)) = token else { panic!("our own packet is not understood: {token:?}") };
    assert!(matches!(&token.kind, Kind::Packet(body) if body.checksum_ok && body.data == stream), "{token:?}");
    assert_eq!(packet::from_hex(&packet::to_hex(stream)).as_deref(), Some(stream));
    tokens
}

/// A dump that is text, or compressed: what comes out is in proportion to what went in, sorted, and in no two places.
pub fn dump(data: &[u8]) -> usize {
    const BOUND: usize = 1 << 20;
    let unpacked = gzip::unpack(data, BOUND);
    assert!(unpacked.bytes.len() <= BOUND);
    let data = if gzip::is_gzip(data) { &unpacked.bytes } else { data };
    let mut held = 0;
    for kind in [text::Kind::IntelHex, text::Kind::SRecord, text::Kind::HexDump] {
        let dump = text::read(kind, data, None);
        let mut end = None;
        for (start, bytes) in &dump.blocks {
            assert!(!bytes.is_empty() && end.is_none_or(|end| *start > end), "{kind:?}: {start:#x}");
            let last = start.checked_add(bytes.len() as u64 - 1).expect("nothing passes the end of the address space");
            end = last.checked_add(1).or(Some(last));
            held += bytes.len();
        }
        assert!(dump.flaws.iter().all(|f| f.count > 0 && !f.to_string().is_empty()));
    }
    held + usize::from(text::sniff(data).is_some())
}

/// An ELF file: header, tables, notes, symbols, debug information.
pub fn elf(data: &[u8]) -> usize {
    let Ok(elf) = Elf::open(data.to_vec()) else { return 0 };
    let elf = Arc::new(elf);
    let _ = (elf.describe(), elf.damage().len(), elf.kind(), elf.entry(), elf.build_id(), elf.is_stripped());
    for segment in elf.segments() {
        assert!(elf.segment_bytes(&segment).len() <= data.len());
    }
    // Names and bytes of a few: a table of many is asked for the same way.
    for section in elf.sections().take(64) {
        let _ = elf.section_name(&section);
        assert!(elf.section_bytes(&section).len() <= data.len());
    }
    let _ = (elf.section(".debug_info"), elf.notes().count());
    let names = ["_tx_trace_header_ptr", "_tx_thread_current_ptr", "main", ""];
    assert_eq!(elf.lookup_many(&names).len(), names.len());
    let near = elf.symbols_with_prefix("_tx_");
    for address in near.iter().map(|s| s.address).take(8).chain([0, elf.entry(), u64::MAX]) {
        let _ = (elf.covering(address), elf.section_holding(address));
    }
    for offset in [0, 0x5555_5555_4000, u64::MAX] {
        let symbols = ElfSymbols::new(Arc::clone(&elf), offset);
        let _ = (symbols.lookup("main"), symbols.function(elf.entry().wrapping_add(offset)));
        let _ = read_all(&mut elf_readonly(&elf, offset));
    }
    let symbols = ElfSymbols::new(Arc::clone(&elf), 0);
    let _ = symbols.dwarf().unavailable();
    for (name, member) in [("TX_THREAD_STRUCT", "tx_thread_name"), ("TX_TRACE_HEADER_STRUCT", "no_such_member")] {
        let _ = (symbols.member_offset(name, member), symbols.dwarf().type_size(name));
    }
    elf.segments().count().saturating_add(near.len())
}

/// The call frame information and lines of an ELF file, and a backtrace over a stack of its bytes: it ends, and is bounded.
pub fn unwind(data: &[u8]) -> usize {
    let Ok(elf) = Elf::open(data.to_vec()) else { return 0 };
    let Some(architecture) = Architecture::of(&elf) else { return 0 };
    let elf = Arc::new(elf);
    let dwarf = Dwarf::new(Arc::clone(&elf));
    let (cfi, lines) = (dwarf.cfi(), dwarf.lines());
    let code = CodeRanges::of(&elf, 0);
    let stack = Region { start: 0x2000_0000, len: data.len() as u64 };
    let own = Segments::new(vec![Block::whole(stack.start, data.to_vec().into())]);
    // The code of functions as well, which shows callers without call frame information.
    let mut memory = Overlay::new().below(own).below(elf_readonly(&elf, 0));
    let symbols = ElfSymbols::new(Arc::clone(&elf), 0);
    let endian = elf.endian();
    let unwinder = Unwinder {
        architecture,
        endian,
        cfi: Some(&cfi),
        load_offset: 0,
        code: &code,
        entries: &[],
        symbols: &symbols,
    };
    let mut frames = 0_usize;
    let starts: Vec<u64> = cfi.addresses().step_by(7).take(40).chain([elf.entry(), 0, u64::MAX]).collect();
    for (at, pc) in (0_u64..).step_by(52).zip(starts) {
        let mut registers = Registers::new(architecture);
        let exc_return = if at % 8 == 0 { 0xFFFF_FFED } else { 0xFFFF_FFF1 };
        // In a thread, in an exception, and where that is not known.
        let xpsr = [0x0100_0000, 0x0100_0003, 0];
        let xpsr = xpsr.get(usize::try_from(at % 3).unwrap_or_default()).copied().unwrap_or_default();
        let sp = stack.start.saturating_add(at);
        let values = [("pc", pc), ("sp", sp), ("lr", exc_return), ("psp", stack.start), ("xpsr", xpsr)];
        for (name, value) in values {
            registers.set(name, value);
        }
        let by_code = Unwinder { cfi: None, ..unwinder };
        let by_code = by_code.backtrace(&registers, &[stack], &mut memory);
        assert!(by_code.frames.len() <= MAX_FRAMES);
        let backtrace = unwinder.backtrace(&registers, &[stack], &mut memory);
        assert!(backtrace.frames.len() <= MAX_FRAMES && !backtrace.end.to_string().is_empty());
        let addresses: Vec<u64> = backtrace.frames.iter().map(|f| f.address()).collect();
        assert_eq!(lines.frames(&addresses).len(), addresses.len());
        assert_eq!(lines.units(&addresses, "_tx_").len(), addresses.len());
        frames = frames.saturating_add(backtrace.frames.len());
    }
    frames.saturating_add(candidates(&unwinder, &cfi.addresses().take(64).collect::<Vec<_>>(), data))
}

/// A stack on which everything looks like what an exception pushed, and leads back into the stack or to a thread's end: frames
/// that form circles.
fn candidates(unwinder: &Unwinder<'_>, functions: &[u64], data: &[u8]) -> usize {
    const WORDS: usize = 2048;
    let on = Region { start: 0x2000_0000, len: 4 * WORDS as u64 };
    if unwinder.architecture != Architecture::CortexM || functions.is_empty() {
        return 0;
    }
    let word = |(at, byte): (usize, &u8)| {
        let byte = usize::from(*byte);
        let code = functions.get(byte % functions.len()).copied().unwrap_or_default() & !1;
        let word = match at % 8 {
            5 if byte % 3 == 0 => u64::from(u32::MAX),
            5 => code | 1,
            6 => code.wrapping_add(byte as u64 >> 4 & 6),
            7 if byte % 16 != 0 => 0x0100_0000,
            _ if byte % 2 == 0 => on.start.wrapping_add(32 * byte as u64),
            _ => code | 1,
        };
        u32::try_from(word).unwrap_or_default()
    };
    let words = data.iter().cycle().skip(data.len() / 2).take(WORDS).enumerate().map(word);
    let bytes: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
    let mut memory = Segments::new(vec![Block::whole(on.start, bytes.into())]);
    let begins_in: Vec<Region> = functions.iter().step_by(3).map(|start| Region { start: *start, len: 64 }).collect();
    let mut found = 0_usize;
    for (floats, wrong_call) in [(None, false), (Some(true), true), (Some(false), true)] {
        let kept = Registers::new(unwinder.architecture);
        let search = Search {
            on,
            stacks: &[on],
            begins_in: &begins_in,
            kept,
            floats,
            wrong_call,
            lost_thumb: wrong_call && floats.is_none(),
        };
        for candidate in unwinder.candidates(&search, &mut memory) {
            assert!(on.contains(candidate.frame) && candidate.backtrace.frames.len() <= MAX_FRAMES);
            found = found.saturating_add(1);
        }
    }
    found
}

/// A core file: memory, notes, and a trace in it by symbols of the file itself or by search.
pub fn core(data: &[u8]) -> usize {
    let Ok(mut core) = Elf::open(data.to_vec()).map_err(drop).and_then(|e| Core::open(e).map_err(drop)) else {
        return 0;
    };
    let _ = (core.remarks().len(), core.missing_bytes(), core.threads().len(), core.auxv().count(), core.entry());
    let _ = core.mapped_files();
    // A core is no program of itself, but nothing may come of asking.
    if let Ok(program) = Elf::open(data.to_vec()) {
        let _ = (core.disagreement(&program), core.load_offset(&program));
    }
    let found = read_all(&mut core);
    let mut memory = Overlay::new().below(core);
    found.into_iter().take(4).map(|header| follow(format(), &mut memory, header)).sum()
}

/// A dump with a ThreadX trace somewhere: found by search, and taken at its word that it begins at 0.
pub fn threadx(data: &[u8]) -> usize {
    dumped("threadx", data)
}

/// A dump with loggers of TI UIA.
pub fn uia(data: &[u8]) -> usize {
    dumped("uia", data)
}

/// A dump with a ring of QNX, or a file of its trace logger.
pub fn qnx(data: &[u8]) -> usize {
    dumped("qnx", data)
}

fn dumped(name: &str, data: &[u8]) -> usize {
    let format = format_named(name);
    let _ = (format.sniff(data), format.describes(data));
    let found = format.scan(data, 4);
    let mut places: Vec<(u64, u64)> = Vec::new();
    for hit in &found {
        let offset = u64::try_from(hit.offset).unwrap_or(0);
        assert!(data.len() > hit.offset, "found past the end");
        if let Some(start) = hit.base.checked_sub(offset) {
            places.push((start, start.saturating_add(offset)));
        }
    }
    // A copy: it is not where it says it is.
    places.extend(found.first().and_then(|hit| Some((0x1000, u64::try_from(hit.offset).ok()?.checked_add(0x1000)?))));
    places.push((0x2000_0000, 0x2000_0000));
    // RAM begins there on most of these targets.
    places.extend(found.iter().filter_map(|hit| Some((0x2000_0000, u64::try_from(hit.offset).ok()? + 0x2000_0000))));
    let mut events = 0_usize;
    for (start, header) in places {
        // The address space is as small as the image allows.
        let image = [Image::placed("fuzz", data.to_vec(), start)];
        let memory = memory_of(&image, Width::W4).or_else(|_| memory_of(&image, Width::W8));
        if let Ok(mut memory) = memory {
            events = events.saturating_add(follow(format, &mut memory, header));
        }
    }
    events
}

/// What people type: endpoints, numbers, images, positions, filters.
pub fn endpoint_and_filters(data: &[u8]) -> usize {
    let text = String::from_utf8_lossy(data);
    let mut understood = 0_usize;
    if let Ok(endpoint) = Endpoint::parse(&text) {
        let shown = endpoint.to_string();
        assert_eq!(Endpoint::parse(&shown).as_ref(), Ok(&endpoint), "`{shown}`, shown for `{text}`");
        understood = understood.saturating_add(1);
    }
    let numbers = [parse_number(&text).is_some(), Position::parse(&text).is_ok(), Amount::parse(&text).is_ok()];
    let mut filters = Filters::default();
    for key in [Key::Thread, Key::Event, Key::Class, Key::Object, Key::Context, Key::Arg] {
        understood = understood.saturating_add(usize::from(filters.add(key, &text).is_ok()));
    }
    let _ = filters.add_around(&text);
    let _ = tx_trace::query::definitions(&filters, catalogue());
    numbers.into_iter().map(usize::from).fold(understood, usize::saturating_add)
}

/// A stub that answers what the bytes say: a client greets it, reads, asks and leaves, and comes to an end. A read that
/// succeeds has the length that was asked for.
pub fn client(data: &[u8]) -> usize {
    let options = Options { timeout: Duration::from_millis(2), ..Options::default() };
    let (how, rest) = data.split_first().map_or((0, data), |(how, rest)| (*how, rest));
    let options = Options { leave: [Leave::AsFound, Leave::Running, Leave::Halted][usize::from(how % 3)], ..options };
    let stub = Box::new(Scripted { rest: rest.to_vec(), at: 0 });
    let Ok(mut client) = Client::over(stub, "fuzz", options) else { return 1 };
    let wanted = [(0x2000_0000, 16), (0x2000_0100, 700), (u64::MAX - 2, 8), (0x2000_0000, 0), (0x2000_0000, 16)];
    let answers = client.read_batch(&wanted);
    assert_eq!(answers.len(), wanted.len());
    let mut good = 2_usize;
    for (answer, (_, len)) in answers.iter().zip(wanted) {
        if let Ok(bytes) = answer {
            assert_eq!(bytes.len(), len, "what is not complete is no answer");
            good = good.saturating_add(1);
        }
    }
    let _ = (client.auxv(), client.memory_map(), client.offsets(), client.monitor("help"));
    let left = client.leave();
    assert!(left.message.is_none_or(|m| !m.is_empty()));
    good
}

/// Sends what it is given: a byte of length, and so many bytes. Where the length's highest bit is set they are a body,
/// and go out in a frame with the right checksum: a fuzzer does not find that by chance.
struct Scripted {
    rest: Vec<u8>,
    at: usize,
}

impl Transport for Scripted {
    fn send(&mut self, _: &[u8], _: Instant) -> Result<(), TransportError> {
        Ok(())
    }

    fn receive(&mut self, buf: &mut [u8], _: Instant) -> Result<usize, TransportError> {
        let rest = self.rest.get(self.at..).unwrap_or_default();
        let Some((length, rest)) = rest.split_first() else { return Err(TransportError::Closed(String::new())) };
        let part = rest.get(..usize::from(length & 0x7F).min(rest.len())).unwrap_or_default();
        self.at = self.at.saturating_add(1).saturating_add(part.len());
        let sent = if length & 0x80 == 0 { part.to_vec() } else { [&b"+"[..], &packet::encode(part)].concat() };
        if sent.is_empty() {
            return Err(TransportError::Timeout);
        }
        let count = sent.len().min(buf.len());
        for (to, from) in buf.iter_mut().zip(&sent) {
            *to = *from;
        }
        Ok(count)
    }
}

/// What people say their events mean: a table, a .trxc file, a C header. What was understood is understood again when
/// it is written as a table.
pub fn user_events(data: &[u8]) -> usize {
    let text = String::from_utf8_lossy(data);
    let Ok(parsed) = user::parse(&text, &(4096..=u32::MAX)) else { return 0 };
    let written = parsed.user.to_tsv();
    let _ = parsed.user.to_trxc();
    if !parsed.user.events.is_empty() {
        let again = user::parse(&written, &(4096..=u32::MAX));
        let Ok(again) = again else { panic!("our own table is not understood: {:?}\n{written}", again.err()) };
        assert_eq!(again.user.events.len(), parsed.user.events.len(), "{written}");
    }
    parsed.user.events.len().saturating_add(parsed.user.enumerations.len())
}

/// A line that whoever is connected may send.
pub fn monitor_line(data: &[u8]) -> usize {
    usize::from(tx_trace::cli::takes_monitor_line(&String::from_utf8_lossy(data)))
}

/// Commands on a file; the first byte says which. All that is said and printed is fit for a terminal.
pub fn command(data: &[u8]) -> usize {
    const COMMANDS: [&str; 10] = [
        "list",
        "report",
        "info",
        "objects --use",
        "show -1",
        "last 5",
        "dump",
        "list --format json",
        "report --tracex",
        "latency --format csv",
    ];
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let Some((which, file)) = data.split_first() else { return 0 };
    let command = COMMANDS.get(usize::from(*which).checked_rem(COMMANDS.len()).unwrap_or(0)).copied().unwrap_or("list");
    // Each thread has a file of its own.
    thread_local! {
        static NAME: PathBuf = std::env::temp_dir()
            .join(format!("tx-trace-fuzz-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
    }
    NAME.with(|name| {
        let out = name.with_extension("trx");
        assert!(std::fs::write(name, file).is_ok(), "the temporary folder can be written");
        let mut words: Vec<OsString> = command.split(' ').map(OsString::from).collect();
        words.extend([name.into(), "-o".into(), out.clone().into()]);
        let (outcome, said) = tx_trace::cli::run_captured(words);
        assert!(!said.chars().any(|c| c.is_control() && c != '\n'), "{said:?}");
        let printed = std::fs::read(&out).unwrap_or_default();
        let _ = (std::fs::remove_file(name), std::fs::remove_file(out));
        if command != "dump" {
            let raw = printed.iter().any(|b| *b < 0x20 && *b != b'\n' && *b != b'\r' || *b == 0x7F);
            assert!(!raw, "{command}: bytes of a file reach the terminal");
        }
        usize::from(outcome == tx_trace::cli::Outcome::Done)
    })
}

fn format() -> &'static dyn Format {
    format_named("threadx")
}

fn format_named(name: &str) -> &'static dyn Format {
    match ALL.iter().find(|f| f.name() == name) {
        Some(format) => *format,
        None => panic!("the format is not registered"),
    }
}

/// The events of ThreadX by their ids, read once: it is no part of what is tried.
fn catalogue() -> &'static Catalogue {
    static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
    CATALOGUE.get_or_init(|| format().catalogue(Names::Duo))
}

/// The catalogue that a capture is decoded with.
fn catalogue_for(format: &dyn Format, capture: &dyn Capture) -> Cow<'static, Catalogue> {
    if format.name() == "threadx" { Cow::Borrowed(catalogue()) } else { Cow::Owned(capture.catalogue(Names::Duo)) }
}

/// Reads every region that the memory lists, whole and across its edges; returns where traces begin.
fn read_all(memory: &mut dyn Memory) -> Vec<u64> {
    let mut headers = Vec::new();
    for region in memory.regions().unwrap_or_default().into_iter().take(64) {
        let len = usize::try_from(region.len).unwrap_or(usize::MAX).min(1 << 16);
        if let Ok(bytes) = memory.read_bytes(region.start, len) {
            assert_eq!(bytes.len(), len);
            let hits = format().scan(&bytes, 2);
            headers.extend(hits.iter().filter_map(|h| region.start.checked_add(u64::try_from(h.offset).ok()?)));
        }
        let end = region.start.wrapping_add(region.len);
        for address in [region.start.wrapping_sub(2), end.wrapping_sub(2), end] {
            let _ = memory.read(address, &mut [0; 4]);
        }
    }
    headers
}

/// Locates, captures and decodes what may begin at `header`, and walks and prints all of it; returns how many events.
fn follow(format: &dyn Format, memory: &mut dyn Memory, header: u64) -> usize {
    let hints = Hints { header: Some(header), ..Hints::default() };
    // As an option gives it, and as a search of the memory finds it.
    let found = Location { header, endian: None, pointer: None, how: "a search".to_owned(), by_symbols: false };
    let mut events = read_out(format, memory, format.at(found).as_ref());
    let located = format.locate(memory, &NoSymbols, &hints).ok();
    if let Some(located) = located.filter(|l| {
        let at = l.location();
        (at.endian, at.pointer, at.header) != (None, None, header)
    }) {
        events = events.saturating_add(read_out(format, memory, located.as_ref()));
    }
    events
}

fn read_out(format: &dyn Format, memory: &mut dyn Memory, located: &dyn Located) -> usize {
    let mut events = 0_usize;
    for extent in [Extent::All, Extent::Nothing, Extent::Newest(7)] {
        if let Some((trace, catalogue)) = decode(format, memory, located, extent) {
            walk(&trace, format, extent);
            if extent == Extent::All {
                print(&trace, &catalogue);
                events = trace.events().count();
            }
        }
    }
    events
}

fn decode(
    format: &dyn Format,
    memory: &mut dyn Memory,
    located: &dyn Located,
    extent: Extent,
) -> Option<(Trace, Cow<'static, Catalogue>)> {
    let capture = located.capture(memory, &NoSymbols, extent).ok()?;
    let catalogue = catalogue_for(format, capture.as_ref());
    let trace = capture.decode(&catalogue, &DecodeOptions::default()).ok()?;
    Some((trace, catalogue))
}

fn walk(trace: &Trace, format: &dyn Format, extent: Extent) {
    let (mut count, mut seq) = (0_u64, None);
    let slots = format.name() == "threadx";
    for event in trace.events() {
        count = count.saturating_add(1);
        assert!(seq.is_none_or(|last| event.seq > last), "sequence numbers grow");
        seq = Some(event.seq);
        assert!(!slots || trace.contexts.get(event.context).is_some(), "each event has a context");
        let words = trace.words(&event).len();
        assert!(
            !slots || words <= 4 && event.slot < trace.about.capacity,
            "slot {} of {}",
            event.slot,
            trace.about.capacity
        );
    }
    assert_eq!(count, trace.len());
    // Without a current pointer all of the ring is needed to find its order.
    let ordered = slots && !trace.issues.iter().any(|i| i.code == Code::CurrentPointer);
    if slots {
        assert!(count <= trace.about.capacity && trace.about.held <= trace.about.capacity);
    }
    match extent {
        Extent::Nothing if ordered => assert_eq!(count, 0),
        Extent::Newest(n) if ordered => assert!(count <= n, "{count} of {n}"),
        _ => {}
    }
}

/// So many are written: under a sanitizer a line takes a hundred times as long, and a fuzzer lives by its runs.
const PRINTED: usize = 100;

/// Writes events in one of the forms, and asks for some of them.
fn print(trace: &Trace, catalogue: &Catalogue) {
    let view = View { trace, catalogue, names: &NoNames, source: "fuzz" };
    // Which one is chance, but the same each time.
    let formats: Vec<_> = output::Format::ALL.into_iter().filter(|f| f.has_events()).collect();
    let chance = trace.len().wrapping_add(trace.issues.len() as u64) % formats.len() as u64;
    if let Some(mut sink) = output::event_sink(formats[chance as usize], io::sink(), &TableOptions::default()) {
        let mut go = || -> io::Result<()> {
            sink.begin(&view, &Window::of(trace.events()))?;
            for event in trace.events().take(PRINTED) {
                sink.event(&view, &event)?;
            }
            sink.finish(&view, &trace.issues)
        };
        assert!(go().is_ok(), "nothing is there that could fail");
    }
    let mut filters = Filters::default();
    let _ = filters.add(Key::Thread, "!*a*");
    let _ = filters.add_around("-3");
    if let Ok(query) = Query::compile(&filters, trace, catalogue) {
        let _ = trace.events().take_while(|e| !query.is_past(e)).filter(|e| query.keeps(e)).count();
    }
    for place in ["-1", "-5t", "3"] {
        let Ok(place) = Position::parse(place) else { continue };
        let _ = (place.seq(trace), place.bound(trace, Edge::To));
    }
}
