#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| calico_dataplane::testing::fuzz::netlink_decode(data));
