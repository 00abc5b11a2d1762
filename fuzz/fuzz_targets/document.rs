#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| calico_datastore::testing::fuzz_document(data));
