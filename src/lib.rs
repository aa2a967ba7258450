//! `tx-trace` reads an RTOS's event-trace buffer out of a live target, a core file or a memory dump.
//!
//! The path of the bytes, each stage knowing only what stands to its left:
//!
//! ```text
//! endpoint/file -> mem (bytes at addresses) -> format (locate, capture, decode) -> trace (model) -> query -> output
//!                  sym (names to addresses) ----^          catalogue (what an id means) ----^
//! ```

pub mod abi;
pub mod analysis;
pub mod bridge;
pub mod bytes;
pub mod catalogue;
#[cfg(feature = "cli")]
pub mod cli;
pub mod code;
pub mod control;
pub mod cpu;
pub mod debugger;
pub mod elf;
pub mod error;
pub mod follow;
pub mod format;
pub mod kernel;
pub mod mem;
pub mod output;
pub mod query;
pub mod report;
pub mod rsp;
#[cfg(feature = "serve")]
pub mod serve;
pub mod session;
pub mod sym;
pub mod trace;
