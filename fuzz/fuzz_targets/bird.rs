#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| calico_bgp::testing::fuzz_bird(data));
