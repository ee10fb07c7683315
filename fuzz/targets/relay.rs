#![no_main]

libfuzzer_sys::fuzz_target!(init: fencepost_fuzz::taken::relay(), |bytes: &[u8]| fencepost_fuzz::relay(bytes));
