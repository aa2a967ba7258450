//! GDB's remote protocol: the client against stubs of every kind, over every kind of link, and over bad lines.
#![allow(missing_docs, clippy::restriction, reason = "tests say what they expect by failing")]

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod round_trips;
mod rsp_client;
mod rsp_faults;
mod rsp_links;
mod rsp_order;
mod rsp_real;
