//! Memory and threads in XML and JSON, as debuggers read them.

use serde::Serialize;

use super::ThreadList;
use crate::mem::Region;

/// The most regions of memory that are listed; of more none is, and a debugger finds out by reading.
const MAX_REGIONS: usize = 4096;
/// What a thread stopped by.
const SIGTRAP: u8 = 5;

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

/// A thread in LLDB's list.
#[derive(Serialize)]
struct ThreadInfo<'a> {
    tid: usize,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<u8>,
}

/// `jThreadsInfo`, LLDB's list of threads: the first is the one that stopped.
pub fn threads_json(list: &ThreadList) -> String {
    let threads = list.threads().iter().enumerate().map(|(index, thread)| {
        let (reason, signal) = if index == 0 { (Some("signal"), Some(SIGTRAP)) } else { (None, None) };
        ThreadInfo { tid: thread.id, name: &thread.name, reason, signal }
    });
    // Numbers and text do not fail.
    serde_json::to_string(&threads.collect::<Vec<_>>()).unwrap_or_default()
}

/// Text inside XML. Control characters are spelled out in it already ([`ListedThread`](super::ListedThread)).
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&apos;")
}
