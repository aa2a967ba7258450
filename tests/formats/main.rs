//! What the bytes mean: the traces of ThreadX, TI UIA and QNX, the kernel's objects, the names in an ELF.
#![allow(missing_docs, clippy::restriction, reason = "tests say what they expect by failing")]

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod damage;
mod differential;
mod firmware_counts;
mod frames_by_code;
mod kernel;
mod linux_port;
mod mem_real_core;
mod mem_real_elf;
mod members_real;
mod qnx_cli;
mod qnx_real;
mod qnx_ring;
mod roundtrip;
mod saved_frames;
mod silent_damage;
mod thread_frames;
mod threadx_clock;
mod threadx_coherence;
mod threadx_cores;
mod threadx_header;
mod threadx_page;
mod threadx_pauses;
mod threadx_real;
mod threadx_traces;
mod uia_cli;
mod uia_loggers;
mod uia_real;
mod user_events;
mod visit;
