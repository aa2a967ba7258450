//! The captures that are damaged: where their bytes come from, how each is read, and what is said of them undamaged.

use std::path::{Path, PathBuf};

use crate::{qnx, uia};

/// What of a capture is damaged, and how it is read.
pub struct Capture {
    pub name: &'static str,
    /// The source; `{}` is the damaged file.
    pub source: &'static str,
    /// The file that is damaged.
    pub damaged: &'static str,
    pub kind: Kind,
    /// Issues of the undamaged capture: code, severity, count.
    pub issues: &'static [(&'static str, &'static str, u64)],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    ThreadX,
    Uia {
        base: usize,
    },
    QnxRing,
    QnxFile,
    /// The entries are in another file.
    Program,
}

impl Kind {
    pub const fn format(self) -> &'static str {
        match self {
            Self::ThreadX => "threadx",
            Self::Uia { .. } => "uia",
            Self::QnxRing | Self::QnxFile => "qnx",
            Self::Program => "elf",
        }
    }
}

const fn capture(name: &'static str, source: &'static str, damaged: &'static str, kind: Kind) -> Capture {
    Capture { name, source, damaged, kind, issues: &[] }
}

impl Capture {
    const fn says(self, issues: &'static [(&'static str, &'static str, u64)]) -> Self {
        Self { issues, ..self }
    }
}

/// The ring of `uia-stop.ram.bin` lost events before it was captured, and its memory describes a second logger.
const STOP: &[(&str, &str, u64)] =
    &[("several-traces", "note", 1), ("sequence-gap", "lost", 3), ("events-dropped", "lost", 3)];

pub const CAPTURES: &[Capture] = &[
    capture("cm3.trx", "{}", "cm3.trx", Kind::ThreadX),
    capture("be.trx", "{}", "be.trx", Kind::ThreadX),
    capture("host-ulong64.trx", "{}", "host-ulong64.trx", Kind::ThreadX),
    capture("cm3.ram.bin and ELF", "--elf cm3.elf {}@0x20000000", "cm3.ram.bin", Kind::ThreadX),
    capture(
        "cm3-unwrapped.ram.bin and ELF",
        "--elf cm3-unwrapped.elf {}@0x20000000",
        "cm3-unwrapped.ram.bin",
        Kind::ThreadX,
    )
    .says(&[("rate-confirmed", "note", 1)]),
    capture("cm3-straddle.ram.bin alone", "{}", "cm3-straddle.ram.bin", Kind::ThreadX).says(&[(
        "placed-by-header",
        "inferred",
        1,
    )]),
    capture("cm3.core and ELF", "--elf cm3.elf {}", "cm3.core", Kind::ThreadX).says(&[("core", "note", 1)]),
    capture("smp.core and ELF", "--elf smp.elf {}", "smp.core", Kind::ThreadX),
    capture("be.core alone", "--scan {}", "be.core", Kind::ThreadX),
    capture("cm3.elf, RAM whole", "--elf {} cm3.ram.bin@0x20000000", "cm3.elf", Kind::Program),
    capture(
        "uia-stop.ram.bin and ELF",
        "--elf uia-stop.elf {}@0x20000000",
        "uia-stop.ram.bin",
        Kind::Uia { base: 0x100 },
    )
    .says(STOP),
    capture(
        "uia-min.ram.bin",
        "--symbol ti_uia_loggers_LoggerMin_Module__state__V=0x20000000 {}@0x20000000",
        "uia-min.ram.bin",
        Kind::Uia { base: 0x20 },
    ),
    capture("uia-stop.elf, RAM whole", "--elf {} uia-stop.ram.bin@0x20000000", "uia-stop.elf", Kind::Program)
        .says(STOP),
    capture("qnx-ring.bin", "{}", "qnx-ring.bin", Kind::QnxRing).says(&[("stamps-step-back", "inferred", 4)]),
    capture("qnx.kev", "{}", "qnx.kev", Kind::QnxFile).says(&[("stamps-step-back", "inferred", 4)]),
    capture(
        "UIA stop mode, 8 KiB",
        "--symbol ti_uia_loggers_LoggerStopMode_Object__table__V=0x20000010 \
         --symbol ti_uia_runtime_QueueDescriptor_gPtrToFirstDescriptor=0x2000008c {}@0x20000000",
        "made: stop",
        Kind::Uia { base: 0x100 },
    ),
    capture(
        "UIA LoggerMin, 8 KiB",
        "--symbol ti_uia_loggers_LoggerMin_Module__state__V=0x20000000 {}@0x20000000",
        "made: min",
        Kind::Uia { base: 0x20 },
    ),
    capture("QNX file, 32 KiB", "{}", "made: kev", Kind::QnxFile),
];

/// Captures that are hardly more than their headers: one damage in five hits what all the rest hangs on.
pub const SMALL: [&str; 3] = ["uia-stop.ram.bin", "uia-min.ram.bin", "qnx.kev"];

/// The bytes of a file that is damaged; captures of the usual size where the committed ones are small.
pub fn bytes_of(name: &str) -> Vec<u8> {
    let log = |lap: &mut uia::Lap| {
        for i in 0..1500u32 {
            let words: Vec<u32> = (0..[0, 1, 2, 4, 8][i as usize % 5]).map(|k| i + k).collect();
            let kind = if lap.minimal { 9 } else { 10 };
            let stamp = 0x1_0000_0000 + u64::from(i) * 0x111;
            lap.log(&uia::Ev::new(kind, 0x100 + 3 * (i % 50) as u16, 0x8001 + (i % 3) as u16, stamp, &words));
        }
    };
    match name {
        "made: stop" => {
            let (base, list) = (0x2000_0000, 0x2000_0090);
            let mut lap = uia::Lap::new(false, false, base + 0x100, 8192);
            log(&mut lap);
            let ram = uia::Ram::new(base).put(base + 0x10, &lap.object(1, list)).put(list - 4, &list.to_le_bytes());
            let ram = ram.put(list, &lap.descriptor(0, 1, base + 0x10 + 36)).put(lap.base, &lap.mem);
            ram.put(base + 0x2FFC, &[0; 4]).bytes
        }
        "made: min" => {
            let mut lap = uia::Lap::new(true, false, 0x2000_0020, 8192);
            log(&mut lap);
            uia::Ram::new(0x2000_0000)
                .put(0x2000_0000, &lap.state())
                .put(lap.base, &lap.mem)
                .put(0x2000_2FFC, &[0; 4])
                .bytes
        }
        "made: kev" => {
            let mut kernel = qnx::Kernel::new(4, 700);
            for i in 0..1500u32 {
                kernel.event(0, 0x2A_FFFF_5794 + u64::from(i) * 900, 4, [24, 1, 2, 5][i as usize % 4], &[1, i % 9]);
            }
            kernel.kev(2_300_571_400, "6.4.1")
        }
        file => std::fs::read(folder().join(file)).unwrap_or_else(|e| panic!("{file}: {e}")),
    }
}

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}
