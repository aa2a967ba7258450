//! As much of JSON as a machine protocol's answers need: the members of one object, and strings.

/// The members of the object that a line holds: names, and values as they are written. `None` where it is no object.
pub(super) fn members(line: &[u8]) -> Option<Vec<(String, &[u8])>> {
    let mut rest = skip(line).strip_prefix(b"{")?;
    let mut all = Vec::new();
    loop {
        rest = skip(rest);
        if rest.starts_with(b"}") {
            return Some(all);
        }
        if !all.is_empty() {
            rest = skip(rest.strip_prefix(b",")?);
        }
        let len = value(rest)?;
        let name = string(rest.get(..len)?)?;
        rest = skip(skip(rest.get(len..)?).strip_prefix(b":")?);
        let len = value(rest)?;
        all.push((name, rest.get(..len)?));
        rest = rest.get(len..)?;
    }
}

/// The text of a string.
pub(super) fn string(value: &[u8]) -> Option<String> {
    let inner = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let text = std::str::from_utf8(inner).ok()?;
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next()? {
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'u' => {
                let digits: String = chars.by_ref().take(4).collect();
                if digits.len() != 4 {
                    return None;
                }
                // Half of a surrogate pair is no character; nothing that is read here needs the other half.
                out.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?).unwrap_or('\u{fffd}'));
            }
            c => out.push(c),
        }
    }
    Some(out)
}

fn skip(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii_start()
}

/// Bytes of the value at the start: a string, or all up to the comma or the bracket that ends it.
fn value(bytes: &[u8]) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for (i, b) in bytes.iter().enumerate() {
        if quoted {
            match b {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    quoted = false;
                    if depth == 0 {
                        return i.checked_add(1);
                    }
                }
                _ => {}
            }
            continue;
        }
        match b {
            b'"' => quoted = true,
            b'{' | b'[' => depth = depth.checked_add(1)?,
            b'}' | b']' if depth == 0 => return Some(i),
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return i.checked_add(1);
                }
            }
            b',' if depth == 0 => return Some(i),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_strings() {
        let line = br#"{"return": "a\r\n\"b\\", "x": {"y": [1, "}"]}, "n": -1.5}"#;
        let all = members(line).unwrap();
        let names: Vec<&str> = all.iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(names, ["return", "x", "n"]);
        assert_eq!(string(all[0].1).unwrap(), "a\r\n\"b\\");
        assert_eq!(members(all[1].1).unwrap()[0].1, br#"[1, "}"]"#);
        assert_eq!(all[2].1, b"-1.5");
        assert_eq!(string(br#""\u0041\t""#).unwrap(), "A\t");
    }

    #[test]
    fn what_is_no_object_is_none() {
        for line in [
            &b""[..],
            b"{",
            b"[1]",
            b"{\"a\"",
            b"{\"a\":",
            b"{\"a\": \"",
            b"{\"a\": 1",
            b"{1: 2}",
            b"{\"a\": 1 \"b\": 2}",
            b"}",
        ] {
            assert!(members(line).is_none(), "{}", line.escape_ascii());
        }
        assert_eq!(members(b"{}").unwrap(), []);
        for value in [&b""[..], b"\"", b"\"a", b"a\"", b"\"\\\"", b"\"\\u12\"", b"\"\xff\""] {
            assert_eq!(string(value), None, "{}", value.escape_ascii());
        }
    }
}
