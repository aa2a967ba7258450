//! What several test files share.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::print_stderr,
    reason = "each test file uses a part"
)]

pub mod builder;
pub mod flat;

use std::path::PathBuf;

/// The folder of real traces, where it is there; a test on them skips loudly without it.
pub fn real_traces() -> Option<PathBuf> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/traces");
    if dir.is_dir() {
        return Some(dir);
    }
    eprintln!("SKIPPED: no folder of real traces");
    None
}
