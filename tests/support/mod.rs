//! What several test files share.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test file uses a part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests say what they expect by failing"
)]

pub mod builder;
pub mod decode;
pub mod dice;
pub mod flat;
pub mod generate;
#[cfg(feature = "cli")]
pub mod golden;
pub mod kernel;
pub mod qnx;
pub mod simulated;
pub mod threadx;
pub mod uia;

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
