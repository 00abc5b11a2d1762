use crate::testing::fuzz_cni;

#[test]
fn replays_the_corpus() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/cni");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        fuzz_cni(&std::fs::read(entry.unwrap().path()).unwrap());
        seen += 1;
    }
    assert!(seen >= 20, "{folder} holds {seen} inputs");
}

proptest::proptest! {
    #[test]
    fn arbitrary_input_is_answered(data in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        fuzz_cni(&data);
    }
}
