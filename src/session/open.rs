//! The doors: files, cores, images, bare traces and stubs become one session.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::code::{self, CodeMatch, Compared};
use super::events::EventNames;
use super::file::{self, File, Piece};
use super::stop::CoreNotes;
use super::{
    GivenRegisters, Image, Inputs, Lent, LoadOffset, RemoteInput, Session, Source, SourceSpec, Told, TraceInput,
    formats, offset,
};
use crate::abi::{Addr, Endian, Width};
use crate::bytes::Bytes;
use crate::catalogue::Names;
use crate::code::Code;
use crate::elf::{Elf, ElfKind};
use crate::error::Error;
use crate::format::{Format, Hints};
use crate::mem::Memory;
use crate::mem::cache::Cache;
use crate::mem::core::{Core, elf_readonly};
use crate::mem::door;
use crate::mem::image;
use crate::mem::overlay::Overlay;
use crate::mem::remote::Remote;
use crate::mem::segments::{Block, Segments};
use crate::rsp::{Client, Options};
use crate::sym::{ElfSymbols, Layers, Noted, Pairs};
use crate::trace::Issue;

/// The most that is read from standard input.
const MOST_STDIN: u64 = 1 << 30;

/// What was opened before it is put together.
#[derive(Default)]
struct Opened<'m> {
    elf: Option<(PathBuf, Elf)>,
    core: Option<(PathBuf, Core)>,
    /// What people call the core: unpacked, its name is longer than its path.
    core_name: String,
    /// Images with the address that was given or found.
    images: Vec<Piece>,
    /// Bare traces, with the address that each claims.
    traces: Vec<(String, Bytes, Addr)>,
    remote: Option<RemoteInput>,
    lent: Option<Lent<'m>>,
    issues: Vec<Issue>,
    header: Option<Addr>,
    /// It was told by a file, not by `--header`.
    header_in_file: bool,
    hints: Hints,
    /// The registers in the core's notes.
    notes: CoreNotes,
    /// What the core says of the program.
    noted: Option<Arc<Noted>>,
    /// How much of the code in the memory of files is the ELF's.
    code: Compared,
}

pub fn open<'m>(inputs: Inputs, lent: Option<Lent<'m>>) -> Result<Session<'m>, Error> {
    let Inputs {
        elf,
        elf_built_in,
        elf_default,
        source,
        files,
        symbols,
        registers,
        header,
        scan,
        load_offset,
        entry,
        events,
        event_enums,
        format,
    } = inputs;
    let mut opened = Opened { header, lent, ..Opened::default() };
    if let Some(path) = elf {
        opened.elf = Some((path.clone(), opened.open_elf(&path)?));
    } else if let Some((name, bytes)) = elf_built_in {
        let path = PathBuf::from(name);
        opened.elf = Some((path.clone(), parse_elf(&path, Bytes::from(bytes.to_vec()))?));
    }
    match source {
        SourceSpec::Remote(remote) => opened.remote = Some(remote),
        SourceSpec::Core(path) => {
            let File { name, bytes, data } = file::open(&path, &mut opened.issues)?;
            let core = parse_elf(&path, bytes)?;
            opened.core_name = name;
            opened.core = Some((path.clone(), as_core(&path, core)?.with_data(data.as_deref())));
        }
        SourceSpec::Images(images) => {
            for Image { path, address } in images {
                opened.images.push(Piece::of(file::open(&path, &mut opened.issues)?, address));
            }
        }
        SourceSpec::Traces(traces) => {
            for trace in traces {
                let File { name, bytes, .. } = match trace {
                    TraceInput::File(path) => file::open(&path, &mut opened.issues)?,
                    TraceInput::Stdin => file::unpack("standard input".to_owned(), read_stdin()?, &mut opened.issues)?,
                };
                opened.add_trace(name, bytes, format)?;
            }
        }
        SourceSpec::Files => {}
    }
    for path in files {
        opened.add_file(&path, format)?;
    }
    if opened.elf.is_none()
        && let Some(path) = elf_default
    {
        opened.elf = Some((path.clone(), opened.open_elf(&path)?));
    }
    opened.check()?;
    let order = opened.elf.as_ref().map(|(_, elf)| elf.endian());
    opened.images = file::read_text(std::mem::take(&mut opened.images), order, &mut opened.issues)?;
    if let Err(mut error) = opened.place_images(format) {
        // What was lost on the way here may be where the trace was.
        error.tried.extend(opened.issues.into_iter().map(|i| i.message));
        return Err(error);
    }
    // Only a file of events needs them, and they come out of a whole catalogue.
    let ids = || formats(format).find_map(|f| f.catalogue(Names::default()).user_ids()).unwrap_or(0..=u32::MAX);
    let beside = opened.elf.as_ref().map(|(path, _)| path.as_path());
    let events = EventNames::open(&events, event_enums, beside, ids)?;
    opened.build(Options_ { symbols, registers, scan, load_offset, entry, format, events })
}

/// What is left of the inputs once everything is open.
struct Options_ {
    symbols: Vec<(String, Addr)>,
    registers: GivenRegisters,
    scan: bool,
    load_offset: Option<u64>,
    entry: Option<Addr>,
    format: Option<&'static dyn Format>,
    events: EventNames,
}

/// `FILE@ADDR`, as `--image` takes it, where there is such a file.
fn image_with_address(path: &Path) -> Option<(PathBuf, Addr)> {
    let (file, address) = path.to_str()?.rsplit_once('@')?;
    let address = image::parse_number(address).ok()?;
    let file = PathBuf::from(file);
    file.exists().then_some((file, address))
}

fn read_stdin() -> Result<Bytes, Error> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(MOST_STDIN)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::failed(Code::File, format!("standard input: {e}"), ""))?;
    if bytes.is_empty() {
        return Err(Error::failed(Code::File, "standard input is empty", "pipe a trace buffer into it"));
    }
    Ok(Bytes::from(bytes))
}

/// Opens an ELF file.
///
/// # Errors
/// [`Error`] where it cannot be read, or is no ELF.
pub fn open_elf(path: &Path) -> Result<Elf, Error> {
    parse_elf(path, file::open(path, &mut Vec::new())?.bytes)
}

fn parse_elf(path: &Path, bytes: Bytes) -> Result<Elf, Error> {
    Elf::open(bytes).map_err(|e| {
        Error::failed(
            Code::NotElf,
            format!("{}: {e}", path.display()),
            "give the linked program (.elf, .axf, .out) or an ELF core",
        )
    })
}

fn as_core(path: &Path, elf: Elf) -> Result<Core, Error> {
    Core::open(elf).map_err(|e| {
        Error::failed(
            Code::NotACore,
            format!("{}: {e}", path.display()),
            "a raw dump goes in with --image FILE@ADDR, a program with --elf",
        )
    })
}

impl<'m> Opened<'m> {
    fn open_elf(&mut self, path: &Path) -> Result<Elf, Error> {
        parse_elf(path, file::open(path, &mut self.issues)?.bytes)
    }

    fn add_trace(&mut self, name: String, bytes: Bytes, only: Option<&'static dyn Format>) -> Result<(), Error> {
        let found = formats(only).flat_map(|f| f.scan(&bytes, 1)).next();
        match found {
            Some(found) if found.offset == 0 => {
                self.traces.push((name, bytes, found.base));
                Ok(())
            }
            Some(found) => Err(Error::failed(
                Code::NotATrace,
                format!("{name} does not begin with a trace header; one is at offset {:#x}", found.offset),
                "a dump of memory goes in with --image",
            )),
            // A header that contradicts itself is decoded as far as it goes, and says why not.
            None => {
                let known = formats(only).any(|f| f.sniff(&bytes));
                refuse_cut(&name, &bytes, only)?;
                if !known {
                    return Err(Error::not_found(
                        Code::NotATrace,
                        format!("{name} does not begin with a trace header, and holds none"),
                        "a trace buffer begins with TXTB; a dump of memory goes in with --image FILE@ADDR",
                    ));
                }
                self.traces.push((name, bytes, 0));
                Ok(())
            }
        }
    }

    /// A file that nobody said anything about.
    fn add_file(&mut self, path: &Path, only: Option<&'static dyn Format>) -> Result<(), Error> {
        if !path.exists()
            && let Some((file, address)) = image_with_address(path)
        {
            self.images.push(Piece::of(file::open(&file, &mut self.issues)?, Some(address)));
            return Ok(());
        }
        let File { name, bytes, data } = file::open(path, &mut self.issues)?;
        if bytes.starts_with(b"\x7fELF") {
            let elf = parse_elf(path, bytes)?;
            if elf.kind() == ElfKind::Core {
                if let Some((first, _)) = &self.core {
                    return Err(Error::failed(
                        Code::Usage,
                        format!("{} is a second core beside {}", path.display(), first.display()),
                        "give one of them",
                    ));
                }
                self.core_name = name;
                self.core = Some((path.to_owned(), as_core(path, elf)?.with_data(data.as_deref())));
            } else if self.elf.is_some() {
                return Err(Error::failed(
                    Code::Usage,
                    format!("{} is a second ELF program", path.display()),
                    "give one --elf",
                ));
            } else {
                self.elf = Some((path.to_owned(), elf));
            }
            return Ok(());
        }
        if formats(only).any(|f| f.sniff(&bytes)) {
            return self.add_trace(name, bytes, only);
        }
        file::refuse_packed(path, &bytes)?;
        self.images.push(Piece { name, bytes, address: None, data });
        Ok(())
    }

    /// What was given must be one source.
    fn check(&self) -> Result<(), Error> {
        let mut kinds = Vec::new();
        kinds.extend(self.lent.is_some().then_some("the memory that is served"));
        kinds.extend(self.remote.is_some().then_some("a stub"));
        kinds.extend(self.core.is_some().then_some("a core"));
        kinds.extend((!self.images.is_empty()).then_some("a memory dump"));
        kinds.extend((!self.traces.is_empty()).then_some("a trace buffer"));
        match kinds.as_slice() {
            [_] => Ok(()),
            [] if self.elf.is_some() => Err(Error::failed(
                Code::NoSource,
                "an ELF program holds no RAM: there is no trace in it",
                "add where the memory is: --remote :3333, --core FILE, --image FILE@ADDR or --trace FILE",
            )),
            [] => Err(Error::failed(
                Code::NoSource,
                "nothing to read",
                "give a source: --remote :3333, --core FILE, --image FILE@ADDR, --trace FILE, or a FILE; `tx-trace demo` needs none",
            )),
            many => Err(Error::failed(
                Code::Usage,
                format!("{} are different sources", many.join(" and ")),
                "give one of them",
            )),
        }
    }

    /// An image without an address is placed by the trace header in it: it holds its own base.
    fn place_images(&mut self, only: Option<&'static dyn Format>) -> Result<(), Error> {
        for piece in &mut self.images {
            if piece.address.is_some() {
                continue;
            }
            let (hay, whole) = piece.haystack();
            let found: Vec<_> = formats(only).flat_map(|f| f.search(&hay, 16)).collect();
            // A header that would place the image before address 0 lies elsewhere: a copy.
            let best = found
                .iter()
                .filter(|f| f.base >= f.offset as u64)
                .filter(|f| self.header.is_none_or(|h| h == f.base))
                .max_by_key(|f| (f.capacity, std::cmp::Reverse(f.offset)))
                .or_else(|| found.first());
            let Some(best) = best else {
                let Piece { name, bytes, .. } = &*piece;
                if !whole {
                    return Err(Error::failed(
                        Code::Image,
                        format!(
                            "{name}: no trace header in the first {} of its {} bytes",
                            hay.bytes().len(),
                            bytes.len()
                        ),
                        "say where its first byte belongs, as FILE@ADDR, and where the trace is, with --elf FILE or --header ADDR",
                    ));
                }
                refuse_cut(name, bytes, only)?;
                return Err(Error::not_found(
                    Code::NoTrace,
                    format!("{name}: no trace header in its {} bytes", bytes.len()),
                    "if it is a dump of RAM, check that it covers the trace buffer; its address goes in as FILE@ADDR",
                ));
            };
            let at = best.base.checked_sub(best.offset as u64);
            let place = at.unwrap_or(0);
            piece.address = Some(place);
            self.issues.push(Issue::new(
                Code::PlacedByHeader,
                format!(
                    "{} is placed at {place:#x}: the trace header at its offset {:#x} says it lies at {:#x}",
                    piece.name, best.offset, best.base
                ),
            ));
            if found.len() == 1 && at.is_none() {
                self.header_in_file |= self.header.is_none();
                self.header = self.header.or(Some(best.offset as u64));
            }
        }
        Ok(())
    }

    fn build(mut self, mut options: Options_) -> Result<Session<'m>, Error> {
        let link = self.remote.clone();
        let mut hints = std::mem::take(&mut self.hints);
        hints.header = self.header;
        if let Some((_, elf)) = &self.elf {
            hints.endian = Some(elf.endian());
            hints.pointer = Some(elf.width());
        } else if let Some((_, core)) = &self.core {
            hints.endian = Some(core.elf().endian());
            hints.pointer = Some(core.elf().width());
        }
        let mut issues = std::mem::take(&mut self.issues);
        let (source, name, load_offset) = self.source(&options, &mut hints, &mut issues)?;
        let mut symbols = Layers::new();
        if !options.symbols.is_empty() {
            symbols = symbols.then(Pairs::new(options.symbols.clone()));
        }
        let mut kept = None;
        issues.extend(self.code.found().and_then(CodeMatch::issue));
        if let Some((path, elf)) = self.elf {
            issues.extend(super::cut_short(&path, &elf));
            let elf = Arc::new(elf);
            symbols = symbols.then(ElfSymbols::new(Arc::clone(&elf), load_offset.value));
            kept = Some(elf);
        }
        let noted = self.noted;
        if let Some(noted) = &noted {
            // Under an ELF's own: it knows more.
            symbols = symbols.then(Arc::clone(noted));
            issues.extend(kept.as_deref().and_then(|elf| other_program(noted, elf)));
            options.events.of_core(noted.events());
        }
        Ok(Session {
            memory: source,
            symbols,
            elf: kept,
            hints,
            header_in_file: self.header_in_file,
            name,
            issues,
            only: options.format,
            scan: options.scan,
            load_offset,
            place: None,
            events: options.events,
            buffers: self.traces,
            link,
            code: self.code,
            core: self.notes,
            noted,
            pairs: options.symbols,
            registers: options.registers,
        })
    }

    fn source(
        &mut self,
        options: &Options_,
        hints: &mut Hints,
        issues: &mut Vec<Issue>,
    ) -> Result<(Source<'m>, String, LoadOffset), Error> {
        let moves = self.elf.as_ref().is_some_and(|(_, e)| e.kind() == ElfKind::Dyn);
        let given = options.load_offset.map(|value| LoadOffset { value, how: "--load-offset" });
        let by_entry = || {
            let (_, elf) = self.elf.as_ref()?;
            let value = options.entry.filter(|_| moves)?.wrapping_sub(elf.entry());
            Some(LoadOffset { value, how: "the entry point that the debugger sees" })
        };
        let mut load = given.or_else(by_entry);
        if let Some(remote) = self.remote.take() {
            let name = remote.endpoint.to_string();
            let mut source = connect(&remote)?;
            let elf = self.elf.as_ref().map(|(_, elf)| elf);
            let load = load.unwrap_or_else(|| match &mut source {
                Source::Remote(cache) => offset::ask(elf, Some(cache.inner_mut()), issues),
                _ => offset::ask(elf, None, issues),
            });
            return Ok((source, name, load));
        }
        match self.lent.take() {
            Some(Lent::Remote(remote)) => {
                let name = remote.client_mut().name().to_owned();
                let elf = self.elf.as_ref().map(|(_, elf)| elf);
                let load = load.unwrap_or_else(|| offset::ask(elf, Some(remote), issues));
                return Ok((Source::LentRemote(Box::new(Cache::new(remote))), name, load));
            }
            Some(Lent::Memory(memory, told)) => {
                let Told { name, hints: found, header_in_file, load_offset, core, noted, code } = told;
                self.header_in_file |= header_in_file && hints.header.is_none();
                hints.header = hints.header.or(found.header);
                hints.endian = hints.endian.or(found.endian);
                hints.pointer = hints.pointer.or(found.pointer);
                (self.notes, self.noted, self.code) = (*core, noted, *code);
                return Ok((Source::Files(Box::new(memory)), name, load.unwrap_or(load_offset)));
            }
            None => {}
        }
        if let Some((path, mut core)) = self.core.take() {
            self.noted = Noted::of(core.elf()).map(Arc::new);
            if let Some((elf_path, elf)) = &self.elf {
                if let Some(sentence) = core.disagreement(elf) {
                    return Err(Error::failed(
                        Code::CoreMismatch,
                        format!("{} and {} do not match: {sentence}", path.display(), elf_path.display()),
                        "take the core of the target, and the ELF that ran on it",
                    ));
                }
                let noted = self
                    .noted
                    .as_ref()
                    .filter(|_| moves)
                    .and_then(|n| image::parse_number(n.fact("load offset")?).ok());
                load = load.or(noted.map(|value| LoadOffset { value, how: "what the core says of the program" }));
                if load.is_none() {
                    load = core.load_offset(elf).map(|(value, how)| LoadOffset { value, how });
                    if load.is_none() && moves {
                        issues.push(offset::unknown());
                    }
                }
            }
            for remark in core.remarks() {
                issues.push(Issue::new(Code::Core, remark.clone()));
            }
            if core.missing_bytes() > 0 {
                issues.push(Issue::new(
                    Code::CoreTruncated,
                    format!("{} is cut short: {} bytes of memory are missing", path.display(), core.missing_bytes()),
                ));
            }
            let number = |key| self.noted.as_ref().and_then(|n| image::parse_number(n.fact(key)?).ok());
            hints.header = hints.header.or_else(|| number("trace header"));
            self.notes = CoreNotes::of(&core, self.noted.as_deref());
            let load = load.unwrap_or_default();
            let memory = self.with_code(core, load);
            return Ok((Source::Files(memory), std::mem::take(&mut self.core_name), load));
        }
        let load = load.unwrap_or_default();
        let mut names: Vec<&str> =
            self.traces.iter().map(|(n, ..)| n.as_str()).chain(self.images.iter().map(|p| p.name.as_str())).collect();
        // One file may be several pieces of memory.
        names.dedup();
        let name = names.join(", ");
        let memory = if self.traces.is_empty() {
            let placed: Vec<image::Image> = self
                .images
                .iter()
                .map(|p| {
                    let at = p.address.unwrap_or(0);
                    image::Image::placed(p.name.clone(), p.bytes.clone(), at).with_data(p.data.clone())
                })
                .collect();
            let width = hints.pointer.unwrap_or(Width::W8);
            let segments =
                image::memory_of(&placed, width).map_err(|e| Error::failed(Code::Image, e.to_string(), ""))?;
            self.with_code(segments, load)
        } else {
            self.header_in_file |= hints.header.is_none();
            hints.header = hints.header.or_else(|| self.traces.first().map(|(_, _, base)| *base));
            hints.endian = None;
            hints.pointer = hints.pointer.or(None);
            let blocks = self.traces.iter().map(|(_, bytes, base)| Block::whole(*base, bytes.clone())).collect();
            Box::new(Segments::new(blocks)) as Box<dyn Memory>
        };
        if hints.endian.is_none() {
            hints.endian = self.endian_of_images();
        }
        Ok((Source::Files(memory), name, load))
    }

    /// Code and constants come from the ELF where the dump leaves them out, and are compared where it has them. The ELF's
    /// writable segments hold what variables began with, not what they hold now: they are never used.
    fn with_code(&mut self, mut memory: impl Memory + 'static, load: LoadOffset) -> Box<dyn Memory> {
        let Some((_, elf)) = &self.elf else { return Box::new(Overlay::new().below(memory)) };
        self.code = Compared::Was(code::compare(&mut memory, elf, load));
        Box::new(Overlay::new().below(memory).below(elf_readonly(elf, load.value)))
    }

    /// Without an ELF the trace headers in the images tell the byte order.
    fn endian_of_images(&self) -> Option<Endian> {
        let mut found = self.images.iter().flat_map(|p| formats(None).flat_map(|f| f.search(&p.haystack().0, 1)));
        found.next().map(|f| f.endian)
    }
}

/// Goes to a live target.
pub(super) fn connect<'m>(remote: &RemoteInput) -> Result<Source<'m>, Error> {
    let broken = |e: crate::rsp::RspError| Error::from(e);
    let interrupt = Some(&**crate::session::INTERRUPT);
    if !remote.endpoint.is_rsp() {
        let memory = door::open(&remote.endpoint, remote.timeout, interrupt).map_err(broken)?;
        return Ok(Source::Door(Box::new(Cache::new(memory))));
    }
    let options = Options { timeout: remote.timeout, leave: remote.leave, max_halt: remote.max_halt, interrupt };
    let client = Client::connect(&remote.endpoint, options).map_err(broken)?;
    Ok(Source::Remote(Box::new(Cache::new(Remote::new(client)))))
}

/// An ELF of another program than the one that the core was taken of.
fn other_program(noted: &Noted, elf: &Elf) -> Option<Issue> {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let (was, is) = match (noted.fact("build id"), elf.build_id()) {
        (Some(was), Some(is)) => (was, hex(&is)),
        _ => (noted.fact("elf sha256")?, hex(&Sha256::digest(elf.bytes().as_slice()))),
    };
    (was != is).then(|| {
        Issue::new(
            Code::ElfDiffers, format!("the core was taken with another ELF ({was}, this one is {is}): stripped, it still fits; of another build, names and lines from it are wrong"),
        )
    })
}

/// A file that ends within the header that it begins with.
fn refuse_cut(name: &str, bytes: &[u8], only: Option<&'static dyn Format>) -> Result<(), Error> {
    match formats(only).find_map(|f| f.cut_short(bytes)) {
        Some(why) => {
            Err(Error::failed(Code::HeaderDamaged, format!("{name} {why}"), "copy it anew from where it was made"))
        }
        None => Ok(()),
    }
}
