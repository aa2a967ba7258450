//! Text from a target is hostile: it may hold control bytes that move a cursor, or marks that turn a line around.

use unicode_width::UnicodeWidthChar;

/// True for characters that must not reach a terminal as they are: controls (C0, DEL, C1), invisible characters and
/// those that change the direction of text.
pub const fn is_hostile(c: char) -> bool {
    matches!(c,
        '\0'..='\x1f' | '\x7f'..='\u{9f}'
        | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// True where the text is printable ASCII from end to end: most names are, and nothing needs to be done to them.
pub fn is_plain(text: &str) -> bool {
    // Eight bytes at a time, the last of which may be looked at twice: every name is asked for every event.
    let bytes = text.as_bytes();
    let (chunks, rest) = bytes.as_chunks();
    let rest_is_plain = || match bytes.last_chunk() {
        Some(last) => are_plain(*last),
        None => rest.iter().all(|b| matches!(b, b' '..=b'~')),
    };
    chunks.iter().all(|chunk| are_plain(*chunk)) && rest_is_plain()
}

/// The same of eight bytes: each is ASCII, not below a space, and not DEL.
const fn are_plain(bytes: [u8; 8]) -> bool {
    const TOP: u64 = u64::from_ne_bytes([0x80; 8]);
    const SPACES: u64 = u64::from_ne_bytes([b' '; 8]);
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let word = u64::from_ne_bytes(bytes);
    // No byte carries into its neighbour: ASCII plus one is at most 0x80, and from 0x80 to 0xff minus a space stays positive.
    word & TOP == 0 && word.wrapping_add(ONES) & TOP == 0 && (word | TOP).wrapping_sub(SPACES) & TOP == TOP
}

/// Adds the text with hostile characters spelled out: `\x1b`, `\u{202e}`. True where it is plain, and nothing was spelled out.
pub fn escape_into(text: &str, out: &mut String) -> bool {
    if is_plain(text) {
        out.push_str(text);
        return true;
    }
    for c in text.chars() {
        match c {
            c if !is_hostile(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if u32::from(c) < 0x100 => {
                out.push_str("\\x");
                let code = u32::from(c);
                out.extend(char::from_digit((code >> 4) & 0xF, 16));
                out.extend(char::from_digit(code & 0xF, 16));
            }
            c => out.extend(c.escape_unicode()),
        }
    }
    false
}

/// The text with hostile characters spelled out.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape_into(text, &mut out);
    out
}

/// Columns that a character takes in a terminal. Marks that combine are counted as one, as not every terminal combines
/// them: a line may come out shorter than thought, never longer.
pub fn columns(c: char) -> usize {
    UnicodeWidthChar::width(c).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_is_printable_ascii() {
        for byte in 0..=0x7f_u8 {
            for (before, after) in [(0, 0), (0, 7), (3, 4), (7, 0), (8, 0), (9, 11)] {
                let text = [" ".repeat(before), char::from(byte).to_string(), "~".repeat(after)].concat();
                assert_eq!(is_plain(&text), (b' '..=b'~').contains(&byte), "{text:?}");
            }
        }
        assert!(is_plain("") && !is_plain("abcdefg\u{e4}") && !is_plain("\u{fffd}abcdefgh"));
    }

    #[test]
    fn hostile_text_is_spelled_out() {
        assert_eq!(escape("a\x1b[31mb\u{9b}c"), "a\\x1b[31mb\\x9bc");
        assert_eq!(escape("x\u{202e}y\u{200b}"), "x\\u{202e}y\\u{200b}");
        assert_eq!(escape("l1\nl2\r\t\0"), "l1\\nl2\\r\\t\\x00");
        assert_eq!(escape("Wächter \u{fffd} 温度"), "Wächter \u{fffd} 温度");
    }
}
