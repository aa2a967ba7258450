//! Writers of every kind of text dump, stated from their descriptions and from what the tools print.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use proptest::prelude::*;

use super::text::{Dump, Kind, OrderKnown, Words, Wrong, read, sniff};
use crate::abi::{Addr, Endian};

type Memory = Vec<(Addr, Vec<u8>)>;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, b| {
        write!(text, "{b:02X}").unwrap();
        text
    })
}

fn ihex_record(offset: u16, kind: u8, data: &[u8]) -> String {
    let mut bytes = vec![data.len() as u8, (offset >> 8) as u8, offset as u8, kind];
    bytes.extend(data);
    let sum = bytes.iter().fold(0u8, |s, b| s.wrapping_add(*b));
    bytes.push(sum.wrapping_neg());
    format!(":{}\n", hex(&bytes))
}

/// As GDB's `dump ihex memory` and objcopy write it.
fn ihex(memory: &Memory, step: usize) -> String {
    let mut text = String::new();
    for (start, bytes) in memory {
        for (i, data) in bytes.chunks(step).enumerate() {
            let at = start + (i * step) as u64;
            let (low, room) = (at as u16, (0x1_0000 - (at & 0xFFFF)) as usize);
            for (at, data) in [(at, &data[..data.len().min(room)]), (at + room as u64, &data[data.len().min(room)..])] {
                if !data.is_empty() {
                    text += &ihex_record(0, 4, &((at >> 16) as u16).to_be_bytes());
                    text += &ihex_record(if at & 0xFFFF == 0 { 0 } else { low }, 0, data);
                }
            }
        }
    }
    text + ":00000001FF\n"
}

fn srec_record(kind: u8, address: u64, data: &[u8]) -> String {
    let width = match kind {
        2 | 6 | 8 => 3,
        3 | 7 => 4,
        _ => 2,
    };
    let mut bytes = vec![(width + data.len() + 1) as u8];
    bytes.extend(&address.to_be_bytes()[8 - width..]);
    bytes.extend(data);
    let sum = bytes.iter().fold(0u8, |s, b| s.wrapping_add(*b));
    bytes.push(!sum);
    format!("S{kind}{}\n", hex(&bytes))
}

fn srec(memory: &Memory, step: usize, kind: u8) -> String {
    let mut text = srec_record(0, 0, b"HDR");
    let mut count = 0;
    for (start, bytes) in memory {
        for (i, data) in bytes.chunks(step).enumerate() {
            text += &srec_record(kind, start + (i * step) as u64, data);
            count += 1;
        }
    }
    text += &srec_record(5, count & 0xFFFF, &[]);
    text + &srec_record(10 - kind, 0x100, &[])
}

fn shown(bytes: &[u8]) -> String {
    bytes.iter().map(|b| if (0x20..0x7F).contains(b) { *b as char } else { '.' }).collect()
}

fn word(bytes: &[u8], big: bool) -> String {
    let bytes: Vec<u8> = if big { bytes.to_vec() } else { bytes.iter().rev().copied().collect() };
    hex(&bytes).to_lowercase()
}

/// What prints dumps.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Tool {
    Gdb,
    OpenOcd,
    JLink,
    UBoot,
    Lldb,
    Xxd,
    HexdumpC,
}

/// `unit` bytes a group; all of `bytes` in whole groups.
fn dump(tool: Tool, memory: &Memory, unit: usize, big: bool) -> String {
    let mut text = String::new();
    for (start, bytes) in memory {
        for (i, line) in bytes.chunks(if tool == Tool::Gdb { 8 } else { 16 }).enumerate() {
            let at = start + (i * if tool == Tool::Gdb { 8 } else { 16 }) as u64;
            let groups: Vec<String> = line.chunks(unit).map(|w| word(w, big)).collect();
            let ascii = shown(line);
            match tool {
                Tool::Gdb => {
                    let symbol = if i % 2 == 0 { " <std::array<int, 4>::buf+8>" } else { "" };
                    text += &format!("(gdb) {at:#x}{symbol}:\t0x{}\n", groups.join("\t0x"));
                }
                Tool::OpenOcd => text += &format!("{at:#010x}: {} \n", groups.join(" ")),
                Tool::JLink => text += &format!("{at:08X} = {} \n", groups.join(" ").to_uppercase()),
                Tool::UBoot => {
                    text +=
                        &format!("{at:08x}: {:w$}    {ascii}\n", groups.join(" "), w = 16 / unit * (2 * unit + 1) - 1)
                }
                Tool::Lldb => text += &format!("{at:#010x}: {}  {ascii}\n", groups.join(" ")),
                Tool::Xxd => {
                    let groups: Vec<String> = line.chunks(2).map(|w| word(w, true)).collect();
                    text += &format!("{at:08x}: {:39}  {ascii}\n", groups.join(" "));
                }
                Tool::HexdumpC => {
                    let half = |part: Option<&[String]>| part.unwrap_or(&[]).join(" ");
                    let (a, b) = (half(groups.get(..groups.len().min(8))), half(groups.get(8..)));
                    text += &format!("{at:08x}  {:48}  |{ascii}|\n", format!("{a}  {b}"));
                }
            }
        }
    }
    text
}

fn blocks(dump: &Dump) -> Memory {
    dump.blocks.iter().map(|(at, b)| (*at, b.to_vec())).collect()
}

fn flaws(dump: &Dump) -> Vec<String> {
    dump.flaws.iter().map(ToString::to_string).collect()
}

fn parsed(text: &str) -> Dump {
    let kind = sniff(text.as_bytes()).expect("recognized by its content");
    read(kind, text.as_bytes(), None)
}

fn one(at: Addr, bytes: &[u8]) -> Memory {
    vec![(at, bytes.to_vec())]
}

#[test]
fn intel_hex_of_every_record_type() {
    let text = [
        ihex_record(0xFFFE, 0, &[1, 2, 3, 4]),
        ihex_record(0, 2, &[0x12, 0x34]),
        ihex_record(0xFFFE, 0, &[5, 6, 7, 8]),
        ihex_record(0, 4, &[0x20, 0x00]),
        ihex_record(0x10, 0, &[9]),
        ihex_record(0, 3, &[0x12, 0x34, 0x00, 0x10]),
        ihex_record(0, 5, &[0x20, 0, 0, 0x41]),
        ":00000001FF\r\n".into(),
    ]
    .concat();
    let dump = parsed(&text);
    assert_eq!(dump.kind, Kind::IntelHex);
    let expected = vec![
        (0xFFFE, vec![1, 2, 3, 4]),
        // A segment wraps within itself.
        (0x1_2340, vec![7, 8]),
        (0x2_233E, vec![5, 6]),
        (0x2000_0010, vec![9]),
    ];
    assert_eq!(blocks(&dump), expected);
    assert!(flaws(&dump).is_empty());
}

#[test]
fn a_damaged_intel_hex_record_leaves_a_gap() {
    let sound = ihex(&one(0x2000_0000, &[1; 16]), 4);
    let lines: Vec<&str> = sound.lines().collect();
    let bad = lines[3].replace("01", "02");
    let text = [lines[0], lines[1], lines[2], &bad, ":12", lines[4], lines[5], ""].join("\n");
    let dump = parsed(&text);
    assert_eq!(blocks(&dump), [(0x2000_0000, vec![1; 4]), (0x2000_0008, vec![1; 4])]);
    assert_eq!(
        flaws(&dump),
        [
            "wrong checksum in 1 record (line 4): not used",
            "1 line that no record can be read from (line 5): not used",
            "it has no end record: it may be cut short"
        ]
    );
}

#[test]
fn data_behind_a_damaged_address_record_belong_nowhere() {
    let text = ihex_record(0, 0, &[1])
        + ":020000042000DB\n"
        + &ihex_record(0, 0, &[2])
        + &ihex_record(1, 0, &[3])
        + &ihex_record(0, 4, &[0x30, 0])
        + &ihex_record(0, 0, &[4])
        + &ihex_record(0, 9, &[4])
        + &ihex_record(0, 1, &[])
        + &ihex_record(9, 0, &[5]);
    let dump = parsed(&text);
    assert_eq!(blocks(&dump), [(0, vec![1]), (0x3000_0000, vec![4])]);
    assert_eq!(
        flaws(&dump),
        [
            "wrong checksum in 1 record (line 2): not used",
            "2 records after an address record that is damaged (lines 3, 4): not used",
            "1 record of a type that does not exist (line 7): not used",
            "1 record after the end record (line 9): not used",
        ]
    );
}

#[test]
fn s_records_of_every_type() {
    let text = srec_record(0, 0, b"x")
        + &srec_record(1, 0xFFFE, &[1, 2])
        + &srec_record(2, 0x12_3456, &[3])
        + &srec_record(3, 0xFFFF_FFFF, &[4])
        + &srec_record(3, 0xFFFF_FFFF, &[4, 5])
        + &srec_record(4, 0, &[])
        + &srec_record(6, 6, &[])
        + &srec_record(5, 4, &[])
        + &srec_record(7, 0x2000_0000, &[])
        + &srec_record(1, 0, &[1]);
    let dump = parsed(&text);
    assert_eq!(dump.kind, Kind::SRecord);
    assert_eq!(blocks(&dump), [(0xFFFE, vec![1, 2]), (0x12_3456, vec![3]), (0xFFFF_FFFF, vec![4])]);
    assert_eq!(
        flaws(&dump),
        [
            "1 record that pass the last address there is (line 5): not used",
            "1 record of a type that does not exist (line 6): not used",
            "2 records fewer than it says it has: these are missing",
            "1 record after the end record (line 10): not used",
        ]
    );
}

#[test]
fn many_lines_are_named_by_the_first() {
    let text: String = (0..9).map(|_| "S1050000010200\n").collect();
    let dump = read(Kind::SRecord, text.as_bytes(), None);
    assert_eq!(flaws(&dump)[0], "wrong checksum in 9 records (lines 1, 2, 3, 4 and 5 more): not used");
    assert!(dump.blocks.is_empty());
}

#[test]
fn bytes_given_twice() {
    let twice = |second: &[u8]| {
        parsed(&(srec_record(1, 0x10, &[1, 2, 3, 4]) + &srec_record(1, 0x12, second) + &srec_record(9, 0, &[])))
    };
    let same = twice(&[3, 4, 5]);
    assert_eq!((blocks(&same), flaws(&same)), (one(0x10, &[1, 2, 3, 4, 5]), vec![]));
    let other = twice(&[9, 4, 8]);
    assert_eq!(blocks(&other), one(0x10, &[1, 2, 9, 4, 8]));
    assert_eq!(flaws(&other), ["1 byte given twice, and differently, from 0x12 on: the later ones are used"]);
}

const SAMPLE: &[u8] = b"BTXT\xFF\xFF\0\0\0\0\0\x20\x30\0\0 abcdefgh  \x01\x02 z|>";

#[test]
fn every_tool_is_read() {
    let memory = vec![(0x2000_0000, SAMPLE.to_vec()), (0x2000_1000, SAMPLE[..16].to_vec())];
    for tool in [Tool::Gdb, Tool::OpenOcd, Tool::JLink, Tool::UBoot, Tool::Lldb, Tool::Xxd, Tool::HexdumpC] {
        for unit in [1, 2, 4, 8] {
            if unit > 1 && matches!(tool, Tool::Lldb | Tool::HexdumpC) {
                continue;
            }
            for big in [false, true] {
                let text = format!("> read it\r\n{}\nbye: 1\n", dump(tool, &memory, unit, big));
                assert_eq!(sniff(text.as_bytes()), Some(Kind::HexDump), "{text}");
                let given = if big { Endian::Big } else { Endian::Little };
                let dump = read(Kind::HexDump, text.as_bytes(), Some(given));
                assert_eq!(blocks(&dump), memory, "{tool:?} {unit} {big}\n{text}");
                assert_eq!(flaws(&dump), [""; 0], "{text}");
                let known = match tool {
                    Tool::Xxd | Tool::UBoot => OrderKnown::Text,
                    _ => OrderKnown::Given,
                };
                let order = if tool == Tool::Xxd { Endian::Big } else { given };
                let words = unit > 1 || tool == Tool::Xxd;
                assert_eq!(dump.words, words.then_some(Words { order, known }), "{tool:?} {unit}");
            }
        }
    }
}

#[test]
fn characters_beside_words_overrule_what_was_given() {
    let memory = one(0x8000_0000, SAMPLE);
    let text = dump(Tool::UBoot, &memory, 4, true);
    assert_eq!(blocks(&read(Kind::HexDump, text.as_bytes(), Some(Endian::Little))), memory);
    let words = parsed("0x20000000: 04030201 \n");
    assert_eq!(words.words, Some(Words { order: Endian::Little, known: OrderKnown::Assumed }));
    assert_eq!(blocks(&words), one(0x2000_0000, &[1, 2, 3, 4]));
}

#[test]
fn the_last_bytes_of_xxd() {
    let text = "00000000: 4254 5854 ffff ffff 3030 3030 3131 3131  BTXT....00001111\n00000010: 4254 58                                  BTX\n";
    assert_eq!(blocks(&parsed(text)), one(0, b"BTXT\xFF\xFF\xFF\xFF00001111BTX"));
    let little = "00000000: 54585442 ffffffff  BTXT....\n";
    assert_eq!(blocks(&parsed(little)), one(0, b"BTXT\xFF\xFF\xFF\xFF"));
}

#[test]
fn repeated_lines_of_hexdump() {
    let text = "00000000  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|\n*\n\
                00000030  01 02                                             |..|\n00000032\n";
    let mut expected = vec![0; 0x30];
    expected.extend([1, 2]);
    assert_eq!(blocks(&parsed(text)), one(0, &expected));
    let end = "00000000  61 62  |ab|\n*\n00000008\n";
    assert_eq!(blocks(&parsed(end)), one(0, b"abababab"));
    for open in
        ["*\n00000000  61 62  |ab|\n", "00000000  61 62  |ab|\n*\n", "00000000  61 62  |ab|\n*\nffffffffffff0000\n"]
    {
        let dump = parsed(open);
        assert_eq!(blocks(&dump), one(0, b"ab"));
        assert_eq!(dump.flaws[0].wrong, Wrong::Repeat, "{open}");
    }
}

#[test]
fn a_line_that_is_cut_makes_no_bytes_up() {
    let text = "0x20000000: 04030201 08070605 \n0x20000008: 0403";
    let dump = parsed(text);
    assert_eq!(blocks(&dump), one(0x2000_0000, &[1, 2, 3, 4, 5, 6, 7, 8]));
    assert_eq!(flaws(&dump), ["1 line that no record can be read from (line 2): not used"]);
    let text = "0x20000000: 04030201 08070605 \n0x20000008: 04030201 0807";
    assert_eq!(blocks(&parsed(text)), one(0x2000_0000, &[1, 2, 3, 4, 5, 6, 7, 8]));
    let gdb = "0x20000000 <b>:\t0x01\t0x02\n0x20000002:\tCannot access memory at address 0x20000002\n";
    assert_eq!(blocks(&parsed(gdb)), one(0x2000_0000, &[1, 2]));
}

/// The last line of `xxd`, cut behind four of its characters: the blanks in front of them were taken for characters, which showed the
/// bytes of each word the other way round.
#[test]
fn blanks_in_front_of_characters_that_are_cut_were_characters() {
    let text = "00000001: 0000 207f 0000 0000 0000 7f20            .. .";
    let bytes = [0, 0, 0x20, 0x7F, 0, 0, 0, 0, 0, 0, 0x7F, 0x20];
    let of = |text: &str| blocks(&read(Kind::HexDump, text.as_bytes(), Some(Endian::Big)));
    assert_eq!(of(text), one(1, &bytes));
    assert_eq!(of(&format!("{text}........ ")), one(1, &bytes), "with all of them");
}

#[test]
fn other_text_is_no_dump() {
    for text in [
        "",
        "hello\n",
        "12:30:45 started\n",
        "seq\tname\n1\tx\n",
        ":1",
        "S1\n",
        "20000000\n",
        "0x20000000\n",
        "0x20000000: hello\n",
        "0000000 5442 5458\n0000010\n",
        "2026-11-21: 42 42\n",
        "0x1234 in main () at x.c:1\n",
    ] {
        assert_eq!(sniff(text.as_bytes()), None, "{text:?}");
    }
    assert_eq!(sniff(b":00000001FF\n\0"), None, "no text");
    assert_eq!(sniff(b"\xEF\xBB\xBF\r\n :00000001FF \n\x1A"), Some(Kind::IntelHex));
}

#[test]
fn as_many_pieces_as_lines() {
    let text: String = (0..1_100_000u64).map(|i| format!("{:#x}: 00\n", i * 2)).collect();
    let dump = parsed(&text);
    assert_eq!(dump.blocks.len(), 1 << 18);
    assert_eq!(dump.flaws[0].wrong, Wrong::Pieces);
    assert_eq!(dump.flaws[0].count, 1_100_000 - (1 << 18));
}

prop_compose! {
    fn some_memory()(parts in prop::collection::vec((1u64..300, prop::collection::vec(any::<u8>(), 1..80)), 1..4), base in prop::sample::select(vec![0u64, 0xFF_FF00, 0x2000_0000, 0x1FFF_FFF0]))
    -> Memory {
        let mut at = base;
        parts.into_iter().map(|(gap, bytes)| {
            let start = at + gap;
            at = start + bytes.len() as u64;
            (start, bytes)
        }).collect()
    }
}

proptest! {
    #[test]
    fn what_was_written_is_read(memory in some_memory(), step in 1usize..40, which in 0usize..9, crlf in any::<bool>()) {
        let low = memory.iter().all(|(at, b)| at + (b.len() as u64) < 1 << 24);
        let mut text = match which {
            0 | 1 => ihex(&memory, step),
            2 => srec(&memory, step, 3),
            3 => srec(&memory, step, if low { 2 } else { 3 }),
            4 => dump(Tool::Xxd, &memory, 2, true),
            5 => dump(Tool::Gdb, &memory, 1, false),
            6 => dump(Tool::OpenOcd, &memory, 1, false),
            7 => dump(Tool::JLink, &memory, 1, false),
            _ => dump(Tool::HexdumpC, &memory, 1, false),
        };
        if crlf {
            text = text.replace('\n', "\r\n");
        }
        // One line of `xxd` without a letter in it does not show that its groups are bytes.
        let kind = sniff(text.as_bytes()).expect("recognized by its content");
        let dump = read(kind, text.as_bytes(), Some(Endian::Big));
        prop_assert_eq!(blocks(&dump), memory, "{}", text);
        prop_assert_eq!(flaws(&dump), Vec::<String>::new());
    }

    #[test]
    fn records_in_any_order_are_those_of_a_byte_map(records in prop::collection::vec((0u64..64, prop::collection::vec(any::<u8>(), 1..16)), 1..12)) {
        let mut model = BTreeMap::new();
        let mut text = String::new();
        for (at, bytes) in &records {
            text += &srec_record(1, *at, bytes);
            model.extend(bytes.iter().enumerate().map(|(i, b)| (at + i as u64, *b)));
        }
        let dump = parsed(&text);
        let got: BTreeMap<Addr, u8> =
            dump.blocks.iter().flat_map(|(at, b)| b.iter().enumerate().map(|(i, b)| (at + i as u64, *b)).collect::<Vec<_>>()).collect();
        prop_assert_eq!(got, model);
        for pair in dump.blocks.windows(2) {
            prop_assert!(pair[0].0 + (pair[0].1.len() as u64) < pair[1].0, "sorted, and none touches another");
        }
    }

    #[test]
    fn damage_never_panics_and_never_makes_bytes_up(
        memory in some_memory(), which in 0usize..9, cut in 0.0f64..1.0, at in 0.0f64..1.0, byte in any::<u8>(),
    ) {
        let text = match which {
            0 => ihex(&memory, 16),
            1 => srec(&memory, 16, 3),
            n => dump([Tool::Gdb, Tool::OpenOcd, Tool::JLink, Tool::UBoot, Tool::Lldb, Tool::Xxd, Tool::HexdumpC][n - 2], &memory, 1, false),
        };
        let mut bytes = text.into_bytes();
        let end = (bytes.len() as f64 * cut) as usize;
        bytes.truncate(end);
        let held = |memory: &Memory, at: Addr, byte: u8| memory.iter().any(|(start, b)| at.checked_sub(*start).and_then(|i| b.get(i as usize)).is_some_and(|b| *b == byte));
        for kind in [Kind::IntelHex, Kind::SRecord, Kind::HexDump] {
            let dump = read(kind, &bytes, Some(Endian::Big));
            // A file that is merely cut short holds nothing that is wrong.
            for (start, block) in blocks(&dump) {
                for (i, b) in block.iter().enumerate() {
                    prop_assert!(held(&memory, start + i as u64, *b), "{:?}", String::from_utf8_lossy(&bytes));
                }
            }
            let mut bad = bytes.clone();
            if let Some(slot) = bad.get_mut((end as f64 * at) as usize) {
                *slot = byte;
            }
            let dump = read(kind, &bad, None);
            let size: usize = dump.blocks.iter().map(|(_, b)| b.len()).sum();
            prop_assert!(size <= bad.len());
            let _ = sniff(&bad);
        }
    }

    #[test]
    fn garbage_never_panics(text in "[0-9a-fA-Fx:S*= <>|\n\t.]{0,300}") {
        for kind in [Kind::IntelHex, Kind::SRecord, Kind::HexDump] {
            let dump = read(kind, text.as_bytes(), Some(Endian::Big));
            prop_assert!(dump.blocks.iter().all(|(at, b)| at.checked_add(b.len() as u64 - 1).is_some()));
        }
        let _ = sniff(text.as_bytes());
    }
}
