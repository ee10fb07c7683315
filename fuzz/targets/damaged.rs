#![no_main]

libfuzzer_sys::fuzz_target!(init: fencepost_fuzz::taken::damaged(), |bytes: &[u8]| fencepost_fuzz::damaged(bytes));
