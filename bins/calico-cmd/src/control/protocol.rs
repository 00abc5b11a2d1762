//! What goes over the control socket.

use std::net::{IpAddr, Ipv4Addr};

use calico_core::net::{Cidr, InterfaceName, Mac};
use serde::{Deserialize, Serialize};

use super::bgp::{BgpExplanation, PathReport, PeerReport, ToldReport};

/// Version of the protocol; grows only when an old client could misread a new answer.
pub const VERSION: u32 = 1;

/// Longest line either side accepts, in bytes. The longest real line is a status with a few thousand peers.
pub const MAX_LINE: usize = 4 << 20;

/// Most routes of one answer, so that it fits into a line.
pub const MOST_ROUTES: usize = 4096;

/// A request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "the wire shape, built with literals on both sides")]
pub struct Request {
    /// Protocol version, [`VERSION`].
    pub v: u32,
    /// Chosen by the client, repeated in the answer.
    pub id: u64,
    /// What is asked.
    #[serde(flatten)]
    pub verb: Verb,
}

/// What a client may ask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Verb {
    /// A picture of the agent.
    Status,
    /// Answer once the endpoint's policy is in the kernel, or when time is up, with the reason why not.
    WaitEndpoint {
        /// Namespace of the WorkloadEndpoint.
        namespace: String,
        /// Name of the WorkloadEndpoint.
        name: String,
        /// What the caller attached: an endpoint of the same name that was attached before is not waited for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attachment: Option<Attachment>,
        /// How long to wait at most, in milliseconds; the agent caps it at an hour.
        timeout_ms: u64,
    },
    /// Remove a workload's interface from this host, and with it the container's end; answer once both are gone. It saves a CNI plugin
    /// the wait for the kernel to free it.
    RemoveInterface {
        /// The host's interface.
        name: String,
    },
    /// Routes of this host, sorted by destination.
    Routes {
        /// Those behind this destination; none for the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<Cidr>,
        /// How many at most; the agent gives no more than [`MOST_ROUTES`].
        most: usize,
    },
    /// Why a prefix is routed and announced as it is.
    BgpExplain {
        /// Which.
        prefix: Cidr,
    },
    /// What a BGP peer announced, sorted by prefix.
    BgpReceived {
        /// Address or name of the peer.
        peer: String,
        /// Behind this prefix; none for the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<Cidr>,
    },
    /// What a BGP peer is told, sorted by prefix.
    BgpAdvertised {
        /// Address or name of the peer.
        peer: String,
        /// Behind this prefix; none for the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<Cidr>,
    },
    /// Answer once the endpoint is gone from the kernel, or when time is up.
    WaitEndpointGone {
        /// Namespace of the WorkloadEndpoint.
        namespace: String,
        /// Name of the WorkloadEndpoint.
        name: String,
        /// How long to wait at most, in milliseconds; the agent caps it at an hour.
        timeout_ms: u64,
    },
}

/// What tells one attachment of a workload from the next, although both have the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "the wire shape, built with literals on both sides")]
pub struct Attachment {
    /// The host's interface.
    pub interface: InterfaceName,
    /// The workload's addresses.
    pub addresses: Vec<Cidr>,
    /// Ethernet address of the container's end.
    pub mac: Option<Mac>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "the wire shape, built with literals on both sides")]
pub struct Reply {
    /// Protocol version, [`VERSION`].
    pub v: u32,
    /// The request's id.
    pub id: u64,
    /// Outcome.
    #[serde(flatten)]
    pub answer: Answer,
}

/// Outcome of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::exhaustive_enums, reason = "a request succeeds or fails")]
pub enum Answer {
    /// It was done.
    Ok(Success),
    /// It was not.
    Error(Failure),
}

/// What a successful request gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Success {
    /// Of [`Verb::Status`].
    Status(Box<NodeStatus>),
    /// Of [`Verb::Routes`].
    Routes {
        /// Some of them.
        routes: Vec<RouteReport>,
        /// Whether there are others behind the last of these.
        more: bool,
    },
    /// Of [`Verb::BgpExplain`].
    BgpExplanation(Box<BgpExplanation>),
    /// Of [`Verb::BgpReceived`].
    BgpReceived {
        /// Some of them; those to one prefix are together.
        paths: Vec<PathReport>,
        /// Whether there are others behind the last of these.
        more: bool,
    },
    /// Of [`Verb::BgpAdvertised`].
    BgpAdvertised {
        /// Some of them; those to one prefix are together.
        routes: Vec<ToldReport>,
        /// Whether there are others behind the last of these.
        more: bool,
    },
    /// Of [`Verb::WaitEndpoint`].
    Enforced,
    /// Of [`Verb::WaitEndpointGone`] and [`Verb::RemoveInterface`].
    Gone,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "the wire shape, built with literals")]
pub struct Failure {
    /// For programs.
    pub code: ErrorCode,
    /// For people: what is missing, and where to look.
    pub message: String,
}

/// Kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ErrorCode {
    /// The line is no request of this protocol version.
    BadRequest,
    /// Time is up.
    Timeout,
    /// The kernel refused.
    Kernel,
    /// There is no such thing here.
    NotFound,
    /// The peer may not ask.
    Forbidden,
    /// The agent is stopping.
    Stopping,
}

/// A picture of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "the wire shape, built with literals")]
pub struct NodeStatus {
    /// Node name.
    pub node: String,
    /// Version of the agent.
    pub version: String,
    /// Milliseconds since the agent started.
    pub uptime_ms: u64,
    /// Contact with the datastore.
    pub datastore: DatastoreState,
    /// Why the datastore does not answer, or does not tell what changes; it is tried again.
    #[serde(default)]
    pub datastore_error: Option<String>,
    /// Workload endpoints of this host.
    pub endpoints: usize,
    /// Host endpoints that police interfaces of this host.
    #[serde(default)]
    pub host_endpoints: usize,
    /// Policies and profiles in force on this host.
    pub policies: usize,
    /// IP sets in force on this host.
    pub ip_sets: usize,
    /// Whether the kernel holds what it should.
    pub dataplane_in_sync: bool,
    /// What the kernel refused last, until it took it.
    pub dataplane_error: Option<String>,
    /// Objects that cannot be used, and why.
    pub diagnostics: Vec<String>,
    /// Endpoints of this host of which something is not as written: of theirs, or of policies, tiers and profiles that apply to them. Sorted;
    /// the first of them, where there are very many.
    #[serde(default)]
    pub endpoint_problems: Vec<EndpointProblems>,
    /// How many such endpoints there are.
    #[serde(default)]
    pub endpoints_with_problems: usize,
    /// What goes on for longer than usual although nothing is wrong with what is wanted, and what ends it.
    #[serde(default)]
    pub notices: Vec<String>,
    /// Who speaks BGP: `native` or `bird`; none where nobody does.
    #[serde(default)]
    pub bgp_backend: Option<String>,
    /// BGP identifier of this node, if it has one.
    #[serde(default)]
    pub bgp_identifier: Option<Ipv4Addr>,
    /// When BGP was last configured anew, in seconds since 1970.
    #[serde(default)]
    pub bgp_configured: Option<u64>,
    /// BGP sessions, sorted by address.
    pub bgp: Vec<PeerReport>,
    /// Routes learned by BGP that are in use.
    pub bgp_routes: usize,
}

/// What is not as written about one endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "the wire shape, built with literals")]
pub struct EndpointProblems {
    /// The endpoint, as `WorkloadEndpoint(default/pod)`.
    pub endpoint: String,
    /// How many problems there are.
    pub count: usize,
    /// The first few, with the object that has them. Long ones are cut: they are whole in [`NodeStatus::diagnostics`].
    pub first: Vec<String>,
}

/// Contact with the datastore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DatastoreState {
    /// No contact; what was enforced stays enforced.
    Waiting,
    /// The snapshot is arriving.
    Resync,
    /// Up to date.
    InSync,
}

/// A route of this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "the wire shape, built with literals")]
pub struct RouteReport {
    /// Where to.
    pub destination: Cidr,
    /// By which gateways; traffic is shared by several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<IpAddr>,
    /// Out of which interface, if it is one of a workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<InterfaceName>,
    /// Why it is there.
    pub source: RouteSource,
    /// The BGP session that told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Whether the kernel is to have it.
    pub programmed: bool,
}

/// Why a route is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RouteSource {
    /// To a workload of this host.
    Workload,
    /// A block of this host: what is in it and is no workload's is discarded.
    Block,
    /// A node of the mesh told it.
    Mesh,
    /// Another peer told it.
    Peer,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_shape_is_stable() {
        let request = Request {
            v: VERSION,
            id: 7,
            verb: Verb::WaitEndpoint { namespace: "a".into(), name: "b".into(), attachment: None, timeout_ms: 10 },
        };
        let text = r#"{"v":1,"id":7,"verb":"wait-endpoint","namespace":"a","name":"b","timeout_ms":10}"#;
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
        assert_eq!(serde_json::from_str::<Request>(text).unwrap(), request);

        let reply = Reply { v: 1, id: 7, answer: Answer::Ok(Success::Enforced) };
        let text = r#"{"v":1,"id":7,"ok":{"kind":"enforced"}}"#;
        assert_eq!(serde_json::to_string(&reply).unwrap(), text);
        assert_eq!(serde_json::from_str::<Reply>(text).unwrap(), reply);

        let failure = Failure { code: ErrorCode::Timeout, message: "m".into() };
        let reply = Reply { v: 1, id: 7, answer: Answer::Error(failure) };
        let text = r#"{"v":1,"id":7,"error":{"code":"timeout","message":"m"}}"#;
        assert_eq!(serde_json::to_string(&reply).unwrap(), text);
        assert_eq!(serde_json::from_str::<Reply>(text).unwrap(), reply);
    }

    #[test]
    fn an_attachment_may_be_named() {
        let text = r#"{"v":1,"id":7,"verb":"wait-endpoint","namespace":"a","name":"b","attachment":{"interface":"cali1","addresses":["10.0.0.5/32"],"mac":"ee:00:00:00:00:01"},"timeout_ms":10}"#;
        let request: Request = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
        let Verb::WaitEndpoint { attachment: Some(attachment), .. } = request.verb else { panic!() };
        assert_eq!(attachment.addresses, ["10.0.0.5/32".parse().unwrap()]);
    }

    #[test]
    fn unknown_members_are_ignored_and_unknown_verbs_are_not() {
        assert!(serde_json::from_str::<Request>(r#"{"v":1,"id":1,"verb":"status","new":true}"#).is_ok());
        assert!(serde_json::from_str::<Request>(r#"{"v":1,"id":1,"verb":"dance"}"#).is_err());
    }
}
