#![no_main]

libfuzzer_sys::fuzz_target!(init: fencepost_fuzz::taken::file(), |bytes: &[u8]| fencepost_fuzz::file(bytes));
