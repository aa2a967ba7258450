//! Writes small ELF files for tests. The layout is stated here from the gABI, on purpose not through the
//! reader's constants.

/// A symbol to write.
#[derive(Clone)]
pub struct Sym {
    pub name: &'static str,
    pub value: u64,
    pub size: u64,
    /// `bind << 4 | type`.
    pub info: u8,
    pub shndx: u16,
}

pub const LOCAL_OBJECT: u8 = 0x01;
pub const GLOBAL_OBJECT: u8 = 0x11;
pub const GLOBAL_FUNC: u8 = 0x12;
pub(super) const LOCAL_FUNC: u8 = 0x02;
pub const WEAK_OBJECT: u8 = 0x21;

pub fn sym(name: &'static str, value: u64, size: u64, info: u8, shndx: u16) -> Sym {
    Sym { name, value, size, info, shndx }
}

/// A section to write: name, type, flags, address, bytes, link, entsize, and a size that replaces the length.
#[derive(Clone)]
pub struct Sect {
    pub name: String,
    pub kind: u32,
    pub flags: u64,
    pub addr: u64,
    pub bytes: Vec<u8>,
    pub link: u32,
    pub entsize: u64,
    pub size: Option<u64>,
}

pub fn sect(name: &str, kind: u32, flags: u64, addr: u64, bytes: Vec<u8>) -> Sect {
    Sect { name: name.into(), kind, flags, addr, bytes, link: 0, entsize: 0, size: None }
}

/// A segment to write. `filesz` and `memsz` replace the length of `bytes` where given.
#[derive(Clone, Default)]
pub struct Seg {
    pub kind: u32,
    pub flags: u32,
    pub vaddr: u64,
    /// The same as `vaddr` where not given.
    pub paddr: Option<u64>,
    pub bytes: Vec<u8>,
    pub filesz: Option<u64>,
    pub memsz: Option<u64>,
    pub offset: Option<u64>,
    pub align: u64,
}

pub fn load(vaddr: u64, flags: u32, bytes: Vec<u8>) -> Seg {
    Seg { kind: 1, flags, vaddr, bytes, align: 4, ..Seg::default() }
}

#[derive(Clone)]
pub struct Writer {
    pub wide: bool,
    pub big: bool,
    pub kind: u16,
    pub machine: u16,
    pub entry: u64,
    pub segs: Vec<Seg>,
    pub sects: Vec<Sect>,
    pub syms: Vec<Sym>,
    pub dynsyms: Vec<Sym>,
    /// Notes go after all other segments' bytes, though their header is the first (as GDB writes cores).
    pub notes: Vec<(&'static str, u32, Vec<u8>)>,
}

impl Writer {
    pub fn new(wide: bool, big: bool, kind: u16, machine: u16) -> Self {
        Self {
            wide,
            big,
            kind,
            machine,
            entry: 0,
            segs: vec![],
            sects: vec![],
            syms: vec![],
            dynsyms: vec![],
            notes: vec![],
        }
    }

    fn put(&self, out: &mut Vec<u8>, n: u64, len: usize) {
        let b = n.to_le_bytes();
        if self.big { out.extend(b[..len].iter().rev()) } else { out.extend(&b[..len]) }
    }

    /// A target word: 4 or 8 bytes.
    pub fn word(&self, out: &mut Vec<u8>, n: u64) {
        self.put(out, n, if self.wide { 8 } else { 4 });
    }

    fn table(&self, syms: &[Sym]) -> (Vec<u8>, Vec<u8>) {
        let (mut table, mut names) = (vec![0; if self.wide { 24 } else { 16 }], vec![0]);
        for s in syms {
            let name = names.len() as u64;
            names.extend(s.name.as_bytes());
            names.push(0);
            self.put(&mut table, name, 4);
            if self.wide {
                table.extend([s.info, 0]);
                self.put(&mut table, s.shndx.into(), 2);
                self.put(&mut table, s.value, 8);
                self.put(&mut table, s.size, 8);
            } else {
                self.put(&mut table, s.value, 4);
                self.put(&mut table, s.size, 4);
                table.extend([s.info, 0]);
                self.put(&mut table, s.shndx.into(), 2);
            }
        }
        (table, names)
    }

    pub fn note_bytes(&self) -> Vec<u8> {
        let mut out = vec![];
        for (name, kind, desc) in &self.notes {
            self.put(&mut out, name.len() as u64 + 1, 4);
            self.put(&mut out, desc.len() as u64, 4);
            self.put(&mut out, (*kind).into(), 4);
            out.extend(name.as_bytes());
            out.push(0);
            out.resize(out.len().next_multiple_of(4), 0);
            out.extend(desc);
            out.resize(out.len().next_multiple_of(4), 0);
        }
        out
    }

    pub fn build(&self) -> Vec<u8> {
        let mut segs = self.segs.clone();
        if !self.notes.is_empty() {
            let note = Seg { kind: 4, bytes: self.note_bytes(), align: 1, memsz: Some(0), ..Seg::default() };
            segs.insert(0, note);
        }
        let sects = self.all_sections();
        let (ehsize, phsize) = if self.wide { (64, 56) } else { (52, 32) };
        // Header, program headers, loads, notes, sections, section headers.
        let body_at = ehsize + phsize * segs.len();
        let mut body = vec![];
        let mut place = |bytes: &[u8], align: usize| {
            body.resize(body.len().next_multiple_of(align), 0);
            let at = body_at + body.len();
            body.extend(bytes);
            at as u64
        };
        let mut seg_at = vec![0; segs.len()];
        for notes in [false, true] {
            for (seg, at) in segs.iter().zip(&mut seg_at).filter(|(seg, _)| (seg.kind == 4) == notes) {
                *at = place(&seg.bytes, 4);
            }
        }
        let sect_at: Vec<u64> = sects.iter().map(|s| place(&s.bytes, 8)).collect();
        let shoff = place(&[], 8);

        let mut out = self.header(segs.len(), sects.len(), if sects.is_empty() { 0 } else { shoff });
        for (s, at) in segs.iter().zip(&seg_at) {
            self.program_header(&mut out, s, *at);
        }
        out.extend(body);
        let mut name = 0;
        for (s, at) in sects.iter().zip(&sect_at) {
            self.section_header(&mut out, s, name, *at);
            name += s.name.len() as u64 + 1;
        }
        out
    }

    /// The sections, those of symbols and names among them; none where there is nothing to say in them.
    fn all_sections(&self) -> Vec<Sect> {
        let mut sects = vec![sect("", 0, 0, 0, vec![])];
        sects.extend(self.sects.clone());
        for (syms, name, strings, kind) in
            [(&self.syms, ".symtab", ".strtab", 2), (&self.dynsyms, ".dynsym", ".dynstr", 11)]
        {
            if !syms.is_empty() {
                let (table, names) = self.table(syms);
                let link = sects.len() as u32 + 1;
                let entsize = if self.wide { 24 } else { 16 };
                sects.push(Sect { link, entsize, ..sect(name, kind, 0, 0, table) });
                sects.push(sect(strings, 3, 0, 0, names));
            }
        }
        if sects.len() == 1 {
            return vec![];
        }
        sects.push(sect(".shstrtab", 3, 0, 0, vec![]));
        let names = sects.iter().flat_map(|s| s.name.bytes().chain([0])).collect();
        sects.last_mut().unwrap().bytes = names;
        sects
    }

    fn header(&self, segs: usize, sects: usize, shoff: u64) -> Vec<u8> {
        let (ehsize, phsize, shsize) = if self.wide { (64, 56, 64) } else { (52, 32, 40) };
        let mut out = vec![0x7F, b'E', b'L', b'F', 1 + u8::from(self.wide), 1 + u8::from(self.big), 1, 0];
        out.resize(16, 0);
        self.put(&mut out, self.kind.into(), 2);
        self.put(&mut out, self.machine.into(), 2);
        self.put(&mut out, 1, 4);
        self.word(&mut out, self.entry);
        self.word(&mut out, if segs == 0 { 0 } else { ehsize });
        self.word(&mut out, shoff);
        self.put(&mut out, 0, 4);
        for n in [ehsize, phsize, segs as u64, shsize, sects as u64, sects.saturating_sub(1) as u64] {
            self.put(&mut out, n, 2);
        }
        out
    }

    fn program_header(&self, out: &mut Vec<u8>, s: &Seg, at: u64) {
        let filesz = s.filesz.unwrap_or(s.bytes.len() as u64);
        let memsz = s.memsz.unwrap_or(filesz);
        self.put(out, s.kind.into(), 4);
        if self.wide {
            self.put(out, s.flags.into(), 4);
        }
        for n in [s.offset.unwrap_or(at), s.vaddr, s.paddr.unwrap_or(s.vaddr), filesz, memsz] {
            self.word(out, n);
        }
        if !self.wide {
            self.put(out, s.flags.into(), 4);
        }
        self.word(out, s.align);
    }

    fn section_header(&self, out: &mut Vec<u8>, s: &Sect, name: u64, at: u64) {
        self.put(out, name, 4);
        self.put(out, s.kind.into(), 4);
        for n in [s.flags, s.addr, at, s.size.unwrap_or(s.bytes.len() as u64)] {
            self.word(out, n);
        }
        self.put(out, s.link.into(), 4);
        self.put(out, 0, 4);
        self.word(out, 4);
        self.word(out, s.entsize);
    }
}

/// Class and byte order, all four.
pub const SHAPES: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];
