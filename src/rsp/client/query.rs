//! What a stub reports beside memory: load offsets, the auxiliary vector, the memory map, monitor commands.

use super::Client;
use super::reply;
use crate::abi::Addr;
use crate::rsp::error::RspError;
use crate::rsp::packet::from_hex;

/// The most bytes of one `qXfer` object.
pub(super) const MAX_OBJECT: usize = 4 << 20;

/// Where the program was loaded, as the stub says (`qOffsets`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offsets {
    /// What is added to addresses of the code; where `segments`, the address at which its segment is.
    pub text: Addr,
    /// The same for data, where it is given.
    pub data: Option<Addr>,
    /// The numbers are addresses of segments (`TextSeg=`), not distances (`Text=`).
    pub segments: bool,
}

/// What a stub says about a range of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapKind {
    /// Can be written. OpenOCD calls everything that is not flash so, existing or not.
    Ram,
    /// Cannot be written.
    Rom,
    /// Can be programmed.
    Flash,
}

/// A range of memory in the stub's map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapRegion {
    /// What it is.
    pub kind: MapKind,
    /// First address.
    pub start: Addr,
    /// Number of bytes.
    pub len: u64,
}

impl Client {
    /// The auxiliary vector of a process (`AT_ENTRY` gives where a PIE was loaded), in the target's byte order and word
    /// width. `None` where the stub does not offer it, as on bare metal.
    ///
    /// # Errors
    /// Of the link only.
    pub fn auxv(&mut self) -> Result<Option<Vec<u8>>, RspError> {
        self.object("auxv", "", "qXfer:auxv:read")
    }

    /// The memory map, where the stub has one. OpenOCD fills the gaps between flash banks with RAM that need not exist:
    /// it shows what is flash, not what can be read.
    ///
    /// # Errors
    /// Of the link only.
    pub fn memory_map(&mut self) -> Result<Option<Vec<MapRegion>>, RspError> {
        let xml = self.object("memory-map", "", "qXfer:memory-map:read")?;
        Ok(xml.map(|xml| map_regions(&String::from_utf8_lossy(&xml))))
    }

    /// Where the program was loaded; `None` where the stub does not say (QEMU system, gdbserver).
    ///
    /// # Errors
    /// Of the link only.
    pub fn offsets(&mut self) -> Result<Option<Offsets>, RspError> {
        let answer = self.link.ask(b"qOffsets", &|b| b.is_empty() || reply::is_error(b) || b.starts_with(b"Text"))?;
        Ok(parse_offsets(&String::from_utf8_lossy(&answer)))
    }

    /// Runs a command of the stub's own (`monitor COMMAND` in GDB) and returns what it printed; `None` where the stub
    /// has no such commands.
    ///
    /// # Errors
    /// Of the link only: a command that fails prints that.
    pub fn monitor(&mut self, command: &str) -> Result<Option<String>, RspError> {
        Ok(self.link.monitor(command)?.text())
    }

    /// The general registers of the CPU or thread that stopped (`g`), in the target's byte order; `None` for a byte
    /// that the stub does not know, and for a stub that gives none.
    ///
    /// # Errors
    /// Of the link only.
    pub fn registers(&mut self) -> Result<Option<Vec<Option<u8>>>, RspError> {
        let answer = self.link.ask(b"g", &reply::is_registers)?;
        Ok(reply::known_registers(&answer))
    }

    /// Asks for the registers together with the memory that is read next: on a stub that takes several requests at once
    /// they cost no round trip. [`Client::registers_seen`] has them then.
    pub const fn want_registers(&mut self) {
        // Another client of the link may have chosen another thread.
        self.wants_registers = !self.link.shared;
    }

    /// The registers that came with memory, as [`Client::registers`] has them; they are given once. `None` where the stub
    /// takes one request at a time, or gives none.
    pub const fn registers_seen(&mut self) -> Option<Vec<Option<u8>>> {
        self.wants_registers = false;
        self.registers_seen.take()
    }

    /// The thread whose registers the stub gives, by its answer to `?`: a number that may be the address of a control block, as
    /// `serve` and OpenOCD's RTOS support count threads. `None` where the target has run since.
    pub fn selected_thread(&self) -> Option<u64> {
        let thread = reply::thread(&self.stop_reason).filter(|_| !self.found_running)?;
        u64::from_str_radix(thread, 16).ok()
    }

    /// True where a debugger at the other end holds the target: to ask it costs no packet to a probe.
    pub const fn is_held(&self) -> bool {
        self.held
    }

    /// The registers that a debugger at the other end knows, by its names for them; empty for any other stub.
    ///
    /// # Errors
    /// Of the link only.
    pub fn named_registers(&mut self) -> Result<Vec<(String, u64)>, RspError> {
        if !self.held {
            return Ok(Vec::new());
        }
        let accept = |b: &[u8]| b.is_empty() || reply::is_error(b) || from_hex(b).is_some();
        let answer = self.link.ask(b"qTxTraceRegisters", &accept)?;
        let text = from_hex(&answer).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let register = |line: &str| {
            let (name, value) = line.split_once('=')?;
            Some((name.to_owned(), u64::from_str_radix(value, 16).ok()?))
        };
        Ok(text.lines().filter_map(register).collect())
    }

    /// A document that the stub sends in pieces: `qXfer:NAME:read:ANNEX:`.
    pub(super) fn object(&mut self, name: &str, annex: &str, feature: &str) -> Result<Option<Vec<u8>>, RspError> {
        if !self.features().has(feature) {
            return Ok(None);
        }
        let mut object = Vec::new();
        while object.len() < MAX_OBJECT {
            let request = format!("qXfer:{name}:read:{annex}:{:x},{:x}", object.len(), self.max_chunk.max(64));
            let accept = |b: &[u8]| b.is_empty() || reply::is_error(b) || matches!(b.first(), Some(b'm' | b'l'));
            let answer = self.link.ask(request.as_bytes(), &accept)?;
            match answer.split_first() {
                Some((b'l', rest)) => {
                    object.extend_from_slice(rest);
                    return Ok(Some(object));
                }
                Some((b'm', rest)) if !rest.is_empty() => object.extend_from_slice(rest),
                _ => return Ok(None),
            }
        }
        Ok(None)
    }
}

fn parse_offsets(text: &str) -> Option<Offsets> {
    let field = |wanted: &str| {
        let value = text.split(';').find_map(|entry| entry.split_once('=').filter(|(name, _)| *name == wanted));
        value.and_then(|(_, value)| Addr::from_str_radix(value, 16).ok())
    };
    if let Some(text) = field("TextSeg") {
        return Some(Offsets { text, data: field("DataSeg"), segments: true });
    }
    Some(Offsets { text: field("Text")?, data: field("Data"), segments: false })
}

/// The value of an attribute inside an XML tag.
pub(super) fn attribute<'a>(inside: &'a str, name: &str) -> Option<&'a str> {
    let is_whole = |before: &str| before.is_empty() || before.ends_with(char::is_whitespace);
    let place = format!("{name}=");
    let at = inside.match_indices(&place).find(|(at, _)| inside.get(..*at).is_some_and(is_whole)).map(|(at, _)| at)?;
    let (_, value) = inside.get(at..)?.split_once('=')?;
    let quote = value.chars().next().filter(|q| matches!(q, '"' | '\''))?;
    value.split(quote).nth(1)
}

/// The `<memory ...>` elements of a memory map. Nothing else of it is of use, so this is no XML parser.
fn map_regions(xml: &str) -> Vec<MapRegion> {
    let element = |tail: &str| {
        let inside = tail.split('>').next()?;
        let number = |name: &str| {
            let text = attribute(inside, name)?;
            match text.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).ok(),
                None => text.parse().ok(),
            }
        };
        let kind = match attribute(inside, "type")? {
            "ram" => MapKind::Ram,
            "rom" => MapKind::Rom,
            "flash" => MapKind::Flash,
            _ => return None,
        };
        Some(MapRegion { kind, start: number("start")?, len: number("length")? })
    };
    xml.split("<memory ").skip(1).filter_map(element).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_offsets() {
        assert_eq!(
            parse_offsets("Text=400000;Data=400000;Bss=400000"),
            Some(Offsets { text: 0x40_0000, data: Some(0x40_0000), segments: false })
        );
        assert_eq!(parse_offsets("TextSeg=1000"), Some(Offsets { text: 0x1000, data: None, segments: true }));
        assert_eq!(parse_offsets(""), None);
        assert_eq!(parse_offsets("E01"), None);
    }

    #[test]
    fn a_map_in_either_quotes() {
        let xml = "<?xml version=\"1.0\"?><memory-map><memory type=\"flash\" start=\"0x8000000\" length=\"0x100000\">\
                   <property name=\"blocksize\">0x4000</property></memory>\
                   <memory type='ram' start='536870912' length='4096'/><memory start=''/></memory-map>";
        assert_eq!(
            map_regions(xml),
            [
                MapRegion { kind: MapKind::Flash, start: 0x800_0000, len: 0x10_0000 },
                MapRegion { kind: MapKind::Ram, start: 0x2000_0000, len: 4096 },
            ]
        );
    }
}
