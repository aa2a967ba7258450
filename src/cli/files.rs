//! `@FILE`: options from a file, with the paths in it relative to the file.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::args;
use crate::code::Code;
use crate::error::Error;

/// How deep option files may name each other.
const DEPTH: usize = 8;
/// The largest option file that is read.
const MOST: u64 = 1 << 20;

/// Puts the words of every `@FILE` in its place, and tells which files these were.
pub fn expand(words: Vec<OsString>) -> Result<(Vec<OsString>, Vec<PathBuf>), Error> {
    let (mut out, mut read) = (Vec::with_capacity(words.len()), Vec::new());
    for word in words {
        match word.to_str().and_then(|w| w.strip_prefix('@')).filter(|p| !p.is_empty()) {
            Some(path) => insert(Path::new(path), 0, &mut out, &mut read)?,
            None => out.push(word),
        }
    }
    Ok((out, read))
}

fn insert(path: &Path, depth: usize, out: &mut Vec<OsString>, read: &mut Vec<PathBuf>) -> Result<(), Error> {
    let fail = |why: String| Error::usage(Code::OptionFile, format!("option file {}: {why}", path.display()));
    if depth >= DEPTH {
        return Err(fail(format!("option files name each other more than {DEPTH} deep")));
    }
    let size = std::fs::metadata(path).map_err(|e| fail(e.to_string()))?;
    if !size.is_file() || size.len() > MOST {
        return Err(fail(format!("not a text file of at most {MOST} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|e| fail(e.to_string()))?;
    if text.contains('\0') {
        return Err(fail("not a text file".to_owned()));
    }
    read.push(path.to_owned());
    let dir = path.parent().unwrap_or(Path::new(""));
    let options = args::options_with_values();
    // What the word before said of the next one: nothing, a plain value, or a path.
    let mut value: Option<bool> = None;
    for word in split(&text).map_err(fail)? {
        let word = if let Some(is_path) = value.take() {
            if is_path { relative(dir, &word) } else { word.into() }
        } else if let Some(inner) = word.strip_prefix('@') {
            insert(&dir.join(inner), depth.saturating_add(1), out, read)?;
            continue;
        } else if let Some((option, given)) = word.split_once('=').filter(|(o, _)| o.starts_with("--")) {
            match options.iter().find(|(name, _)| name == option) {
                Some((_, true)) => {
                    let mut joined = OsString::from(format!("{option}="));
                    joined.push(relative(dir, given));
                    joined
                }
                _ => word.into(),
            }
        } else if let Some((_, is_path)) = options.iter().find(|(name, _)| *name == word) {
            value = Some(*is_path);
            word.into()
        } else if word.starts_with('-') || word.bytes().all(|b| b.is_ascii_digit()) || is_command(&word) {
            word.into()
        } else {
            relative(dir, &word)
        };
        out.push(word);
    }
    Ok(())
}

/// A command's name may stand in an option file too.
fn is_command(word: &str) -> bool {
    args::commands().iter().any(|c| c == word)
}

fn relative(dir: &Path, path: &str) -> OsString {
    if path == "-" { path.into() } else { PathBuf::from(dir).join(path).into_os_string() }
}

/// Splits text into words: blanks separate, quotes and a backslash keep them, `#` at the start of a word begins a
/// comment.
pub fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut chars = line.chars().peekable();
        loop {
            while chars.next_if(|c| c.is_whitespace()).is_some() {}
            match chars.peek() {
                None | Some('#') => break,
                Some(_) => {}
            }
            let mut word = String::new();
            let mut quote = None;
            while let Some(c) = chars.next_if(|c| quote.is_some() || !c.is_whitespace()) {
                match (c, quote) {
                    (c, Some(q)) if c == q => quote = None,
                    ('\'' | '"', None) => quote = Some(c),
                    ('\\', None | Some('"')) => word.extend(chars.next()),
                    (c, _) => word.push(c),
                }
            }
            if quote.is_some() {
                return Err(format!("line {}: a quote is not closed", number.saturating_add(1)));
            }
            words.push(word);
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_quotes_and_comments() {
        assert_eq!(split("--elf 'a b.elf' # no\n--symbol x=1").unwrap(), ["--elf", "a b.elf", "--symbol", "x=1"]);
        assert_eq!(split("a\\ b \"c d\"").unwrap(), ["a b", "c d"]);
        assert!(split("'open").is_err());
    }

    #[test]
    fn paths_are_relative_to_the_file() {
        let dir = std::env::temp_dir().join(format!("tx-trace-files-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("x.source");
        std::fs::write(&file, "--image ram.bin@0x20000000\n--symbol a=0x10 --elf=/abs/x.elf dump.bin 50\n").unwrap();
        let mut at = OsString::from("@");
        at.push(&file);
        let (words, read) = expand(vec!["last".into(), at]).unwrap();
        assert_eq!(read, [file]);
        let image = dir.join("ram.bin@0x20000000").into_os_string();
        let dump = dir.join("dump.bin").into_os_string();
        let expected: Vec<OsString> = vec![
            "last".into(),
            "--image".into(),
            image,
            "--symbol".into(),
            "a=0x10".into(),
            "--elf=/abs/x.elf".into(),
            dump,
            "50".into(),
        ];
        assert_eq!(words, expected);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
