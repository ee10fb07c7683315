#![no_main]

libfuzzer_sys::fuzz_target!(init: fencepost_fuzz::taken::expression(), |bytes: &[u8]| fencepost_fuzz::expression(bytes));
