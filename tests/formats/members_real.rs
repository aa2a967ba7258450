//! What is at an address within a variable, by the debug information that compilers write.
//! A compiler that is absent is said loudly, and its part skipped.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tx_trace::elf::Elf;
use tx_trace::mem::map::FileMap;
use tx_trace::sym::dwarf::Dwarf;
use tx_trace::sym::elf_table::ElfSymbols;
use tx_trace::sym::{Symbol, Symbols};

const FIRST: &str = r#"
struct point { short x, y; };
typedef struct point POINT;
struct station {
    unsigned id;
    POINT grid[2][3];
    union { unsigned word; unsigned char bytes[4]; } raw;
    struct { unsigned char low; unsigned after; };
    unsigned mode:3, speed:9;
    volatile char name[5];
    unsigned tail;
    struct { unsigned count; unsigned char text[8]; } lines[2];
    unsigned end;
};
static struct station station;
static struct { int revision; struct point lock; int dwell[4]; } wear;
int table[4] = { 1, 2, 3, 4 };
extern const volatile unsigned char limits[];
const volatile unsigned char limits[3] = { 1, 2, 3 };
void *volatile kept[8];
void other(void);
__attribute__((noinline)) void bump(void) { static struct { int calls; int last[2]; } count; count.calls++; kept[4] = &count; }
int main(void) { kept[0] = &station; kept[1] = table; kept[2] = (void *)limits; kept[5] = &wear; bump(); other(); return 0; }
"#;

const SECOND: &str = r#"
extern void *volatile kept[8];
static struct { char kind; int level; } station;
void other(void) { kept[3] = &station; }
void _exit(int n) { (void)n; for (;;) { } }
"#;

const ARM: [&str; 6] = ["-mcpu=cortex-m3", "-mthumb", "-nostartfiles", "-Wl,-e,main", "-ffreestanding", "-nostdlib"];
const RISCV: [&str; 5] = ["-march=rv32imac", "-mabi=ilp32", "-nostdlib", "-Wl,-e,main", "-ffreestanding"];

/// Compiles both sources to one program; `None`, loudly, where the compiler is not there.
fn build(compiler: &str, name: &str, flags: &[&str]) -> Option<Arc<Elf>> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("members_real").join(name);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("first.c"), FIRST).unwrap();
    std::fs::write(dir.join("second.c"), SECOND).unwrap();
    let ran =
        Command::new(compiler).args(flags).args(["-o", "x.elf", "first.c", "second.c"]).current_dir(&dir).output();
    match ran {
        Ok(ran) if ran.status.success() => {
            Some(Arc::new(Elf::open(FileMap::open(dir.join("x.elf")).unwrap()).unwrap()))
        }
        Ok(ran) => panic!("{compiler} {flags:?}: {}", String::from_utf8_lossy(&ran.stderr)),
        Err(error) => {
            println!("SKIPPED {name}: {compiler} cannot be run: {error}");
            None
        }
    }
}

/// The variables whose names begin so, the largest first.
fn variables(elf: &Elf, prefix: &str) -> Vec<Symbol> {
    let found = elf.symbols_with_prefix(prefix).into_iter();
    let mut found: Vec<Symbol> =
        found.map(|s| Symbol { name: s.name, address: s.address, size: s.size }).filter(|s| s.size > 0).collect();
    found.sort_by_key(|symbol| std::cmp::Reverse(symbol.size));
    found
}

/// `[offset] path+rest, outermost that begins there`.
fn member(dwarf: &Dwarf, variable: &Symbol, offset: u64) -> String {
    let Some(found) = dwarf.member(variable, offset) else { return "nothing".to_owned() };
    let path = found.path.replacen(&variable.name, "", 1);
    let whole = found.whole.map_or_else(String::new, |whole| format!(" {}", whole.replacen(&variable.name, "=", 1)));
    format!("{path}+{}{whole}", found.offset)
}

fn arrays(dwarf: &Dwarf, variable: &Symbol, end: u64) -> Vec<String> {
    let all = dwarf.arrays_ending(variable, end);
    all.iter().map(|array| array.to_string().replacen(&variable.name, "", 1)).collect()
}

fn check(elf: Arc<Elf>, name: &str) {
    let dwarf = Dwarf::new(Arc::clone(&elf));
    let stations = variables(&elf, "station");
    let [station, namesake] = stations.as_slice() else { panic!("{name}: {stations:?}") };
    let at = |offset| member(&dwarf, station, offset);
    assert_eq!([station.size, namesake.size], [80, 8], "{name}");
    assert_eq!([at(0), at(2)], [".id+0 =", ".id+2"], "{name}");
    assert_eq!([at(4), at(26)], [".grid[0][0].x+0 =.grid", ".grid[1][2].y+0 =.grid[1][2].y"], "{name}");
    assert_eq!(at(30), ".raw+2", "{name}: which member of a union is in use is not known");
    assert_eq!([at(38), at(33)], [".after+2", "+33"], "{name}: of an unnamed struct, and between its members");
    assert_eq!([at(40), at(41)], [".mode+0 =.mode", ".speed+0 =.speed"], "{name}: bit-fields");
    assert_eq!([at(43), at(47)], [".name[1]+0 =.name[1]", "+47"], "{name}: behind it is nothing");
    assert_eq!([at(53), at(64)], [".lines[0].count+1", ".lines[1].count+0 =.lines[1]"], "{name}");
    assert_eq!([at(79), at(80), at(u64::MAX)], [".end+3", "nothing", "nothing"], "{name}");
    let wear = variables(&elf, "wear");
    let behind =
        |offset| dwarf.array_behind(&wear[0], offset).map(|array| array.to_string().replacen(&wear[0].name, "", 1));
    assert_eq!(behind(4).as_deref(), Some(".dwell[4]"), "{name}: behind a structure");
    assert_eq!([behind(0), behind(6), behind(8), behind(24), behind(u64::MAX)], [const { None }; 5], "{name}");
    let ends = |end| arrays(&dwarf, station, end);
    assert_eq!(ends(28), [".grid[2][3]"], "{name}");
    assert_eq!(ends(47), [".name[5]"], "{name}");
    assert_eq!(ends(64), [".lines[0].text[8]"], "{name}");
    assert_eq!(ends(76), [".lines[2]", ".lines[1].text[8]"], "{name}: two arrays end there");
    for none in [0, 4, 32, 48, 80, 81, u64::MAX] {
        assert_eq!(ends(none), Vec::<String>::new(), "{name}: {none}");
    }
    assert_eq!([member(&dwarf, namesake, 0), member(&dwarf, namesake, 4)], [".kind+0 =", ".level+0 =.level"], "{name}");
    let table = &variables(&elf, "table")[0];
    assert_eq!((member(&dwarf, table, 9), arrays(&dwarf, table, 16)), ("[2]+1".to_owned(), vec!["[4]".to_owned()]));
    let limits = &variables(&elf, "limits")[0];
    assert_eq!(member(&dwarf, limits, 2), "[2]+0 =[2]", "{name}: its type is with the definition");
    let other = Symbol { name: "absent".to_owned(), ..table.clone() };
    assert_eq!(member(&dwarf, &other, 0), "nothing", "{name}: another variable at the address");
    let smaller = Symbol { size: 12, ..table.clone() };
    assert_eq!(member(&dwarf, &smaller, 0), "nothing", "{name}: the symbol contradicts the type");
}

/// A static variable in a function, whose symbol has more than its name.
fn check_in_function(elf: &Arc<Elf>, name: &str) {
    let symbols = ElfSymbols::new(Arc::clone(elf), 0x1000);
    let found = ["count.", "bump.count"].iter().flat_map(|prefix| variables(elf, prefix)).next();
    let count = found.unwrap_or_else(|| panic!("{name}: no count"));
    let at = count.address + 0x1000;
    assert_eq!(symbols.member(at + 8).unwrap().path, format!("{}.last[1]", count.name), "{name}");
    let ending = symbols.arrays_before(at + 12);
    assert_eq!(ending[0].to_string(), format!("{}.last[2]", count.name), "{name}");
    assert_eq!(symbols.member(count.address), None, "{name}: not where it was linked");
}

#[test]
fn members_in_every_version_of_dwarf() {
    for version in ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5"] {
        let builds: [(&str, &str, Vec<&str>); 8] = [
            ("gcc", "host", vec!["-O1"]),
            ("gcc", "types", vec!["-O1", "-fdebug-types-section"]),
            ("gcc", "wide", vec!["-O2", "-gdwarf64"]),
            ("gcc", "lto", vec!["-O1", "-flto"]),
            ("clang", "clang", vec!["-O1"]),
            ("arm-none-eabi-gcc", "arm", [&ARM[..], &["-O2"]].concat()),
            ("arm-none-eabi-gcc", "armbe", [&ARM[..], &["-O1", "-mbig-endian"]].concat()),
            ("riscv64-unknown-elf-gcc", "riscv", [&RISCV[..], &["-O1"]].concat()),
        ];
        for (compiler, name, flags) in builds {
            let name = format!("{name}{version}");
            let Some(elf) = build(compiler, &name, &[&[version][..], &flags].concat()) else { continue };
            check(Arc::clone(&elf), &name);
            check_in_function(&elf, &name);
        }
    }
}

#[test]
fn a_program_without_debug_information_has_no_members() {
    let Some(elf) = build("gcc", "plain", &["-O1"]) else { return };
    let (dwarf, table) = (Dwarf::new(Arc::clone(&elf)), &variables(&elf, "table")[0]);
    assert_eq!((dwarf.member(table, 4), dwarf.arrays_ending(table, 16)), (None, Vec::new()));
}

#[test]
fn damaged_members_are_survived() {
    let Some(elf) = build("gcc", "damaged", &["-g", "-O1"]) else { return };
    let whole =
        std::fs::read(Path::new(env!("CARGO_TARGET_TMPDIR")).join("members_real").join("damaged").join("x.elf"));
    let (whole, station) = (whole.unwrap(), &variables(&elf, "station")[0]);
    for name in [".debug_info", ".debug_abbrev"] {
        let section = elf.section(name).unwrap();
        let (at, len) = (section.offset as usize, section.size as usize);
        for step in 0..256 {
            let mut bad = whole.clone();
            let from = at + step * len / 256;
            for (i, b) in bad[from..(from + 3).min(at + len)].iter_mut().enumerate() {
                *b ^= (step * 37 + i * 91 + 1) as u8;
            }
            let dwarf = Dwarf::new(Arc::new(Elf::open(bad).unwrap()));
            for offset in 0..80 {
                let _ = (dwarf.member(station, offset), dwarf.arrays_ending(station, offset));
            }
        }
    }
}
