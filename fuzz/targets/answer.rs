#![no_main]

libfuzzer_sys::fuzz_target!(init: fencepost_fuzz::taken::answer(), |bytes: &[u8]| fencepost_fuzz::answer(bytes));
