//! Namespaces for tests.

use crate::netns::Netns;

/// A fresh namespace without a name. Nothing of it is left when the handle is dropped, or when the test is killed.
///
/// # Panics
/// When namespaces cannot be made: these tests need root, and are not skipped without it.
#[expect(clippy::panic, reason = "a test fixture: its caller is a test, which must fail and say why")]
pub fn scratch() -> Netns {
    Netns::anonymous()
        .unwrap_or_else(|error| panic!("this test makes network namespaces and must run as root: {error:?}"))
}
