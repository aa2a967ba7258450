//! Texts: the names of modules and events that a program keeps in its own tables.
//!
//! An event's id is the offset of its text in a table of characters; with bit 15 set an id is the number of a node with
//! a left and a right part, each of them such an id again.

#![expect(clippy::arithmetic_side_effects, reason = "counts to small limits")]

use std::collections::HashMap;

use super::format_string::{self, MAX_TEXT};
use super::order::Order;
use crate::abi::{Addr, Endian, Width};
use crate::bytes::Bytes;
use crate::mem::{Memory, Region};
use crate::sym::Symbols;

/// The table of characters.
const CHARS: &str = "xdc_runtime_Text_charTab__A";
/// The table of nodes, of two 16-bit ids each.
const NODES: &str = "xdc_runtime_Text_nodeTab__A";
/// 0 where the texts were left out of the program.
const LOADED: &str = "xdc_runtime_Text_isLoaded__C";
/// Mark of an id that is a node.
const NODE: u16 = 0x8000;
/// How deep parts may have parts.
const MAX_DEPTH: usize = 8;
/// The longest string that is read.
const MAX_STRING: usize = 128;
/// The most strings that are read for names, and again for arguments.
const MAX_STRINGS: usize = 512;
/// The format string of what is printed: its first argument.
const PRINTED: &str = "%$S";

/// Where the texts of a program are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Tables {
    /// No symbols say.
    #[default]
    None,
    /// They are not in the program.
    LeftOut,
    /// At the start of the characters, and of the nodes of ropes.
    At { chars: Addr, nodes: Option<Addr> },
}

impl Tables {
    fn of(memory: &mut dyn Memory, symbols: &dyn Symbols) -> Self {
        let Some(chars) = symbols.lookup(CHARS) else { return Self::None };
        let loaded = symbols.lookup(LOADED).and_then(|s| memory.read_bytes(s.address, 2).ok());
        if loaded.is_some_and(|b| b.iter().all(|b| *b == 0)) {
            return Self::LeftOut;
        }
        Self::At { chars: chars.address, nodes: symbols.lookup(NODES).map(|s| s.address) }
    }

    /// Where the text or the node of an id is.
    fn address(self, id: u16) -> Option<Addr> {
        let Self::At { chars, nodes } = self else { return None };
        if id & NODE == 0 { chars.checked_add(id.into()) } else { nodes?.checked_add(u64::from(id & !NODE) << 2) }
    }
}

/// The texts that a program's records name.
#[derive(Debug, Clone)]
pub(super) struct Texts {
    pub tables: Tables,
    strings: HashMap<Addr, String>,
    nodes: HashMap<u16, (u16, u16)>,
    /// What was read.
    pub regions: Vec<Region>,
    /// Width of an argument.
    word: Width,
}

impl Texts {
    fn new(tables: Tables, word: Width) -> Self {
        Self { tables, strings: HashMap::new(), nodes: HashMap::new(), regions: Vec::new(), word }
    }

    /// Reads the names of the modules and events that the records have, and the strings that their arguments point to.
    pub fn read(
        memory: &mut dyn Memory,
        symbols: &dyn Symbols,
        order: &Order,
        (endian, word): (Endian, Width),
    ) -> Self {
        let mut texts = Self::new(Tables::of(memory, symbols), word);
        if !texts.has_tables() {
            return texts;
        }
        let ids = order.records.iter().filter_map(|r| r.ids(&order.bytes, endian));
        let mut ids: Vec<u16> =
            ids.flat_map(|(event, module)| [Some(event), Some(module).filter(|m| m & NODE != 0)]).flatten().collect();
        ids.sort_unstable();
        ids.dedup();
        // Parts name parts: a few rounds, each one batch.
        let _ = (0..MAX_DEPTH).all(|_| texts.read_parts(memory, &ids, endian));
        // Format strings in arguments name further arguments.
        let _ = (0..2).all(|_| texts.read_arguments(memory, order, endian, word));
        texts
    }

    /// True where the program's tables are known.
    pub const fn has_tables(&self) -> bool {
        matches!(self.tables, Tables::At { .. })
    }

    /// Reads the parts that are missing; true where one was read.
    fn read_parts(&mut self, memory: &mut dyn Memory, ids: &[u16], endian: Endian) -> bool {
        let mut missing = Vec::new();
        ids.iter().for_each(|id| self.missing(*id, 0, &mut missing));
        missing.sort_unstable();
        missing.dedup();
        missing.truncate(MAX_STRINGS);
        let placed = missing.into_iter().filter_map(|id| Some((id, self.tables.address(id)?)));
        let (parts, strings): (Vec<_>, Vec<_>) = placed.partition(|(id, _)| id & NODE != 0);
        let wanted: Vec<(Addr, usize)> = parts.iter().map(|(_, at)| (*at, 4)).collect();
        let mut any = false;
        for ((id, at), bytes) in parts.iter().zip(memory.read_batch(&wanted)) {
            let Ok(bytes) = bytes else { continue };
            any = true;
            self.add_node(*id, *at, &bytes, endian);
        }
        let strings: Vec<Addr> = strings.iter().map(|(_, at)| *at).collect();
        self.read_strings(memory, &strings) || any
    }

    /// Reads the strings that arguments point to; true where one was read.
    fn read_arguments(&mut self, memory: &mut dyn Memory, order: &Order, endian: Endian, word: Width) -> bool {
        let mut wanted: Vec<Addr> = Vec::new();
        for r in &order.records {
            let Some((event, _)) = r.ids(&order.bytes, endian) else { continue };
            let format = if event == 0 { Some(PRINTED.to_owned()) } else { self.rope(event) };
            if let Some(format) = format.filter(|f| format_string::takes_strings(f)) {
                wanted.extend(self.print(&format, &r.words(&order.bytes, endian, word)).1);
            }
            if wanted.len() > 4 * MAX_STRINGS {
                break;
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        wanted.retain(|a| self.at(*a).is_none());
        wanted.truncate(MAX_STRINGS);
        self.read_strings(memory, &wanted)
    }

    /// Reads strings; what follows their end need not be readable. True where one was read.
    fn read_strings(&mut self, memory: &mut dyn Memory, wanted: &[Addr]) -> bool {
        let batch: Vec<(Addr, usize)> = wanted.iter().map(|a| (*a, MAX_STRING)).collect();
        let mut any = false;
        for (address, result) in wanted.iter().zip(memory.read_batch(&batch)) {
            let bytes = match result {
                Ok(bytes) => Some(bytes),
                Err(e) if e.is_fatal() => return any,
                Err(_) => to_the_end(memory, *address),
            };
            let Some(bytes) = bytes else { continue };
            any = true;
            self.add_text(*address, &bytes);
        }
        any
    }

    fn add_text(&mut self, address: Addr, bytes: &[u8]) {
        self.regions.push(Region { start: address, len: bytes.len() as u64 });
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        let text = String::from_utf8_lossy(bytes.get(..end).unwrap_or(&[])).into_owned();
        self.strings.insert(address, text);
    }

    fn add_node(&mut self, id: u16, address: Addr, bytes: &[u8], endian: Endian) {
        self.regions.push(Region { start: address, len: bytes.len() as u64 });
        if let Some(parts) = endian.u16(bytes, 0).zip(endian.u16(bytes, 2)) {
            self.nodes.insert(id, parts);
        }
    }

    /// The string at an address.
    pub fn at(&self, address: Addr) -> Option<&str> {
        self.strings.get(&address).map(String::as_str)
    }

    /// The text of an id, all its parts put together.
    pub fn rope(&self, id: u16) -> Option<String> {
        let mut out = String::new();
        self.parts(id, 0, &mut out)?;
        Some(out).filter(|t| !t.is_empty())
    }

    fn parts(&self, id: u16, depth: usize, out: &mut String) -> Option<()> {
        if depth > MAX_DEPTH || out.len() > MAX_TEXT {
            return None;
        }
        if id & NODE == 0 {
            out.push_str(self.at(self.tables.address(id)?)?);
            return Some(());
        }
        let (left, right) = self.nodes.get(&id).copied()?;
        self.parts(left, depth + 1, out)?;
        self.parts(right, depth + 1, out)
    }

    /// Ids of parts whose text or parts are not here yet.
    fn missing(&self, id: u16, depth: usize, out: &mut Vec<u16>) {
        if depth > MAX_DEPTH {
            return;
        }
        match self.nodes.get(&id) {
            Some((left, right)) => {
                self.missing(*left, depth + 1, out);
                self.missing(*right, depth + 1, out);
            }
            None if id & NODE == 0 && self.tables.address(id).and_then(|at| self.at(at)).is_some() => {}
            None => out.push(id),
        }
    }

    /// The name of a module; `None` for a number that the program did not name.
    pub fn module(&self, id: u16) -> Option<String> {
        if id & NODE == 0 { None } else { self.rope(id) }
    }

    /// What a format string makes of its arguments, and the addresses of strings among them.
    fn print(&self, format: &str, args: &[u64]) -> (String, Vec<Addr>) {
        format_string::print(format, args, self.word, |address| self.at(address))
    }

    /// What a format string makes of its arguments.
    pub fn say(&self, format: &str, args: &[u64]) -> String {
        self.print(format, args).0
    }
}

/// A string near the end of readable memory: read in smaller and smaller parts.
fn to_the_end(memory: &mut dyn Memory, address: Addr) -> Option<Bytes> {
    let mut all: Vec<u8> = Vec::new();
    for len in [64, 32, 16, 8, 4, 2, 1] {
        if let Ok(part) = memory.read_bytes(address.checked_add(all.len() as u64)?, len) {
            all.extend_from_slice(&part);
            if part.contains(&0) {
                break;
            }
        }
    }
    (!all.is_empty()).then(|| Bytes::from(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts() -> Texts {
        let mut texts = Texts::new(Tables::At { chars: 0x1000, nodes: Some(0x2000) }, Width::W4);
        texts.add_text(0x1001, b"ti.sysbios.knl.\0");
        texts.add_text(0x1011, b"Task\0");
        texts.add_text(0x5000, b"value %d of %s\0");
        texts.add_text(0x5100, b"sensor\0");
        texts.add_text(0x5200, b"main.c\0");
        texts.add_node(0x8001, 0x2004, &[0x01, 0, 0x11, 0], Endian::Little);
        texts.add_node(0x8002, 0x2008, &[0x02, 0x80, 0x02, 0x80], Endian::Little);
        texts
    }

    #[test]
    fn parts_are_put_together_and_circles_end() {
        assert_eq!(texts().module(0x8001).as_deref(), Some("ti.sysbios.knl.Task"));
        assert_eq!(texts().rope(0x8002), None, "a node that names itself");
        assert_eq!(texts().module(0x11), None, "an unnamed module");
    }

    #[test]
    fn format_strings_take_their_arguments() {
        let say = |f: &str, a: &[u64]| texts().say(f, a);
        assert_eq!(say("a %d b 0x%08x %u%%", &[0xFFFF_FFFE, 0xAB, 7]), "a -2 b 0x000000ab 7%");
        assert_eq!(say("%$F%$S!", &[0x5200, 42, 0x5000, 5, 0x5100]), "main.c:42: value 5 of sensor!");
        assert_eq!(say("%-4d|%4d|%04d", &[7, 7, 0xFFFF_FFF9]), "7   |   7|-007");
        assert_eq!(say("100% %q %", &[]), "100% %q %");
        assert_eq!(say("%h of %h %x", &[0x0028_0060, 1]), "96 of 40 1");
        assert_eq!(say("%hd %lx", &[3, 4]), "3 4");
    }

    #[test]
    fn an_argument_that_was_not_recorded_was_printed_as_0() {
        let say = |f: &str, a: &[u64]| texts().say(f, a);
        assert_eq!(say("%s %d", &[0x9999]), "0x9999 ?");
        assert_eq!(say("%$F%$S", &[0x5200]), "main.c:?: ?");
    }
}
