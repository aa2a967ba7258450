//! The user's surroundings.

use std::env::var_os;
use std::path::PathBuf;

/// Where a user's programs keep their files; where that is unknown, the variables that could say it.
///
/// # Errors
/// The names of the variables.
pub fn data_home() -> Result<PathBuf, &'static str> {
    let dir = |name: &str| var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let home = dir("XDG_DATA_HOME").or_else(|| Some(dir("HOME")?.join(".local/share")));
    home.ok_or("neither HOME nor XDG_DATA_HOME")
}

/// True for a terminal without colours.
pub fn is_plain_terminal() -> bool {
    var_os("TERM").is_none_or(|terminal| terminal == "dumb")
}
