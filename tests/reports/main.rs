//! Reports and output, on traces whose truth is known.
#![allow(missing_docs, clippy::restriction, reason = "tests say what they expect by failing")]

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod columns_in_schema;
mod explain_circles;
mod explain_crashes;
mod explain_damaged_blocks;
mod explain_earlier_run;
mod explain_failures;
mod explain_jumps;
mod explain_overwritten;
mod explain_rates;
mod explain_resumes;
mod explain_stalls;
mod explain_tick_clock;
mod explain_time_outs;
mod explain_trace_alone;
mod explain_trace_faults;
mod explain_trace_rounds;
mod lost_events;
mod query_and_output;
mod report_clock;
mod report_latency;
mod report_qnx;
mod report_stats;
mod report_waits;
mod timeline;
mod tracex_numbers;
mod tracker;
