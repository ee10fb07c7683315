#![no_main]

libfuzzer_sys::fuzz_target!(init: fencepost_fuzz::taken::mirror(), |bytes: &[u8]| fencepost_fuzz::mirror(bytes));
