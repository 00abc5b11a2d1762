//! Converse: a BGP-4 speaker, and the trait by which a node uses it or another one.
//!
//! | You want | Take |
//! |---|---|
//! | sessions with real peers | `NativeBackend` (feature `tokio`): apply a [`DesiredBgp`], read [`BgpEvent`]s |
//! | an agent without BGP, or a test double | [`RecordingBackend`] |
//! | BIRD instead, 2.0.12 or upstream's 1.6 | [`bird`]: `BirdBackend` (feature `tokio`), or its configuration and its control socket alone |
//! | another daemon behind the same seam | implement [`BgpBackend`], run the conformance suite (feature `testing`) |
//! | the protocol in your own event loop | [`Speaker`]: bytes, connections and time in; bytes, routes and deadlines out |
//! | only the messages | [`wire`] |
//! | a dead path noticed in a fraction of a second | [`bfd`] |
//!
//! ```text
//! DesiredBgp ─▶ BgpBackend ─▶ runtime (sockets, clock; feature tokio)
//!                               │ bytes, time          ▲ actions, bytes, deadline
//!                               ▼                      │
//!                             Speaker ── session (states, collision, graceful restart, timers)
//!                               │  └──── rib (import, decision, export, update groups)
//!                               ▼
//!                             wire (messages, RFC 7606)
//! ```
//!
//! Scope: sessions with all that [`SessionParameters`](calico_core::bgp::SessionParameters) say, over IPv4, IPv6 and link-local addresses,
//! peers by range, changes by difference; IPv4 and IPv6 unicast, in one session or two; internal and external sessions, route reflection, filters, export policy,
//! communities, roles, several paths to one prefix (in both directions), route refresh with its markers, graceful restart in both roles and
//! its long-lived form. What was received is kept as it came, so that another filter needs no refresh; [`Speaker::explain`] says for a
//! prefix what became of each path and why each peer hears of it or does not.
//! Deliberate deviations:
//!
//! | From | What | Why |
//! |---|---|---|
//! | RFC 4724 4.2 | routes that are stale when the peer restarts a second time stay, up to the first restart's deadline | an agent killed twice in a row must not cut off its pods |
//! | RFC 4724 4.2 | routes of a peer that is back are kept for at most 360 s, and never beyond what the first loss allows | a peer that never finishes must not keep them for ever |
//! | RFC 8538 | is offered only if the configuration says so | a host that is dead must not be sent packets for the restart time beyond the hold time |
//! | RFC 9234 4.2 | a peer that tells no role is taken | strict mode is nobody's wish yet |
//! | RFC 9494 4.2 | the long-lived time is the lower of the peer's and the configured one; none is kept without the latter | who runs this host knows for how long a last resort is one |
//! | RFC 4724 4.1 | own prefixes are announced and learned routes reported at once; only the end-of-RIB and the removal of old routes wait | neither can do harm, and a host that is down must not delay a mesh |
//! | RFC 4271 6.8 | a session Established for less than two seconds still takes part in collision resolution | both ends come to the same answer |
//! | RFC 7606 3 | wrong flags of AS4_PATH, AS4_AGGREGATOR and AIGP discard the attribute, too | nothing that is sent on depends on them |
//! | RFC 4271 5 | of attributes that are only passed on, what exceeds 4096 octets for one path is discarded | memory that a peer can fill is bounded |
//! | RFC 4271 4.3 | an AS_PATH of more than 1024 systems is treated as withdraw | filters and the decision walk paths |
//! | RFC 4271 8 | the retry timer starts at half a second | a mesh converges as fast as its slowest pair |
//! | RFC 4271 9.2.1.1 | no pause between two announcements of one prefix | what changes while a peer reads is said once anyway |
//! | RFC 4271 9.1.2 | next hops are resolved by the kernel, so that their cost decides nothing | the agent does not read the kernel's routes |
//! | RFC 5082 | everything is sent with a TTL of 255, on external sessions, too | either end may ask for TTL security, and upstream's sessions are all multihop |
//! | upstream | hold time 90 s instead of BIRD's 240 s | a dead host blackholes its pods for as long |
//! | upstream | both ends of a mesh session connect; one has a head start | either end may be the one that restarts |
//!
//! For review: nothing outside `runtime`, `bfd::runtime`, `bird::backend`, the socket of `bird::client` and `clock` may know sockets, tasks or clocks; nothing may grow with what a peer sends except by
//! the number of its prefixes; every way to end a session must say what becomes of the routes.
//!
//! [`DesiredBgp`]: calico_core::bgp::DesiredBgp

mod backend;
pub mod bfd;
pub mod bird;
#[cfg(feature = "tokio")]
mod clock;
mod random;
mod rib;
#[cfg(feature = "tokio")]
mod runtime;
mod session;
mod speaker;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod time;
mod timer;
pub mod wire;

pub use backend::{
    Agreed, BgpBackend, BgpError, BgpEvent, BgpStatus, LearnedRoute, MessageCounts, PeerStatus, RecordingBackend,
    SessionDetails, SessionState,
};
pub use rib::{Explanation, Fate, PathReport, Refusal, Step, Told, Withheld};
#[cfg(feature = "tokio")]
pub use runtime::{NativeBackend, NativeConfig};
pub use session::transport::{ListenKey, Listening, Transport};
pub use speaker::{Action, ConnectionId, Speaker, SpeakerConfig};
pub use time::Timestamp;
