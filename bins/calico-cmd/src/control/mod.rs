//! The agent's control socket: how other programs of this host talk to `calico-node`.
//!
//! A Unix stream socket, mode 0600, on which both sides write one JSON document per line. A request carries the protocol version, an
//! id chosen by the client, and a verb; the answer carries the same id and either `ok` or `error`. Unknown members are ignored on
//! both sides, unknown verbs and versions are answered with an error, so old and new programs understand each other.
//!
//! A connection on which nothing is asked for a minute is closed, and so is the longest idle one when the agent has no place left for a
//! newcomer. A client that keeps one for later must be ready to connect again.
//!
//! ```text
//! → {"v":1,"id":1,"verb":"wait-endpoint","namespace":"default","name":"h1-cni-c1-eth0","timeout_ms":5000}
//! ← {"v":1,"id":1,"ok":{"kind":"enforced"}}
//! ```

mod bgp;
mod client;
mod protocol;

pub use bgp::{BgpExplanation, PathFate, PathReport, PeerDetails, PeerHears, PeerReport, RouteAttributes, ToldReport};
pub use client::{Client, ControlError};
pub use protocol::{
    Answer, Attachment, DatastoreState, EndpointProblems, ErrorCode, Failure, MAX_LINE, MOST_ROUTES, NodeStatus, Reply,
    Request, RouteReport, RouteSource, Success, VERSION, Verb,
};

/// Where the agent listens unless told otherwise.
pub const DEFAULT_SOCKET: &str = "/var/run/calico/calico-node.sock";
/// Environment variable that overrides [`DEFAULT_SOCKET`], for the agent and its clients alike.
pub const SOCKET_ENV: &str = "CALICO_NODE_SOCKET";
