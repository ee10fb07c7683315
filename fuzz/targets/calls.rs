#![no_main]

libfuzzer_sys::fuzz_target!(init: fencepost_fuzz::taken::calls(), |bytes: &[u8]| fencepost_fuzz::calls(bytes));
