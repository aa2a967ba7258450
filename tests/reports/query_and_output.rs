//! The modules that choose events and write them, on traces built by hand.

pub mod fixture;
mod query;
mod sinks;
