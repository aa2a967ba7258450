//! A core as GDB writes it of a running position-independent program. Without GDB: said loudly, and skipped.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tx_trace::elf::Elf;
use tx_trace::mem::Memory;
use tx_trace::mem::core::{Core, elf_readonly};
use tx_trace::mem::map::FileMap;
use tx_trace::mem::overlay::Overlay;
use tx_trace::sym::Symbols;
use tx_trace::sym::elf_table::ElfSymbols;

const SOURCE: &str = "
volatile int marker = 1; const char banner[] = \"a banner that stays\";
int stop(void) { marker = 0x12345678; return marker; }
int main(void) { return stop(); }
";

#[test]
fn a_core_of_gdb_with_its_program() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mem_real_core");
    std::fs::create_dir_all(&dir).unwrap();
    let (source, program, file) = (dir.join("p.c"), dir.join("p.elf"), dir.join("p.core"));
    std::fs::write(&source, SOURCE).unwrap();
    let _ = std::fs::remove_file(&file);
    let built = Command::new("gcc").args(["-g", "-O0", "-pie", "-fPIE", "-o"]).arg(&program).arg(&source).status();
    let script = ["break stop", "run", "next"];
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch"]);
    for line in script {
        gdb.args(["-ex", line]);
    }
    let made = gdb.arg("-ex").arg(format!("generate-core-file {}", file.display())).arg(&program).output();
    if !built.is_ok_and(|s| s.success()) || made.is_err() || !file.exists() {
        println!("SKIPPED: gcc or gdb is missing, or may not trace: {made:?}");
        return;
    }
    let elf = Arc::new(Elf::open(FileMap::open(&program).unwrap()).unwrap());
    let mut core = Core::open(Elf::open(FileMap::open(&file).unwrap()).unwrap()).unwrap();
    assert_eq!((core.missing_bytes(), core.disagreement(&elf)), (0, None));
    assert!(!core.threads().is_empty());
    let (offset, how) = core.load_offset(&elf).unwrap();
    assert!(offset != 0 && how.contains("AT_ENTRY"), "{offset:#x} {how}");
    let files = core.mapped_files();
    assert!(files.iter().any(|f| f.path.ends_with("p.elf") && f.start == offset), "{offset:#x} {files:?}");
    let symbols = ElfSymbols::new(Arc::clone(&elf), offset);
    let mut memory = Overlay::new().below(core).below(elf_readonly(&elf, offset));
    let at = |name: &str| symbols.lookup(name).unwrap().address;
    let marker = memory.read_bytes(at("marker"), 4).unwrap();
    assert_eq!(elf.endian().u32(&marker, 0), Some(0x1234_5678));
    assert_eq!(&*memory.read_bytes(at("banner"), 8).unwrap(), b"a banner");
    assert_eq!(symbols.function(at("stop") + 1).unwrap().name, "stop");
}
