//! `docs/formats/threadx.md`: its tables are read, and give what the fixtures hold, in both widths and byte orders.

use std::path::Path;

/// The rows of the first table below a heading: the cells of each.
fn table(page: &str, heading: &str) -> Vec<Vec<String>> {
    let below = page.split_once(&format!("\n## {heading}\n")).unwrap().1;
    let rows = below.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.skip(2).map(cells).collect()
}

/// A trace buffer.
struct Buffer {
    bytes: Vec<u8>,
    wide: bool,
    big: bool,
}

impl Buffer {
    fn number(&self, at: usize, len: usize) -> u64 {
        let bytes = &self.bytes[at..at + len];
        let add = |n: u64, byte: &u8| n << 8 | u64::from(*byte);
        if self.big { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) }
    }

    const fn word(&self) -> usize {
        if self.wide { 8 } else { 4 }
    }
}

/// The value of a field, as its table places it.
fn field(rows: &[Vec<String>], buffer: &Buffer, base: usize, name: &str) -> u64 {
    let row = rows.iter().find(|row| row[2].starts_with(name)).unwrap();
    let offset: usize = row[usize::from(buffer.wide)].parse().unwrap();
    let len = match &row[2] {
        own if own.contains("16 bits") => 2,
        own if own.contains("8 bits") => 1,
        _ => buffer.word(),
    };
    buffer.number(base + offset, len)
}

#[test]
fn the_tables_of_the_page_read_the_fixtures() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/formats/threadx.md")).unwrap();
    let (header, registry) = (table(&page, "Header"), table(&page, "Registry"));
    for (file, wide, big) in [("cm3.trx", false, false), ("be.trx", false, true), ("host-ulong64.trx", true, false)] {
        let bytes = std::fs::read(root.join("tests/fixtures").join(file)).unwrap();
        let buffer = Buffer { bytes, wide, big };
        let get = |name: &str| field(&header, &buffer, 0, name);
        let size = if wide { 96 } else { 48 };
        assert_eq!([get("id"), get("registry start") - get("base")], [0x5458_5442, size], "{file}");
        assert_eq!([get("timer valid mask"), get("size of a name")], [0xFFFF_FFFF, 32], "{file}");
        assert_eq!(get("registry end"), get("buffer start"), "{file}");
        assert!((get("buffer start")..get("buffer end")).contains(&get("current")), "{file}");
        let reserved: Vec<u64> = header
            .iter()
            .filter(|row| row[2] == "reserved")
            .map(|row| {
                let offset: usize = row[usize::from(wide)].parse().unwrap();
                assert_eq!(row[3], format!("{:#X}", buffer.number(offset, 4)).replace("0X", "0x"), "{file}");
                buffer.number(offset, buffer.word())
            })
            .collect();
        assert_eq!(reserved, [0xAAAA_AAAA, 0xBBBB_BBBB, 0xCCCC_CCCC], "{file}");
        // A registry entry is as long as its last field ends; the page's names of types are those of the objects there.
        let at = |row: &Vec<String>| row[usize::from(wide)].parse::<usize>().unwrap();
        let entry = at(registry.last().unwrap()) + 32;
        let start = usize::try_from(size).unwrap();
        let count = usize::try_from(get("registry end") - get("registry start")).unwrap() / entry;
        let threads = (0..count).map(|n| start + n * entry).filter(|at| field(&registry, &buffer, *at, "type") == 1);
        let names: Vec<String> = threads
            .map(|own| {
                let from = own + at(registry.last().unwrap());
                let name: Vec<u8> =
                    buffer.bytes[from..from + 32].iter().copied().take_while(|byte| *byte != 0).collect();
                assert!(field(&registry, &buffer, own, "parameter 2") >= 512, "{file}: the size of a stack");
                String::from_utf8(name).unwrap()
            })
            .collect();
        assert!(names.contains(&"watchdog".to_owned()) && names.contains(&"low_task".to_owned()), "{file}: {names:?}");
        // Entries: eight words, of which the third is an event's number.
        let entries = usize::try_from(get("buffer end") - get("buffer start")).unwrap() / (8 * buffer.word());
        let first = usize::try_from(get("buffer start") - get("base")).unwrap();
        let ids = (0..entries).map(|n| buffer.number(first + (8 * n + 2) * buffer.word(), buffer.word()));
        assert!(ids.filter(|id| *id == 3).count() > 5, "{file}: interrupts");
    }
}
