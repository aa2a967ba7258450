//! The rooms that choose events and write them, on traces built by hand.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    missing_docs
)]

#[path = "output_rooms/fixture.rs"]
mod fixture;
#[path = "output_rooms/query.rs"]
mod query;
#[path = "output_rooms/sinks.rs"]
mod sinks;
