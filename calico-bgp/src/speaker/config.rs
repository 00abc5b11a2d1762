//! Parameters of a speaker that are not part of the desired state.

use core::time::Duration;

/// How a speaker behaves. The defaults are for a node in a mesh.
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals over the default")]
pub struct SpeakerConfig {
    /// Hold time to propose where a session says nothing else, in seconds; 0 for none, otherwise at least 3. Default 90, the RFC's suggestion. (Upstream leaves
    /// BIRD's 240, so that a dead host blackholes its pods for four minutes; the lower of both ends counts, so mixed clusters
    /// work.)
    pub hold_time: u16,
    /// Seconds that peers should keep our routes while we restart; at most 4095. Default 120, as upstream.
    pub restart_time: u16,
    /// Whether this start may be a restart: peers are told so, and keep what they know of us. Default true, as upstream.
    pub restarting: bool,
    /// Whether a NOTIFICATION and silence are offered to count as restarts, too (RFC 8538). Default false, as BIRD: addresses that several
    /// hosts announce would lead to a dead one for the restart time beyond the hold time.
    pub notification_restarts: bool,
    /// Whether packets are forwarded while no speaker runs. True (the default) where kernel routes outlive the process.
    pub forwarding_preserved: bool,
    /// Longest wait for the peers' end-of-RIB after a start. A host that is down delays the removal of stale routes by this
    /// much and nothing else. Default 120 s.
    pub deferral: Duration,
    /// Longest wait for the end-of-RIB of a peer that came back. Default 360 s: above BIRD's own deferral of 240 s.
    pub stale_time: Duration,
    /// Head start of the end whose address is the greater text (upstream's rule: that end opens the connection). The
    /// other end still connects if nothing came by then, so that either may restart. Default 1 s.
    pub passive_delay: Duration,
    /// Most prefixes of one family that a peer may announce before its session is closed, where its parameters do not say. Default
    /// 200 000, far above a mesh's blocks.
    pub maximum_prefixes: u32,
    /// Wait after a session had too many prefixes. Default 300 s: more sessions only bring the same again.
    pub maximum_prefixes_pause: Duration,
    /// Whether messages of up to 65 535 octets are offered (RFC 8654). Default true.
    pub extended_messages: bool,
    /// Seed of all jitter.
    pub seed: u64,
}

impl Default for SpeakerConfig {
    fn default() -> Self {
        Self {
            hold_time: 90,
            restart_time: 120,
            restarting: true,
            notification_restarts: false,
            forwarding_preserved: true,
            deferral: Duration::from_secs(120),
            stale_time: Duration::from_secs(360),
            passive_delay: Duration::from_secs(1),
            maximum_prefixes: 200_000,
            maximum_prefixes_pause: Duration::from_secs(300),
            extended_messages: true,
            seed: 0,
        }
    }
}
