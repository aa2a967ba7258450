//! What the test files share: one module of each test program.
#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    unreachable_pub,
    missing_docs,
    reason = "each test program uses a part"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::precedence,
    unsafe_code,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests say what they expect by failing"
)]

/// Ends a test that cannot run here. What is missing was printed as SKIPPED.
macro_rules! require {
    ($is_there:expr) => {
        if !$is_there {
            return;
        }
    };
}

#[cfg(feature = "cli")]
pub mod browser;
pub mod builder;
pub mod children;
#[cfg(feature = "cli")]
pub mod cortex_m;
#[cfg(feature = "cli")]
pub mod damaged;
pub mod decode;
pub mod dice;
pub mod fake_stub;
pub mod faults;
pub mod flat;
pub mod generate;
#[cfg(feature = "cli")]
pub mod golden;
pub mod kernel;
#[cfg(feature = "cli")]
pub mod live_stub;
#[cfg(feature = "cli")]
pub mod machine;
pub mod openocd;
pub mod programs;
#[cfg(all(unix, feature = "cli"))]
pub mod pty;
pub mod qnx;
pub mod schema;
#[cfg(feature = "cli")]
pub mod servers;
pub mod simulated;
pub mod threadx;
#[cfg(feature = "cli")]
pub mod tools;
pub mod uia;
pub mod wait;

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
