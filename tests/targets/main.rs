//! Targets that run, real servers and real debuggers: what is read of them, what is shown, and how they are left.
#![allow(missing_docs, clippy::restriction, reason = "tests say what they expect by failing")]

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod big_endian;
mod bridge;
mod control;
mod crashes;
mod examples;
mod explain_bare;
mod explain_halts;
mod explain_live;
mod fault_registers;
mod floats;
mod follow;
mod follow_openocd;
mod follow_overrun;
mod follow_signals;
mod gdb;
mod info_live;
mod live_docs;
mod openocd;
mod openocd_leave;
mod openocd_memory;
mod pyocd;
mod same_events;
mod serve;
mod stub_registers;
