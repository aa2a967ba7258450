//! Files, cores, dumps, bare traces and stubs become one target.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::code::{self, CodeMatch, Compared};
use super::events::EventNames;
use super::file::{self, File, Piece};
use super::placing::{place, refuse_cut, refuse_decimal};
use super::registers::Mapped;
use super::stop::CoreNotes;
use super::target::{Buffer, Source};
use super::{Image, Inputs, LoadOffset, RemoteInput, SourceSpec, Target, TargetInfo, TraceInput, formats, offset};
use crate::abi::{Addr, Width};
use crate::bytes::{Bytes, hex};
use crate::catalogue::Names;
use crate::code::Code;
use crate::elf::{Elf, ElfKind};
use crate::error::{Error, reason};
use crate::format::{self, Format, Hints};
use crate::kernel;
use crate::mem::Memory;
use crate::mem::backend;
use crate::mem::cache::Cache;
use crate::mem::core::{Core, elf_readonly};
use crate::mem::image;
use crate::mem::overlay::Overlay;
use crate::mem::remote::Remote;
use crate::mem::segments::{Block, Segments};
use crate::rsp::{Client, Options};
use crate::sym::{ElfSymbols, EvidenceNotes};
use crate::trace::Issue;

/// The most that is read from standard input.
const MAX_STDIN: u64 = 1 << 30;

/// The most bytes of a program that are kept in memory.
const MAX_HELD: usize = 512 << 20;

/// The most variables that are looked up to distinguish two builds.
const MAX_COMPARED: usize = 64;

/// What the inputs name, opened.
#[derive(Default)]
struct Files {
    elf: Option<(PathBuf, Elf)>,
    core: Option<CoreFile>,
    images: Vec<Piece>,
    traces: Vec<Buffer>,
    issues: Vec<Issue>,
    stdin_read: bool,
    /// A target that may run is at the other end, or what is read is served to others.
    is_live: bool,
}

/// An ELF core.
struct CoreFile {
    path: PathBuf,
    /// Its name: of a file that was unpacked it is longer than its path.
    name: String,
    core: Core,
}

/// Opens what the inputs name.
pub(super) fn open<'m>(mut inputs: Inputs) -> Result<Target<'m>, Error> {
    let link = match &inputs.source {
        SourceSpec::Remote(remote) => Some(remote.clone()),
        _ => None,
    };
    let mut files = Files::open(&inputs, link.is_some())?;
    files.check(link.is_some().then_some("a stub"))?;
    let header_in_file = files.place(&inputs)?;
    // A live target has them, and a trace has no memory.
    let is_dump = link.is_none() && files.traces.is_empty();
    let mapped = if is_dump { Mapped::take_from(&mut inputs.registers) } else { Vec::new() };
    let mut info = TargetInfo::of(inputs, files.elf.take())?;
    info.mapped = mapped;
    if info.hints.header.is_none() && header_in_file.is_some() {
        info.hints.header = header_in_file;
        info.hints.header_in_file = true;
    }
    let mut issues = files.issues;
    let memory = if let Some(remote) = &link {
        info.name = remote.endpoint.to_string();
        let mut memory = connect(remote)?;
        let stub = match &mut memory {
            Source::Stub(cache) => Some(cache.inner_mut()),
            _ => None,
        };
        info.ask_load_offset(stub, &mut issues);
        memory
    } else if let Some(core) = files.core {
        Source::Files(core.memory(&mut info, &mut issues)?)
    } else if files.traces.is_empty() {
        Source::Files(of_images(&files.images, &mut info)?)
    } else {
        Source::Files(of_traces(files.traces, &mut info))
    };
    info.finish()?;
    issues.extend(info.issues.iter().cloned());
    Ok(Target { memory, info, issues, is_trace_elsewhere: false, place: None, link })
}

/// What the inputs say of the program, for a memory that is open already.
pub(super) fn describe(inputs: Inputs) -> Result<TargetInfo, Error> {
    let mut files = Files::open(&inputs, true)?;
    files.check(Some("the memory that is served"))?;
    let mut info = TargetInfo::of(inputs, files.elf.take())?;
    info.finish()?;
    Ok(info)
}

impl Files {
    fn open(inputs: &Inputs, is_live: bool) -> Result<Self, Error> {
        let mut files = Self { is_live, ..Self::default() };
        if let Some(path) = &inputs.elf {
            files.add_elf(path)?;
        } else if let Some((name, bytes)) = inputs.elf_built_in {
            let path = PathBuf::from(name);
            let elf = parse_elf(&path, Bytes::from(bytes.to_vec()))?;
            files.elf = Some((path, elf));
        }
        match &inputs.source {
            SourceSpec::Remote(_) | SourceSpec::Files => {}
            SourceSpec::Core(path) => {
                let File { name, bytes, data } = file::open(path, &mut files.issues)?;
                files.core = Some(CoreFile::new(path, name, parse_elf(path, bytes)?, data.as_deref())?);
            }
            SourceSpec::Images(images) => {
                for Image { path, address } in images {
                    let file = match path.as_os_str() == "-" {
                        true => files.stdin()?,
                        false => file::open(path, &mut files.issues)?,
                    };
                    files.add_image(path, file, *address)?;
                }
            }
            SourceSpec::Traces(traces) => {
                for trace in traces {
                    let File { name, bytes, .. } = match trace {
                        TraceInput::File(path) => file::open(path, &mut files.issues)?,
                        TraceInput::Stdin => files.stdin()?,
                    };
                    files.add_trace(name, bytes, inputs.format)?;
                }
            }
        }
        for path in &inputs.files {
            files.add(path, inputs.format)?;
        }
        match &inputs.elf_default {
            Some(path) if files.elf.is_none() => files.add_elf(path)?,
            _ => {}
        }
        Ok(files)
    }

    /// Adds a dump. A core is none: its bytes do not lie in memory as they do in the file.
    fn add_image(&mut self, path: &Path, file: File, address: Option<Addr>) -> Result<(), Error> {
        let elf = file.bytes.starts_with(b"\x7fELF").then(|| Elf::open(file.bytes.clone()).ok()).flatten();
        if elf.is_some_and(|elf| elf.kind() == ElfKind::Core) {
            return Err(Error::failed(
                Code::Image,
                format!("{} is an ELF core, not a dump of memory: it says itself where its bytes belong", file.name),
                match path.as_os_str() == "-" {
                    true => "give it as a file, without an address: --core FILE".to_owned(),
                    false => format!("give it as a core, without an address: --core {}", path.display()),
                },
            ));
        }
        self.images.push(Piece::of(file, address));
        Ok(())
    }

    /// What is piped into us. It can be read once.
    fn stdin(&mut self) -> Result<File, Error> {
        if std::mem::replace(&mut self.stdin_read, true) {
            return Err(Error::failed(
                Code::Usage,
                "`-` is standard input, which can be read only once",
                "give the other as a file",
            ));
        }
        file::unpack("standard input".to_owned(), read_stdin()?, &mut self.issues)
    }

    /// A program that is rewritten while it is mapped ends this process, and a target that we halted would stay halted: beside a
    /// live target it is read into memory before the link is opened.
    fn held(&self, bytes: Bytes) -> Bytes {
        if self.is_live && bytes.len() <= MAX_HELD { Bytes::from(bytes.to_vec()) } else { bytes }
    }

    fn add_elf(&mut self, path: &Path) -> Result<(), Error> {
        let file = file::open(path, &mut self.issues)?;
        let bytes = self.held(file.bytes);
        let elf = parse_elf(path, bytes)?;
        self.elf = Some((path.to_owned(), elf));
        Ok(())
    }

    fn add_trace(&mut self, name: String, bytes: Bytes, only: Option<&'static dyn Format>) -> Result<(), Error> {
        let base = match formats(only).flat_map(|f| f.scan(&bytes, 1)).next() {
            Some(found) if found.offset == 0 => found.base,
            Some(found) => {
                return Err(Error::failed(
                    Code::NotATrace,
                    format!("{name} does not begin with a trace header; one is at offset {:#x}", found.offset),
                    "give a dump of memory by --image",
                ));
            }
            // A header that contradicts itself is decoded as far as possible, with its issues.
            None => {
                refuse_cut(&name, &bytes, only)?;
                if !formats(only).any(|f| f.sniff(&bytes)) {
                    return Err(Error::not_found(
                        Code::NotATrace,
                        format!("{name} does not begin with a trace header, and holds none"),
                        "a trace buffer begins with TXTB; give a dump of memory by --image FILE@ADDR",
                    ));
                }
                0
            }
        };
        if let Some(same) = self.traces.iter().find(|known| known.bytes.as_slice() == bytes.as_slice()) {
            let message = format!("{name} and {} hold the same trace buffer: it is read once", same.name);
            self.issues.push(Issue::new(Code::SameBuffer, message));
            return Ok(());
        }
        self.traces.push(Buffer { name, bytes, base });
        Ok(())
    }

    /// Adds a file, whatever it is.
    fn add(&mut self, path: &Path, only: Option<&'static dyn Format>) -> Result<(), Error> {
        if !path.exists()
            && let Some((file, address)) = image_with_address(path)
        {
            let opened = file::open(&file, &mut self.issues)?;
            return self.add_image(&file, opened, Some(address));
        }
        let File { name, bytes, data } = file::open(path, &mut self.issues)?;
        if bytes.starts_with(b"\x7fELF") {
            return self.add_program_or_core(path, name, bytes, data.as_deref());
        }
        if formats(only).any(|f| f.sniff(&bytes)) {
            return self.add_trace(name, bytes, only);
        }
        file::refuse_packed(path, &bytes)?;
        self.images.push(Piece { name, bytes, address: None, data });
        Ok(())
    }

    fn add_program_or_core(
        &mut self,
        path: &Path,
        name: String,
        bytes: Bytes,
        data: Option<&[(u64, u64)]>,
    ) -> Result<(), Error> {
        let elf = parse_elf(path, self.held(bytes))?;
        if elf.kind() == ElfKind::Core {
            if let Some(first) = &self.core {
                return Err(Error::failed(
                    Code::Usage,
                    format!("{} is a second core beside {}", path.display(), first.path.display()),
                    "give one of them",
                ));
            }
            self.core = Some(CoreFile::new(path, name, elf, data)?);
        } else if self.elf.is_some() {
            return Err(Error::failed(
                Code::Usage,
                format!("{} is a second ELF program", path.display()),
                "give one --elf",
            ));
        } else {
            self.elf = Some((path.to_owned(), elf));
        }
        Ok(())
    }

    /// What was given must be one source; `other`: one that is no file.
    fn check(&self, other: Option<&'static str>) -> Result<(), Error> {
        let mut kinds: Vec<&str> = other.into_iter().collect();
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

    /// Reads images that are text, and finds the address of those without one. Returns where the only trace begins, if
    /// that is an offset in a file and no address.
    fn place(&mut self, inputs: &Inputs) -> Result<Option<Addr>, Error> {
        let order = self.elf.as_ref().map(|(_, elf)| elf.endian());
        for piece in &self.images {
            refuse_decimal(piece, inputs.format)?;
        }
        self.images = file::read_text(std::mem::take(&mut self.images), order, &mut self.issues)?;
        let mut header = inputs.header;
        for piece in self.images.iter_mut().filter(|piece| piece.address.is_none()) {
            match place(piece, header, inputs.format) {
                Ok((issue, offset)) => {
                    self.issues.push(issue);
                    header = header.or(offset);
                }
                Err(mut error) => {
                    // What was lost on the way here may be where the trace was.
                    error.tried.extend(self.issues.drain(..).map(|i| i.message));
                    return Err(error);
                }
            }
        }
        Ok(header.filter(|_| inputs.header.is_none()))
    }
}

impl TargetInfo {
    /// What is known before any memory is read.
    fn of(inputs: Inputs, elf: Option<(PathBuf, Elf)>) -> Result<Self, Error> {
        // Only a file of events needs them, and they come out of a whole catalogue.
        let ids =
            || formats(inputs.format).find_map(|f| f.catalogue(Names::default()).user_ids()).unwrap_or(0..=u32::MAX);
        let beside = elf.as_ref().map(|(path, _)| path.as_path());
        let events = EventNames::open(&inputs.events, inputs.event_enums, beside, ids)?;
        let mut info = Self {
            hints: Hints { header: inputs.header, ..Hints::default() },
            pairs: inputs.symbols,
            only: inputs.format,
            scan: inputs.scan,
            registers: inputs.registers,
            events,
            load: inputs.load_offset.map(LoadOffset::typed),
            ..Self::default()
        };
        if let Some((path, elf)) = elf {
            info.hints.endian = Some(elf.endian());
            info.hints.pointer = Some(elf.width());
            info.issues.extend(super::cut_short(&path, &elf));
            info.elf_path = path;
            let by_entry = inputs.entry.filter(|_| info.load.is_none() && elf.kind() == ElfKind::Dyn);
            let how = "the entry point that the debugger sees";
            info.load = info.load.or(by_entry.map(|at| LoadOffset { value: at.wrapping_sub(elf.entry()), how }));
            let expected: Vec<&str> = format::symbols().chain(kernel::SYMBOLS.iter().copied()).collect();
            info.program = Some(ElfSymbols::new(Arc::new(elf), 0).expecting(&expected, kernel::VECTOR_TABLES));
        }
        Ok(info)
    }

    /// A number among the facts of an evidence core.
    fn number_in_notes(&self, key: &str) -> Option<u64> {
        image::parse_number(self.notes.as_ref()?.fact(key)?)
    }

    /// Called once all files are open: checks registers that were typed, makes the symbols, and the issues of the program.
    fn finish(&mut self) -> Result<(), Error> {
        self.check_registers()?;
        self.collect_symbols();
        let of_code = self.code.found().and_then(CodeMatch::issue);
        self.issues.splice(0..0, of_code.map(|issue| self.load_offset().doubt(issue)));
        self.issues.extend(self.elf().filter(|elf| elf.is_m_profile_by_vectors()).map(|_| {
            let message = "the ELF does not name the profile of the ARM: its vector table is that of a Cortex-M";
            Issue::new(Code::CpuInferred, message)
        }));
        if let Some(notes) = &self.notes {
            self.issues.extend(self.elf().and_then(|elf| other_program(notes, elf)));
            self.events.of_core(notes.events());
        }
        Ok(())
    }

    /// Code and constants come from the ELF where the dump leaves them out, and are compared where it has them. The ELF's
    /// writable segments hold what variables began with, not what they hold now: they are never used. Registers that are memory
    /// and were typed come first.
    fn with_code(&mut self, mut memory: impl Memory + 'static) -> Box<dyn Memory> {
        let load = self.load_offset();
        self.load = Some(load);
        let mut layers = Overlay::new();
        if !self.mapped.is_empty() {
            layers = layers.below(Mapped::memory(&self.mapped));
        }
        let Some(elf) = self.elf() else { return Box::new(layers.below(memory)) };
        let compared = Compared::Was(code::compare(&mut memory, elf, load));
        let constants = elf_readonly(elf, load.value);
        self.code = compared;
        Box::new(layers.below(memory).below(constants))
    }
}

impl CoreFile {
    fn new(path: &Path, name: String, elf: Elf, data: Option<&[(u64, u64)]>) -> Result<Self, Error> {
        let core = Core::open(elf).map_err(|e| {
            Error::failed(
                Code::NotACore,
                format!("{}: {e}", path.display()),
                "give a raw dump by --image FILE@ADDR, a program by --elf",
            )
        })?;
        Ok(Self { path: path.to_owned(), name, core: core.with_data(data) })
    }

    /// Its memory; what its notes hold goes into `info`.
    fn memory(mut self, info: &mut TargetInfo, issues: &mut Vec<Issue>) -> Result<Box<dyn Memory>, Error> {
        info.name = std::mem::take(&mut self.name);
        info.hints.endian = info.hints.endian.or(Some(self.core.elf().endian()));
        info.hints.pointer = info.hints.pointer.or(Some(self.core.elf().width()));
        info.notes = EvidenceNotes::of(self.core.elf()).map(Arc::new);
        self.find_program(info, issues)?;
        let Self { path, core, .. } = self;
        issues.extend(core.remarks().iter().map(|remark| Issue::new(Code::Core, remark.clone())));
        if core.missing_bytes() > 0 {
            let missing = core.missing_bytes();
            let message = format!("{} is cut short: {missing} bytes of memory are missing", path.display());
            issues.push(Issue::new(Code::CoreTruncated, message));
        }
        info.hints.header = info.hints.header.or_else(|| info.number_in_notes("trace header"));
        info.core = Arc::new(CoreNotes::of(&core, info.notes.as_deref()));
        Ok(info.with_code(core))
    }

    /// Where the program was loaded.
    ///
    /// # Errors
    /// [`Error`] where the core is of another processor.
    fn find_program(&mut self, info: &mut TargetInfo, issues: &mut Vec<Issue>) -> Result<(), Error> {
        let Some(program) = info.program.clone() else { return Ok(()) };
        let elf = program.elf();
        if let Some(sentence) = self.core.disagreement(elf) {
            return Err(Error::failed(
                Code::CoreMismatch,
                format!("{} and {} do not match: {sentence}", self.path.display(), info.elf_path.display()),
                "give the core of the target, and the ELF that ran on it",
            ));
        }
        let moves = elf.kind() == ElfKind::Dyn;
        let offset = info.number_in_notes("load offset").filter(|_| moves);
        info.load = info.load.or(offset.map(|value| LoadOffset { value, how: "what the core says of the program" }));
        if info.load.is_none() {
            info.load = self.core.load_offset(elf).map(|(value, how)| LoadOffset { value, how });
            issues.extend((info.load.is_none() && moves).then(offset::unknown));
        }
        if let Some((notes, load)) = info.notes.as_deref().zip(info.load_offset().known(elf))
            && let Some(other) = other_elf(notes, elf)
            && is_elsewhere(notes, elf, load)
        {
            // What the core says of its own program is right.
            let message = format!("the core was taken with another ELF ({other}), of another build: it is not used");
            issues.push(Issue::new(Code::ElfDiffers, message));
            info.program = None;
        }
        Ok(())
    }
}

/// The memory of dumps.
fn of_images(images: &[Piece], info: &mut TargetInfo) -> Result<Box<dyn Memory>, Error> {
    let mut names: Vec<&str> = images.iter().map(|p| p.name.as_str()).collect();
    // One file may be several pieces of memory.
    names.dedup();
    info.name = names.join(", ");
    let placed = |p: &Piece| {
        image::Image::placed(p.name.clone(), p.bytes.clone(), p.address.unwrap_or(0)).with_data(p.data.clone())
    };
    let placed: Vec<image::Image> = images.iter().map(placed).collect();
    let width = info.hints.pointer.unwrap_or(Width::W8);
    let segments = image::memory_of(&placed, width).map_err(|e| Error::because(Code::Image, e))?;
    // Without an ELF the trace headers in the images show the byte order.
    let mut found = images.iter().flat_map(|p| formats(None).flat_map(|f| f.search(&p.haystack().0, 1)));
    info.hints.endian = info.hints.endian.or_else(|| found.next().map(|f| f.endian));
    Ok(info.with_code(segments))
}

/// The memory of bare trace buffers. They hold their own byte order.
fn of_traces(traces: Vec<Buffer>, info: &mut TargetInfo) -> Box<dyn Memory> {
    let mut names: Vec<&str> = traces.iter().map(|t| t.name.as_str()).collect();
    names.dedup();
    info.name = names.join(", ");
    info.hints.header_in_file |= info.hints.header.is_none();
    info.hints.header = info.hints.header.or_else(|| traces.first().map(|t| t.base));
    info.hints.endian = None;
    info.load = Some(info.load_offset());
    let blocks = traces.iter().map(|t| Block::whole(t.base, t.bytes.clone())).collect();
    info.buffers = traces;
    Box::new(Segments::new(blocks))
}

/// `FILE@ADDR`, as `--image` takes it, where there is such a file.
fn image_with_address(path: &Path) -> Option<(PathBuf, Addr)> {
    let (file, address) = path.to_str()?.rsplit_once('@')?;
    let address = image::parse_number(address)?;
    let file = PathBuf::from(file);
    file.exists().then_some((file, address))
}

fn read_stdin() -> Result<Bytes, Error> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(MAX_STDIN)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::failed(Code::File, format!("standard input: {}", reason(&e)), ""))?;
    if bytes.is_empty() {
        return Err(Error::failed(
            Code::File,
            "standard input is empty",
            "pipe a trace buffer (--trace -) or a dump (--image -) into it",
        ));
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

/// Connects to a live target.
pub(super) fn connect<'m>(remote: &RemoteInput) -> Result<Source<'m>, Error> {
    let interrupt = Some(&**super::INTERRUPT);
    if !remote.endpoint.is_rsp() {
        let memory = backend::open(&remote.endpoint, remote.timeout, interrupt)?;
        return Ok(Source::Backend(Box::new(Cache::new(memory))));
    }
    let options = Options { timeout: remote.timeout, leave: remote.leave, max_halt: remote.max_halt, interrupt };
    let client = Client::connect(&remote.endpoint, options)?;
    Ok(Source::Stub(Box::new(Cache::new(Remote::new(client)))))
}

/// True where the ELF has variables at other addresses than the program that the core was taken of.
fn is_elsewhere(notes: &EvidenceNotes, elf: &Elf, load_offset: u64) -> bool {
    let variables = notes.all().iter().filter(|(_, function)| !function).map(|(symbol, _)| symbol);
    let variables: Vec<_> = variables.take(MAX_COMPARED).collect();
    let names: Vec<&str> = variables.iter().map(|symbol| symbol.name.as_str()).collect();
    let at = |address: Addr| elf.width().moved(address, load_offset);
    let found = elf.lookup_many(&names);
    variables.iter().zip(found).any(|(was, is)| is.is_some_and(|is| at(is.address) != was.address))
}

/// What identifies the ELF that the core was taken with, and this one, where they differ: build ids, else digests.
fn other_elf(notes: &EvidenceNotes, elf: &Elf) -> Option<String> {
    let (what, was, is) = match (notes.fact("build id"), elf.build_id()) {
        (Some(was), Some(is)) => ("build id", was, hex(&is)),
        _ => ("SHA-256", notes.fact("elf sha256")?, hex(&Sha256::digest(elf.bytes().as_slice()))),
    };
    // The first digits are enough to tell two files apart.
    let short = |id: &str| id.chars().take(16).collect::<String>();
    (was != is).then(|| format!("{what} {}, this one has {}", short(was), short(&is)))
}

/// An ELF of another program than the one that the core was taken of.
fn other_program(notes: &EvidenceNotes, elf: &Elf) -> Option<Issue> {
    other_elf(notes, elf).map(|other| {
        let message = format!(
            "the core was taken with another ELF ({other}): if this one was only stripped, it still fits; if it is of another \
             build, names and lines from it are wrong"
        );
        Issue::new(Code::ElfDiffers, message)
    })
}
