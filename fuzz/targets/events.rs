#![no_main]

libfuzzer_sys::fuzz_target!(init: fencepost_fuzz::taken::events(), |bytes: &[u8]| fencepost_fuzz::events(bytes));
