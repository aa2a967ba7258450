//! `tx-trace` reads an RTOS's event-trace buffer out of a live target, a core file or a memory dump.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures"))?;
//! let trace = tx_trace::Target::open(["cm3.elf", "cm3.core"])?.trace()?;
//! for event in trace.events() {
//!     println!("{} {} {}", event.ticks, trace.context_name(&event), trace.event_name(&event));
//! }
//! let stats = trace.report(tx_trace::ReportName::Stats)?;
//! # assert!(trace.events().count() > 0 && !stats.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! A live target is read through its debug server, and left as it was found:
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tx_trace::{Endpoint, Inputs, Target};
//!
//! let mut target = Target::open(Inputs::new().elf("app.elf").remote(Endpoint::parse(":3333")?))?;
//! let newest = target.last(50)?;
//! # let _ = newest;
//! # Ok(())
//! # }
//! ```
//!
//! Memory of your own goes in by [`Memory`] and [`Inputs::over`]: see `examples/memory.rs`. Text from a target is hostile:
//! [`escape`] it before it is printed. Every [`Error`] has a stable code and, where another error caused it, its source:
//!
//! ```
//! let error = tx_trace::Target::open("no-such.core").err().unwrap();
//! assert_eq!(error.code.name(), "file");
//! ```
//!
//! The modules behind this page are public with the feature `internals`, for this package's own tests, benches and fuzz
//! targets. They change without notice.
#![cfg_attr(
    not(feature = "internals"),
    allow(
        dead_code,
        unused_imports,
        rustdoc::private_intra_doc_links,
        reason = "internals are public for tests, benches and fuzz targets alone"
    )
)]

#[cfg(feature = "internals")]
pub mod abi;
#[cfg(feature = "internals")]
pub mod analysis;
#[cfg(feature = "internals")]
pub mod bridge;
#[cfg(feature = "internals")]
pub mod bytes;
#[cfg(feature = "internals")]
pub mod catalogue;
#[cfg(all(feature = "cli", feature = "internals"))]
pub mod cli;
#[cfg(feature = "internals")]
pub mod code;
#[cfg(feature = "internals")]
pub mod control;
#[cfg(feature = "internals")]
pub mod cpu;
#[cfg(feature = "internals")]
pub mod debugger;
#[cfg(feature = "internals")]
pub mod elf;
#[cfg(feature = "internals")]
pub mod error;
#[cfg(feature = "internals")]
pub mod explain;
#[cfg(feature = "internals")]
pub mod follow;
#[cfg(feature = "internals")]
pub mod format;
#[cfg(feature = "internals")]
pub mod kernel;
#[cfg(feature = "internals")]
pub mod mem;
#[cfg(feature = "internals")]
pub mod near;
#[cfg(feature = "internals")]
pub mod output;
#[cfg(feature = "internals")]
pub mod query;
#[cfg(feature = "internals")]
pub mod report;
#[cfg(feature = "internals")]
pub mod rsp;
#[cfg(all(feature = "serve", feature = "internals"))]
pub mod serve;
#[cfg(feature = "internals")]
pub mod session;
#[cfg(feature = "internals")]
pub mod setup;
#[cfg(feature = "internals")]
pub mod sym;
#[cfg(feature = "internals")]
pub mod timeline;
#[cfg(feature = "internals")]
pub mod trace;
#[cfg(feature = "internals")]
pub mod unwind;

mod sys;

#[cfg(not(feature = "internals"))]
mod abi;
#[cfg(not(feature = "internals"))]
mod analysis;
#[cfg(not(feature = "internals"))]
mod bridge;
#[cfg(not(feature = "internals"))]
mod bytes;
#[cfg(not(feature = "internals"))]
mod catalogue;
#[cfg(all(feature = "cli", not(feature = "internals")))]
mod cli;
#[cfg(not(feature = "internals"))]
mod code;
#[cfg(not(feature = "internals"))]
mod control;
#[cfg(not(feature = "internals"))]
mod cpu;
#[cfg(not(feature = "internals"))]
mod debugger;
#[cfg(not(feature = "internals"))]
mod elf;
#[cfg(not(feature = "internals"))]
mod error;
#[cfg(not(feature = "internals"))]
mod explain;
#[cfg(not(feature = "internals"))]
mod follow;
#[cfg(not(feature = "internals"))]
mod format;
#[cfg(not(feature = "internals"))]
mod kernel;
#[cfg(not(feature = "internals"))]
mod mem;
#[cfg(not(feature = "internals"))]
mod near;
#[cfg(not(feature = "internals"))]
mod output;
#[cfg(not(feature = "internals"))]
mod query;
#[cfg(not(feature = "internals"))]
mod report;
#[cfg(not(feature = "internals"))]
mod rsp;
#[cfg(all(feature = "serve", not(feature = "internals")))]
mod serve;
#[cfg(not(feature = "internals"))]
mod session;
#[cfg(not(feature = "internals"))]
mod setup;
#[cfg(not(feature = "internals"))]
mod sym;
#[cfg(not(feature = "internals"))]
mod timeline;
#[cfg(not(feature = "internals"))]
mod trace;
#[cfg(not(feature = "internals"))]
mod unwind;

mod library;

pub use analysis::Name as ReportName;
pub use catalogue::Catalogue;
pub use code::Code;
pub use error::{Error, ErrorKind};
pub use mem::{Memory, ReadError, Region};
pub use output::escape;
pub use report::{Cell, Column, Report, ThreadTime};
pub use rsp::Endpoint;
pub use session::{Borrowed, Inputs, Loaded, Target, TargetInfo};
pub use trace::{Event, Issue, Severity, Trace};

/// The command line of this process.
#[cfg(feature = "cli")]
#[doc(hidden)]
pub fn main() -> std::process::ExitCode {
    cli::main()
}
