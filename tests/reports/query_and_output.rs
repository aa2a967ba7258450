//! The rooms that choose events and write them, on traces built by hand.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    missing_docs
)]

pub mod fixture;
mod query;
mod sinks;
