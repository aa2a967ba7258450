//! `@FILE`: options from a file, with the paths in it relative to the file.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::commands;
use super::values;
use crate::code::Code;
use crate::error::{Error, reason};

/// How deep option files may name each other.
const MAX_DEPTH: usize = 8;
/// The largest option file that is read, in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// Puts the words of every `@FILE` in its place, and returns the paths of these files beside them.
pub(super) fn expand(words: Vec<OsString>) -> Result<(Vec<OsString>, Vec<PathBuf>), Error> {
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
    if depth >= MAX_DEPTH {
        return Err(fail(format!("option files name each other more than {MAX_DEPTH} deep")));
    }
    let size = std::fs::metadata(path).map_err(|e| fail(reason(&e)))?;
    if !size.is_file() || size.len() > MAX_SIZE {
        return Err(fail(format!("not a text file of at most {MAX_SIZE} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|e| fail(reason(&e)))?;
    if text.contains('\0') {
        return Err(fail("not a text file".to_owned()));
    }
    read.push(path.to_owned());
    let dir = path.parent().unwrap_or(Path::new(""));
    let options = commands::options_with_values();
    let is_path = |option: &str| options.iter().find(|(name, _)| name == option).map(|(_, is_path)| *is_path);
    // What the word before takes: nothing, a plain value, or a path.
    let mut takes = None;
    for word in split(&text).map_err(fail)? {
        if let Some(is_path) = takes.take() {
            out.push(if is_path { relative(dir, &word) } else { word.into() });
        } else if let Some(inner) = word.strip_prefix('@') {
            insert(&dir.join(inner), depth.saturating_add(1), out, read)?;
        } else if let Some((option, value)) = word.split_once('=').filter(|(o, _)| is_path(o) == Some(true)) {
            let mut joined = OsString::from(format!("{option}="));
            joined.push(relative(dir, value));
            out.push(joined);
        } else {
            takes = is_path(&word);
            let plain = word.starts_with('-') || values::is_number(word.as_ref()) || commands::row(&word).is_some();
            out.push(if plain { word.into() } else { relative(dir, &word) });
        }
    }
    Ok(())
}

fn relative(dir: &Path, path: &str) -> OsString {
    if path == "-" || path.starts_with("-@") { path.into() } else { PathBuf::from(dir).join(path).into_os_string() }
}

/// Splits text into words as a shell does: blanks separate, quotes and a backslash keep them, `#` at the start of a word
/// begins a comment. A quote ends in its line.
pub(super) fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut lexer = shlex::Shlex::new(line);
        words.extend(&mut lexer);
        if lexer.had_error {
            return Err(format!("line {}: a quote is not closed", number.saturating_add(1)));
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
