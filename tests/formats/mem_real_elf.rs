//! Programs as compilers make them: both kinds of symbols, link-time optimisation, strip, debug information.
//! A compiler that is absent is said loudly, and its part skipped.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tx_trace::abi::{Endian, Width};
use tx_trace::elf::{Binding, Elf, ElfKind};
use tx_trace::mem::Memory;
use tx_trace::mem::core::elf_readonly;
use tx_trace::mem::map::FileMap;
use tx_trace::sym::Symbols;
use tx_trace::sym::dwarf::Dwarf;
use tx_trace::sym::elf_table::ElfSymbols;

const SOURCE: &str = r#"
typedef unsigned long ULONG;
typedef struct THREAD_STRUCT THREAD;
struct THREAD_STRUCT { ULONG id; char *name; union { ULONG state; char raw; }; struct { ULONG x; THREAD *next; } link; ULONG bits:3; };
typedef struct { char a; ULONG b; } UNNAMED;
typedef const UNNAMED *POINTER;
static THREAD only_here;
THREAD main_thread;
UNNAMED unnamed;
POINTER pointer;
const char banner[] = "a banner that stays";
void *volatile _tx_trace_header_ptr;
ULONG initial = 7;
__attribute__((noinline)) int work(int n) { return n + (int)only_here.id + banner[n & 7]; }
int main(void) { _tx_trace_header_ptr = &main_thread; main_thread.id = initial; only_here.id = 1; only_here.bits = 1;
    return work((int)unnamed.b) + (pointer != 0); }
void _exit(int n) { (void)n; for (;;) { } }
"#;

struct Built(PathBuf);

impl Built {
    fn elf(&self) -> Arc<Elf> {
        Arc::new(Elf::open(FileMap::open(&self.0).unwrap()).unwrap())
    }
}

fn temp() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mem_real_elf");
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Compiles the source; `None`, loudly, where the compiler is not there.
fn build(compiler: &str, name: &str, flags: &[&str]) -> Option<Built> {
    let source = temp().join(format!("{name}.c"));
    std::fs::write(&source, SOURCE).unwrap();
    let out = temp().join(format!("{name}.elf"));
    let ran = Command::new(compiler).args(flags).arg("-o").arg(&out).arg(&source).current_dir(temp()).output();
    match ran {
        Ok(ran) if ran.status.success() => Some(Built(out)),
        Ok(ran) => panic!("{compiler} {flags:?}: {}", String::from_utf8_lossy(&ran.stderr)),
        Err(error) => {
            println!("SKIPPED {name}: {compiler} cannot be run: {error}");
            None
        }
    }
}

const ARM: [&str; 6] = ["-mcpu=cortex-m3", "-mthumb", "-nostartfiles", "-Wl,-e,main", "-ffreestanding", "-O1"];

fn with<'a>(flags: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [flags, more].concat()
}

#[test]
fn a_position_independent_program_of_the_host() {
    let Some(built) = build("gcc", "pie", &["-g", "-O1", "-pie", "-fPIE"]) else { return };
    let elf = built.elf();
    assert_eq!(elf.kind(), ElfKind::Dyn);
    assert!(elf.build_id().is_some() || elf.section(".note.gnu.build-id").is_none());
    let symbols = ElfSymbols::new(Arc::clone(&elf), 0x5555_0000_0000);
    let header = symbols.lookup("_tx_trace_header_ptr").unwrap();
    assert_eq!(header.size, size_of::<usize>() as u64);
    assert!(header.address > 0x5555_0000_0000);
    assert_eq!(symbols.variable(header.address + 1).unwrap().name, "_tx_trace_header_ptr");
    let work = symbols.lookup("work").unwrap();
    assert_eq!(symbols.function(work.address + work.size - 1).unwrap().name, "work");
    assert!(symbols.lookup("only_here").is_some(), "a local symbol");
    let mut memory = elf_readonly(&elf, 0x5555_0000_0000);
    let banner = symbols.lookup("banner").unwrap();
    assert_eq!(&*memory.read_bytes(banner.address, 8).unwrap(), b"a banner");
    let initial = symbols.lookup("initial").unwrap();
    assert!(memory.read_bytes(initial.address, 4).is_err(), "initial values are not memory");
    assert_eq!(symbols.member_offset("THREAD", "name"), Some(size_of::<usize>() as u64));
}

#[test]
fn a_firmware_for_cortex_m() {
    let Some(built) = build("arm-none-eabi-gcc", "arm", &with(&ARM, &["-g"])) else { return };
    let elf = built.elf();
    assert_eq!(
        (elf.width(), elf.endian(), elf.describe().as_str()),
        (Width::W4, Endian::Little, "32-bit little-endian ARM")
    );
    assert_eq!(elf.symbol("_tx_trace_header_ptr").unwrap().size, 4);
    let work = elf.symbol("work").unwrap();
    assert_eq!(work.address & 1, 0, "the Thumb bit is gone");
    assert_eq!(elf.covering(work.address + 2).unwrap().name, "work");
    assert_eq!(elf.section_holding(work.address).map(|s| elf.section_name(&s)).as_deref(), Some(".text"));
}

#[test]
fn symbols_that_link_time_optimisation_made_local() {
    for (compiler, name, flags) in
        [("gcc", "lto", vec!["-O2", "-flto"]), ("arm-none-eabi-gcc", "lto_arm", with(&ARM, &["-flto", "-O2"]))]
    {
        let Some(built) = build(compiler, name, &flags) else { continue };
        let elf = built.elf();
        let found = elf.symbol("_tx_trace_header_ptr").unwrap();
        assert_eq!(found.size, elf.width().bytes() as u64, "{name}");
        assert_eq!(found.binding, Binding::Local, "{name}");
        assert_eq!(elf.covering(found.address).unwrap().name, "_tx_trace_header_ptr");
    }
}

#[test]
fn a_stripped_program_says_so() {
    for strip in ["-s", "-Wl,--strip-debug"] {
        let name = format!("strip{strip}").replace([',', '-'], "");
        let Some(built) = build("gcc", &name, &["-g", "-O1", strip]) else { return };
        let elf = built.elf();
        assert_eq!(elf.is_stripped(), strip == "-s");
        assert_eq!(elf.symbol("_tx_trace_header_ptr").is_some(), strip != "-s");
        let why = Dwarf::new(elf).unavailable().unwrap();
        assert!(why.contains("no debug information"), "{why}");
    }
}

fn check_types(dwarf: &Dwarf, word: u64, name: &str) {
    let at = |t: &str, m: &str| dwarf.member_offset(t, m);
    assert_eq!(dwarf.unavailable(), None, "{name}");
    for thread in ["THREAD", "THREAD_STRUCT"] {
        assert_eq!(at(thread, "id"), Some(0), "{name}");
        assert_eq!(at(thread, "name"), Some(word), "{name}");
        assert_eq!(at(thread, "state"), Some(2 * word), "{name}: in an unnamed union");
        assert_eq!(at(thread, "raw"), Some(2 * word), "{name}: in an unnamed union");
        assert_eq!(at(thread, "link"), Some(3 * word), "{name}");
        assert_eq!(at(thread, "x"), None, "{name}: of a named inner struct");
        assert_eq!(dwarf.type_size(thread), Some(6 * word), "{name}");
    }
    assert_eq!(dwarf.type_size("ULONG"), Some(word), "{name}");
    assert_eq!(at("UNNAMED", "b"), Some(word), "{name}: a typedef of an unnamed struct");
    assert_eq!(dwarf.type_size("POINTER"), Some(word), "{name}");
    for absent in ["THREA", "HREAD", "id", "", "main", "banner"] {
        assert_eq!(dwarf.layout(absent), None, "{name}: {absent}");
    }
    assert_eq!(at("THREAD", "nam"), None);
}

#[test]
fn types_in_every_version_of_dwarf() {
    for version in ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5"] {
        for more in [&[][..], &["-fdebug-types-section"], &["-gno-strict-dwarf", "-O2"], &["-gdwarf64"], &["-flto"]] {
            let name = format!("dwarf{version}{}", more.concat()).replace('-', "");
            let flags = [&[version, "-O1"], more].concat();
            if let Some(built) = build("gcc", &name, &flags) {
                check_types(&Dwarf::new(built.elf()), size_of::<usize>() as u64, &name);
            }
        }
        let name = format!("arm{version}").replace('-', "");
        if let Some(built) = build("arm-none-eabi-gcc", &name, &with(&ARM, &[version])) {
            check_types(&Dwarf::new(built.elf()), 4, &name);
        }
        // Big-endian: only an object can be made without libraries; linked by hand.
        let name = format!("armbe{version}").replace('-', "");
        if let Some(built) = build("arm-none-eabi-gcc", &name, &with(&ARM, &[version, "-mbig-endian", "-nostdlib"])) {
            assert_eq!(built.elf().endian(), Endian::Big);
            check_types(&Dwarf::new(built.elf()), 4, &name);
        }
    }
}

#[test]
fn debug_information_that_is_not_read_is_named() {
    if let Some(built) = build("gcc", "gz", &["-g", "-gz"]) {
        let dwarf = Dwarf::new(built.elf());
        assert!(dwarf.unavailable().unwrap().contains("compressed"));
        assert_eq!(dwarf.member_offset("THREAD", "name"), None);
    }
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        if let Some(built) = build("gcc", &format!("split{version}"), &["-gsplit-dwarf", version]) {
            assert!(Dwarf::new(built.elf()).unavailable().unwrap().contains(".dwo"));
        }
    }
    if let Some(built) = build("gcc", "object", &["-g", "-c"]) {
        let elf = built.elf();
        assert_eq!((elf.kind(), elf.symbol("main")), (ElfKind::Object, None));
        assert!(Dwarf::new(elf).unavailable().unwrap().contains("not linked"));
    }
}

#[test]
fn damaged_debug_information_is_survived() {
    let Some(built) = build("gcc", "damaged", &["-g", "-O1"]) else { return };
    let whole = std::fs::read(&built.0).unwrap();
    let elf = built.elf();
    for name in [".debug_info", ".debug_abbrev", ".debug_str"] {
        let section = elf.section(name).unwrap();
        let (at, len) = (section.offset as usize, section.size as usize);
        for step in 0..64 {
            let mut bad = whole.clone();
            let from = at + step * len / 64;
            for (i, b) in bad[from..(from + 8).min(at + len)].iter_mut().enumerate() {
                *b ^= (step * 37 + i * 91 + 1) as u8;
            }
            let dwarf = Dwarf::new(Arc::new(Elf::open(bad).unwrap()));
            let _ = (dwarf.member_offset("THREAD", "name"), dwarf.type_size("UNNAMED"), dwarf.type_size("absent"));
        }
    }
}
