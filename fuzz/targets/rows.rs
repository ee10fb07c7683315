#![no_main]

libfuzzer_sys::fuzz_target!(init: fencepost_fuzz::taken::rows(), |bytes: &[u8]| fencepost_fuzz::rows(bytes));
