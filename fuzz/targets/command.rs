#![no_main]

libfuzzer_sys::fuzz_target!(init: fencepost_fuzz::taken::command(), |bytes: &[u8]| fencepost_fuzz::command(bytes));
