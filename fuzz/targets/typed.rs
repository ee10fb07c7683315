#![no_main]

libfuzzer_sys::fuzz_target!(init: fencepost_fuzz::taken::typed(), |bytes: &[u8]| fencepost_fuzz::typed(bytes));
