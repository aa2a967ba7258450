//! The head of the document: what was read, of which program, and when.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::bytes::hex;
use crate::cli::{info, inputs_kept};
use crate::session::{Inputs, Target};
use crate::trace::Trace;

/// The name of a source as people read it.
pub fn source(name: &str) -> &str {
    if name == "stdio:" { info::DEBUGGER } else { name }
}

/// The lines of the head. Costs no read of a live target but that of the kernel's version.
pub fn read(target: &mut Target<'_>, trace: &Trace) -> Vec<(&'static str, String)> {
    let kind = match (target.name(), target.is_live()) {
        ("stdio:", _) => "",
        (_, true) => " (live target)",
        (_, false) => " (file)",
    };
    let mut facts = vec![("source", format!("{}{kind}", source(target.name())))];
    if let Some(elf) = target.elf() {
        let file = target.elf_file().and_then(Path::file_name);
        let name = file.map(|name| format!("{}, ", name.display())).unwrap_or_default();
        facts.push(("ELF", format!("{name}{}", elf.describe())));
        let id = elf.build_id().map(|id| hex(&id));
        facts.push(("build id", id.unwrap_or_else(|| "none".to_owned())));
    }
    facts.extend(target.kernel_version().map(|version| ("kernel", version)));
    facts.push(("trace", info::fill(trace)));
    facts.push(("tool", concat!("tx-trace ", env!("CARGO_PKG_VERSION")).to_owned()));
    facts
}

/// When the bytes are from: of a live target now, of a file when it was last written. `None` where nothing shows it.
pub fn date(inputs: &Inputs, target: &Target<'_>) -> Option<String> {
    if target.is_live() {
        return Some(format!("{} (when it was read)", utc(SystemTime::now())?));
    }
    let others: Vec<&PathBuf> = inputs.elf.iter().chain(&inputs.elf_default).chain(&inputs.events).collect();
    let is_source = |file: &PathBuf| !others.contains(&file) && target.elf_file() != Some(file.as_path());
    let written = |file: PathBuf| file.metadata().ok()?.modified().ok();
    let newest = inputs_kept::files(inputs).into_iter().filter(is_source).filter_map(written).max()?;
    Some(format!("{} (when the file was last written)", utc(newest)?))
}

/// `2026-01-31 12:00:00 UTC`; `None` for a time that has no such form: a file may claim any.
fn utc(time: SystemTime) -> Option<String> {
    time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let mut text = String::new();
    write!(text, "{}", humantime::format_rfc3339_seconds(time)).ok()?;
    Some(text.replace('T', " ").replace('Z', " UTC"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_file_of_any_time() {
        let at = |seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        assert_eq!(at(1_700_000_000).and_then(utc).as_deref(), Some("2023-11-14 22:13:20 UTC"));
        assert_eq!(at(400_000_000_000).and_then(utc), None);
        assert_eq!(SystemTime::UNIX_EPOCH.checked_sub(Duration::from_secs(1)).and_then(utc), None);
    }
}
