//! Memory and threads in XML and JSON, as debuggers read them.

use super::ThreadList;
use crate::mem::Region;

/// The most regions of memory that are listed; of more none is, and a debugger finds out by reading.
const MAX_REGIONS: usize = 4096;

/// The memory map; empty where the source does not know what it has.
pub fn memory_map_xml(regions: Option<&[Region]>) -> String {
    let Some(regions) = regions.filter(|r| r.len() <= MAX_REGIONS) else { return String::new() };
    let mut xml = String::from("<?xml version=\"1.0\"?>\n<memory-map>\n");
    for region in regions {
        // Read-only to a debugger, whatever it was on the target.
        xml.push_str(&format!("<memory type=\"rom\" start=\"{:#x}\" length=\"{:#x}\"/>\n", region.start, region.len));
    }
    xml.push_str("</memory-map>\n");
    xml
}

/// `qXfer:threads:read`. `process`: what precedes the number of a thread (`p1.`), or nothing.
pub fn threads_xml(list: &ThreadList, process: &str) -> String {
    let mut xml = String::from("<?xml version=\"1.0\"?>\n<threads>\n");
    for thread in list.threads() {
        xml.push_str(&format!("<thread id=\"{process}{:x}\"", thread.id));
        if !thread.name.is_empty() {
            xml.push_str(&format!(" name=\"{}\"", escape(&thread.name)));
        }
        xml.push_str(&format!(">{}</thread>\n", escape(&thread.extra)));
    }
    xml.push_str("</threads>\n");
    xml
}

/// The part of a document that `OFFSET,LENGTH` of a `qXfer` packet asks for, at most `most` bytes of it.
pub fn piece(document: &str, window: &str, most: usize) -> Vec<u8> {
    let number = |text: &str| usize::from_str_radix(text, 16).ok();
    let Some((offset, len)) = window.split_once(',').and_then(|(o, l)| number(o).zip(number(l))) else {
        return b"E00".to_vec();
    };
    let rest = document.as_bytes().get(offset..).unwrap_or_default();
    let part = rest.get(..len.min(most)).unwrap_or(rest);
    [if part.len() < rest.len() { b"m" } else { b"l" }, part].concat()
}

/// `jThreadsInfo`, LLDB's list of threads: the first is the one that stopped.
pub fn threads_json(list: &ThreadList) -> String {
    let mut json = String::from("[");
    for (index, thread) in list.threads().iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let name =
            if thread.name.is_empty() { String::new() } else { format!(",\"name\":\"{}\"", quote(&thread.name)) };
        let reason = if index == 0 { ",\"reason\":\"signal\",\"signal\":5" } else { "" };
        json.push_str(&format!("{comma}{{\"tid\":{}{name}{reason}}}", thread.id));
    }
    json.push(']');
    json
}

/// Text inside XML.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

/// Text inside a JSON string.
fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out
}
