#![no_main]

libfuzzer_sys::fuzz_target!(init: fencepost_fuzz::taken::http(), |bytes: &[u8]| fencepost_fuzz::http(bytes));
