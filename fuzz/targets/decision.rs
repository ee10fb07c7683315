#![no_main]

libfuzzer_sys::fuzz_target!(init: fencepost_fuzz::taken::decision(), |bytes: &[u8]| fencepost_fuzz::decision(bytes));
