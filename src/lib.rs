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
//! The modules below are public with the feature `internals`, for this package's own tests, benches and fuzz
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

/// Every module but `library` and `sys`. Public, and so visible from outside where the crate's root re-exports it.
#[path = "."]
mod modules {
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
    pub mod explain;
    pub mod follow;
    pub mod format;
    pub mod kernel;
    pub mod mem;
    pub mod near;
    pub mod output;
    pub mod query;
    pub mod report;
    pub mod rsp;
    #[cfg(feature = "serve")]
    pub mod serve;
    pub mod session;
    pub mod setup;
    pub mod sym;
    pub mod timeline;
    pub mod trace;
    pub mod unwind;
}

#[cfg(feature = "internals")]
pub use modules::*;
#[cfg(not(feature = "internals"))]
use modules::*;

mod sys;

mod library;

pub use analysis::Name as ReportName;
pub use catalogue::Catalogue;
pub use code::Code;
pub use error::{Error, ErrorKind};
pub use mem::{Memory, ReadError, Region};
pub use output::escape;
pub use report::{Cell, Column, Report, Rows, ThreadTime};
pub use rsp::Endpoint;
pub use session::{Borrowed, Inputs, Loaded, Target, TargetInfo};
pub use trace::{Event, Issue, Severity, Trace};

/// The command line of this process.
#[cfg(feature = "cli")]
#[doc(hidden)]
pub fn main() -> std::process::ExitCode {
    cli::main()
}
