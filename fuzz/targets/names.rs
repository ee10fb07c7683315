#![no_main]

libfuzzer_sys::fuzz_target!(init: fencepost_fuzz::taken::names(), |bytes: &[u8]| fencepost_fuzz::names(bytes));
