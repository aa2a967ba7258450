#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tx_trace_fuzz::unwind(data);
});
