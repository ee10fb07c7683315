#![no_main]

libfuzzer_sys::fuzz_target!(init: fencepost_fuzz::taken::guard(), |bytes: &[u8]| fencepost_fuzz::guard(bytes));
