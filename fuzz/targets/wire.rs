#![no_main]

libfuzzer_sys::fuzz_target!(init: fencepost_fuzz::taken::wire(), |bytes: &[u8]| fencepost_fuzz::wire(bytes));
