//! Limits on how many bytes a second pass an interface.
//!
//! A limit is a token bucket: `burst` bytes pass at once, `rate` bytes a second in the long run, what exceeds that waits and, when too much
//! waits, is dropped. A kernel holds back only what it sends. So what a workload receives is limited where the host sends it, at the
//! workload's interface; what it sends is led, as the host receives it, through a device that exists for nothing else, and limited there.

use alloc::format;

use sha2::{Digest, Sha512};

use crate::net::InterfaceName;

/// What holds packets back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "an identity: a new part must break every literal")]
pub struct Shaper {
    /// The interface that sends them. No two shapers share one.
    pub device: InterfaceName,
    /// The workload's interface whose received packets are led through the device, if it exists for that.
    pub source: Option<InterfaceName>,
}

/// A limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the renderer builds it with literals")]
pub struct Shaping {
    /// Where.
    pub shaper: Shaper,
    /// Bytes a second.
    pub rate: u64,
    /// Bytes at once. One packet passes in any case.
    pub burst: u32,
    /// How fast the bytes of a burst may follow each other.
    pub peak: Option<Peak>,
}

/// A second limit, within bursts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the renderer builds it with literals")]
pub struct Peak {
    /// Bytes a second; more than those of the limit that it stands beside.
    pub rate: u64,
    /// Bytes at once. One packet passes in any case.
    pub burst: u32,
}

impl Shaper {
    /// Holds back what a workload receives by its interface.
    pub const fn of_received(workload: InterfaceName) -> Self {
        Self { device: workload, source: None }
    }

    /// Holds back what a workload sends by its interface. The device is called as upstream calls it: by 36 bits of the interface's name.
    pub fn of_sent(workload: InterfaceName) -> Self {
        let digest = Sha512::digest(workload.as_str());
        let hex = digest.iter().take(5).fold(0_u64, |number, octet| number << 8 | u64::from(*octet)) >> 4;
        // 15 characters, none of them odd: always a name.
        let device = format!("{PREFIX}{hex:09x}").parse().unwrap_or(workload);
        Self { device, source: Some(workload) }
    }

    /// Whether a device of this name exists to limit what a workload sends. Whatever has such a name and is of that kind is ours.
    pub fn is_device(name: InterfaceName) -> bool {
        name.as_str().starts_with(PREFIX)
    }

    /// The workload's interface that is limited.
    pub fn workload(&self) -> InterfaceName {
        self.source.unwrap_or(self.device)
    }
}

/// Upstream's.
const PREFIX: &str = "bwcali";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_called_as_upstream_calls_them() {
        // By `printf %s cali12345 | sha512sum`.
        let shaper = Shaper::of_sent("cali12345".parse().unwrap());
        assert_eq!(shaper.device.as_str(), "bwcalice408a044");
        assert!(Shaper::is_device(shaper.device) && !Shaper::is_device(shaper.workload()));
        assert_eq!(shaper.workload().as_str(), "cali12345");
    }
}
