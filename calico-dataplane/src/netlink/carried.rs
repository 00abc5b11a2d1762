//! What tests planted for a thread, for another that works for it. Nothing in programs.

#[cfg(any(test, feature = "testing"))]
use super::faults;

/// See the module.
#[derive(Debug)]
pub(crate) struct Carried {
    #[cfg(any(test, feature = "testing"))]
    planted: faults::Planted,
}

impl Carried {
    /// Takes it from the calling thread.
    pub(crate) fn take() -> Self {
        Self {
            #[cfg(any(test, feature = "testing"))]
            planted: faults::Planted::take(),
        }
    }

    /// Gives it to the calling thread.
    pub(crate) fn put(self) {
        #[cfg(any(test, feature = "testing"))]
        self.planted.put();
    }
}
