//! The page around the data: its policy, its style, its program.

use std::io::{self, Write};

use sha2::{Digest, Sha256};

use super::pack;

const BODY: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");

/// The program, in the order in which its parts name each other.
const PROGRAM: [&str; 15] = [
    "\"use strict\";\n",
    include_str!("page/codec.js"),
    include_str!("page/store.js"),
    include_str!("page/track.js"),
    include_str!("page/words.js"),
    include_str!("page/dom.js"),
    include_str!("page/view.js"),
    include_str!("page/heat.js"),
    include_str!("page/draw.js"),
    include_str!("page/overview.js"),
    include_str!("page/labels.js"),
    include_str!("page/search.js"),
    include_str!("page/panel.js"),
    include_str!("page/input.js"),
    include_str!("page/main.js"),
];

/// What comes before the data. Only this style and this program run; nothing is loaded from anywhere.
pub(super) fn start(out: &mut impl Write) -> io::Result<()> {
    let (style, program) = (hash(&[STYLE])?, hash(&PROGRAM)?);
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src '{program}'; \
         style-src '{style}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <!-- Made by tx-trace. This page holds contents of a target's memory. -->\n\
         <title>tx-trace</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{BODY}"
    )
}

/// One block of data.
pub(super) fn block(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(b"<script type=\"application/octet-stream\" class=\"block\">")?;
    pack::base64(out, &pack::deflate(bytes)?)?;
    out.write_all(b"</script>\n")
}

/// What comes after the data: `head` is JSON.
pub(super) fn end(out: &mut impl Write, head: &str) -> io::Result<()> {
    out.write_all(b"<script type=\"application/json\" id=\"head\">")?;
    json(out, head)?;
    out.write_all(b"</script>\n<script type=\"module\">")?;
    PROGRAM.iter().try_for_each(|part| out.write_all(part.as_bytes()))?;
    out.write_all(b"</script>\n</body>\n</html>\n")
}

/// Writes JSON so that nothing in it ends the element that it is in.
fn json(out: &mut impl Write, text: &str) -> io::Result<()> {
    let mut from = 0;
    for (at, found) in text.match_indices(['<', '>', '&']) {
        out.write_all(text.get(from..at).unwrap_or_default().as_bytes())?;
        for c in found.chars() {
            write!(out, "\\u{:04x}", u32::from(c))?;
        }
        from = at.saturating_add(found.len());
    }
    out.write_all(text.get(from..).unwrap_or_default().as_bytes())
}

/// As a policy names what may run.
fn hash(parts: &[&str]) -> io::Result<String> {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part.as_bytes()));
    let mut text = b"sha256-".to_vec();
    pack::base64(&mut text, &hash.finalize())?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
