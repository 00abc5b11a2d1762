//! What a configuration needs beside the desired state.

use core::net::Ipv4Addr;

use calico_core::net::{Family, InterfaceName};

/// Which BIRD reads the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the dialects that are written; matched exhaustively")]
pub enum Dialect {
    /// BIRD 2, from 2.0.12 on: one daemon.
    Two,
    /// Upstream's BIRD 1.6: a daemon for each family.
    OneSix {
        /// That of this daemon.
        family: Family,
    },
}

impl Dialect {
    /// Families of routes that this daemon has.
    pub(super) fn families(self) -> impl Iterator<Item = Family> {
        [Family::V4, Family::V6].into_iter().filter(move |family| self.is_told_of(*family))
    }

    /// Whether sessions between addresses of a family are this daemon's.
    pub(super) fn is_told_of(self, family: Family) -> bool {
        match self {
            Self::Two => true,
            Self::OneSix { family: own } => own == family,
        }
    }
}

/// What the configuration says beside the desired state.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built with literals over the default")]
pub struct BirdSettings {
    /// Where BIRD logs; none leaves it to its command line.
    pub log: Option<BirdLog>,
    /// How much it logs of its protocols.
    pub log_level: BirdLogLevel,
    /// Router id as long as the desired state has none.
    pub router_id: Ipv4Addr,
    /// How routes reach the kernel; none if BIRD must not touch it.
    pub kernel: Option<KernelSettings>,
    /// Interfaces whose networks count for nothing, `*` standing for any text.
    pub ignored_interfaces: Vec<String>,
    /// Hold time in seconds of sessions that say none; 0, or 3 and more. Default 90, as the native speaker.
    pub hold_time: u16,
    /// Restart time in seconds of sessions that say none.
    pub restart_time: u16,
    /// Most prefixes of one family that a peer may announce, of sessions that say nothing.
    pub maximum_prefixes: u32,
    /// Seconds that a daemon that was started anew waits for its peers' routes before it settles (with `bird -R`).
    pub recovery: u16,
}

impl Default for BirdSettings {
    fn default() -> Self {
        Self {
            log: None,
            log_level: BirdLogLevel::default(),
            router_id: Ipv4Addr::LOCALHOST,
            kernel: Some(KernelSettings::default()),
            ignored_interfaces: vec!["cali*".into(), "kube-ipvs*".into()],
            hold_time: 90,
            restart_time: 120,
            maximum_prefixes: 200_000,
            recovery: 120,
        }
    }
}

/// Where BIRD logs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BirdLog {
    /// Standard error.
    Stderr,
    /// Syslog.
    Syslog,
    /// A file. One whose name BIRD cannot read (it has a quotation mark or a line break) is not written to.
    File(String),
}

/// How much BIRD logs of its protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum BirdLogLevel {
    /// Errors.
    Quiet,
    /// Changes of state.
    #[default]
    Info,
    /// Everything.
    Debug,
}

/// How routes reach the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built with literals over the default")]
pub struct KernelSettings {
    /// Routing table; none means the main one.
    pub table: Option<u32>,
    /// Metric of learned routes.
    pub metric: KernelMetric,
    /// The device of pools with tunnels.
    pub tunnel: InterfaceName,
}

/// Metric of learned routes in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "both must be written")]
pub enum KernelMetric {
    /// Upstream's: what LOCAL_PREF says, and that of ordinary routes without it. BIRD before 2.16 leaves a route's copy of the old metric in the
    /// kernel when it changes.
    Priority,
    /// The same for all.
    Fixed(u32),
}

impl Default for KernelSettings {
    fn default() -> Self {
        Self { table: None, metric: KernelMetric::Priority, tunnel: tunnel() }
    }
}

/// `tunl0`, the kernel's own IP-in-IP device.
fn tunnel() -> InterfaceName {
    "tunl0".parse().unwrap_or(InterfaceName::LOOPBACK)
}
