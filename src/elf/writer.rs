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
pub const LOCAL_FUNC: u8 = 0x02;
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
    /// Notes go behind all other segments' bytes, though their header is the first (as GDB writes cores).
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

    pub fn put(&self, out: &mut Vec<u8>, n: u64, len: usize) {
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
        let (ehsize, phsize, shsize) = if self.wide { (64, 56, 64) } else { (52, 32, 40) };
        let mut segs = self.segs.clone();
        if !self.notes.is_empty() {
            let note = Seg { kind: 4, bytes: self.note_bytes(), align: 1, memsz: Some(0), ..Seg::default() };
            segs.insert(0, note);
        }
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
        let with_sections = sects.len() > 1;
        if with_sections {
            let mut names: Vec<u8> = vec![];
            sects.push(sect(".shstrtab", 3, 0, 0, vec![]));
            for s in &sects {
                names.extend(s.name.as_bytes());
                names.push(0);
            }
            sects.last_mut().unwrap().bytes = names;
        }
        // Bytes: header, program headers, loads, notes, sections, section headers.
        let mut body_at = ehsize + phsize * segs.len();
        let mut body = vec![];
        let mut seg_at = vec![0; segs.len()];
        let notes_last =
            (0..segs.len()).filter(|&i| segs[i].kind != 4).chain((0..segs.len()).filter(|&i| segs[i].kind == 4));
        for i in notes_last {
            body.resize(body.len().next_multiple_of(4), 0);
            seg_at[i] = body_at + body.len();
            body.extend(&segs[i].bytes);
        }
        let mut sect_at = vec![0; sects.len()];
        for (i, s) in sects.iter().enumerate() {
            body.resize(body.len().next_multiple_of(8), 0);
            sect_at[i] = body_at + body.len();
            body.extend(&s.bytes);
        }
        body.resize(body.len().next_multiple_of(8), 0);
        body_at += body.len();
        let shoff = if with_sections { body_at } else { 0 };

        let mut out = vec![0x7F, b'E', b'L', b'F', 1 + u8::from(self.wide), 1 + u8::from(self.big), 1, 0];
        out.resize(16, 0);
        self.put(&mut out, self.kind.into(), 2);
        self.put(&mut out, self.machine.into(), 2);
        self.put(&mut out, 1, 4);
        self.word(&mut out, self.entry);
        self.word(&mut out, if segs.is_empty() { 0 } else { ehsize as u64 });
        self.word(&mut out, shoff as u64);
        self.put(&mut out, 0, 4);
        for n in [ehsize, phsize, segs.len(), shsize, if with_sections { sects.len() } else { 0 }] {
            self.put(&mut out, n as u64, 2);
        }
        self.put(&mut out, if with_sections { sects.len() as u64 - 1 } else { 0 }, 2);
        for (s, at) in segs.iter().zip(&seg_at) {
            let filesz = s.filesz.unwrap_or(s.bytes.len() as u64);
            let memsz = s.memsz.unwrap_or(filesz);
            let offset = s.offset.unwrap_or(*at as u64);
            self.put(&mut out, s.kind.into(), 4);
            if self.wide {
                self.put(&mut out, s.flags.into(), 4);
            }
            for n in [offset, s.vaddr, s.paddr.unwrap_or(s.vaddr), filesz, memsz] {
                self.word(&mut out, n);
            }
            if !self.wide {
                self.put(&mut out, s.flags.into(), 4);
            }
            self.word(&mut out, s.align);
        }
        out.extend(body);
        if with_sections {
            let mut name = 0;
            for (s, at) in sects.iter().zip(&sect_at) {
                self.put(&mut out, name, 4);
                name += s.name.len() as u64 + 1;
                self.put(&mut out, s.kind.into(), 4);
                for n in [s.flags, s.addr, *at as u64, s.size.unwrap_or(s.bytes.len() as u64)] {
                    self.word(&mut out, n);
                }
                self.put(&mut out, s.link.into(), 4);
                self.put(&mut out, 0, 4);
                self.word(&mut out, 4);
                self.word(&mut out, s.entsize);
            }
        }
        out
    }
}

/// Class and byte order, all four.
pub const SHAPES: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];
