#![no_main]

libfuzzer_sys::fuzz_target!(init: fencepost_fuzz::taken::log(), |bytes: &[u8]| fencepost_fuzz::log(bytes));
