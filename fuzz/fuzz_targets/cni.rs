#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| calico_core::testing::fuzz_cni(data));
