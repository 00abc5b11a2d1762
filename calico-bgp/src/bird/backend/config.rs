//! Where BIRD is, and what it is told beside the desired state.

use core::time::Duration;
use std::path::PathBuf;

use calico_core::net::Family;

use crate::bird::{BirdSettings, Dialect};

/// How to start a [`BirdBackend`](super::BirdBackend). The paths of the default are upstream's.
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals over the default")]
pub struct BirdConfig {
    /// The daemon of both families (BIRD 2), or of IPv4 (1.6).
    pub daemon: BirdPaths,
    /// The daemon of IPv6 (1.6 only).
    pub daemon6: BirdPaths,
    /// Which BIRD is meant; none asks it.
    pub generation: Option<Generation>,
    /// What it is told beside the desired state.
    pub settings: BirdSettings,
    /// Learned routes are reported. Off by default: BIRD gives them to the kernel itself.
    pub report_routes: bool,
    /// Pause between two looks at it.
    pub poll: Duration,
    /// Longest wait for one answer: to read a long configuration takes BIRD a while.
    pub answer: Duration,
}

/// Where one daemon is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct BirdPaths {
    /// The program; it need not be there if the daemon runs elsewhere.
    pub program: PathBuf,
    /// Its configuration.
    pub config: PathBuf,
    /// Its control socket.
    pub socket: PathBuf,
}

/// Generations of BIRD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the two that are spoken here")]
pub enum Generation {
    /// 2.
    Two,
    /// 1.6.
    OneSix,
}

impl Default for BirdConfig {
    fn default() -> Self {
        let paths = |name: &str| BirdPaths {
            program: name.into(),
            config: format!("/etc/calico/confd/config/{name}.cfg").into(),
            socket: format!("/var/run/calico/{name}.ctl").into(),
        };
        Self {
            daemon: paths("bird"),
            daemon6: paths("bird6"),
            generation: None,
            settings: BirdSettings::default(),
            report_routes: false,
            poll: Duration::from_secs(1),
            answer: Duration::from_secs(10),
        }
    }
}

impl BirdConfig {
    /// The daemons of a generation, each with its dialect.
    pub(super) fn daemons(&self, generation: Generation) -> Vec<(BirdPaths, Dialect)> {
        match generation {
            Generation::Two => vec![(self.daemon.clone(), Dialect::Two)],
            Generation::OneSix => vec![
                (self.daemon.clone(), Dialect::OneSix { family: Family::V4 }),
                (self.daemon6.clone(), Dialect::OneSix { family: Family::V6 }),
            ],
        }
    }
}

impl Generation {
    /// Of a version: `2.0.12`, `1.6.8`, `v0.3.3+birdv1.6.8`.
    pub(super) fn of(version: &str) -> Self {
        if version.starts_with("1.") || version.contains("birdv1.") || version.starts_with("v0.") {
            Self::OneSix
        } else {
            Self::Two
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_by_version() {
        for version in ["1.6.8", "v0.3.3+birdv1.6.8", "v0.3.3-211-g9111ec3c"] {
            assert_eq!(Generation::of(version), Generation::OneSix, "{version}");
        }
        for version in ["2.0.12", "2.16.1", "3.1.0", ""] {
            assert_eq!(Generation::of(version), Generation::Two, "{version}");
        }
    }
}
