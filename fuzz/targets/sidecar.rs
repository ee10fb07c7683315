#![no_main]

libfuzzer_sys::fuzz_target!(init: fencepost_fuzz::taken::sidecar(), |bytes: &[u8]| fencepost_fuzz::sidecar(bytes));
