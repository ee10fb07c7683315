#![no_main]

libfuzzer_sys::fuzz_target!(init: fencepost_fuzz::taken::store(), |bytes: &[u8]| fencepost_fuzz::store(bytes));
