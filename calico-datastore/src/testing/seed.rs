//! Where the randomness of this crate's own tests begins.

use calico_core::testing::Random;

/// Begins where `CALICO_TEST_SEED` says, so that a test that failed can be repeated; without it anywhere. Prints it.
pub(crate) fn random() -> Random {
    let given = std::env::var("CALICO_TEST_SEED").ok();
    let seed =
        given.map_or_else(|| std::process::id().into(), |text| text.parse().expect("CALICO_TEST_SEED is a number"));
    eprintln!("CALICO_TEST_SEED={seed}");
    Random::new(seed)
}
