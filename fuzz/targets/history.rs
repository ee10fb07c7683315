#![no_main]

libfuzzer_sys::fuzz_target!(init: fencepost_fuzz::taken::history(), |bytes: &[u8]| fencepost_fuzz::history(bytes));
