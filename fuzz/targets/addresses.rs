#![no_main]

libfuzzer_sys::fuzz_target!(init: fencepost_fuzz::taken::addresses(), |bytes: &[u8]| fencepost_fuzz::addresses(bytes));
