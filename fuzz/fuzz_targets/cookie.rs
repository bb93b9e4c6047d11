#![no_main]

#[path = "../texts.rs"]
#[allow(dead_code)]
mod texts;

libfuzzer_sys::fuzz_target!(|data: &[u8]| texts::cookie(data));
