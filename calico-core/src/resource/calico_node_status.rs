//! `CalicoNodeStatus`: what one node's BGP is doing, asked for by an operator and answered by the node.

use alloc::string::String;
use alloc::vec::Vec;

use super::formats::{DATE_TIME, NAME};
use super::limit::Limit;
use super::model::{model, words};

model! {
    /// Specification of a `CalicoNodeStatus`: what is asked.
    pub struct CalicoNodeStatusSpec: specification(CalicoNodeStatusStatus) {
        /// The node.
        "node" node: String, required where [Limit::Text(&NAME)];
        /// What is told of it.
        "classes" classes: Vec<NodeStatusClass>, required where [Limit::Items(1, 3), Limit::Unique];
        /// How often; 0 means never.
        "updatePeriodSeconds" update_period_seconds: Option<u32>, required where [Limit::Range(0, 86_400)];
    }
}

words! {
    /// What is told of a node.
    pub enum NodeStatusClass {
        /// The BGP daemons.
        Agent,
        /// Their sessions.
        BGP,
        /// Their routes.
        Routes,
    }
}

model! {
    /// Status of a `CalicoNodeStatus`: what the node answered.
    pub struct CalicoNodeStatusStatus {
        /// When.
        "lastUpdated" last_updated: Option<String> where [Limit::Text(&DATE_TIME)];
        /// The BGP daemons.
        "agent" agent: NodeAgentStatus;
        /// Their sessions.
        "bgp" bgp: NodeBgpStatus;
        /// Their routes.
        "routes" routes: NodeRoutes;
    }
}

model! {
    /// BGP daemons by family.
    pub struct NodeAgentStatus {
        /// IPv4.
        "birdV4" bird_v4: BgpDaemonStatus;
        /// IPv6.
        "birdV6" bird_v6: BgpDaemonStatus;
    }
}

model! {
    /// A BGP daemon.
    pub struct BgpDaemonStatus {
        /// Whether it works.
        "state" state: String where [Limit::OneOf(&["Ready", "NotReady"])];
        /// Its version.
        "version" version: String;
        /// Its router id.
        "routerID" router_id: String;
        /// When it started.
        "lastBootTime" last_boot_time: String;
        /// When its configuration changed.
        "lastReconfigurationTime" last_reconfiguration_time: String;
    }
}

model! {
    /// Sessions by family.
    pub struct NodeBgpStatus {
        /// IPv4 sessions that are up.
        "numberEstablishedV4" number_established_v4: i64;
        /// IPv4 sessions that are not.
        "numberNotEstablishedV4" number_not_established_v4: i64;
        /// IPv6 sessions that are up.
        "numberEstablishedV6" number_established_v6: i64;
        /// IPv6 sessions that are not.
        "numberNotEstablishedV6" number_not_established_v6: i64;
        /// The IPv4 sessions.
        "peersV4" peers_v4: Vec<NodePeer>;
        /// The IPv6 sessions.
        "peersV6" peers_v6: Vec<NodePeer>;
    }
}

model! {
    /// A session.
    pub struct NodePeer {
        /// The other end.
        "peerIP" peer_ip: String;
        /// What configured it.
        "type" peer_type: String where [Limit::OneOf(&["NodeMesh", "NodePeer", "GlobalPeer"])];
        /// State of RFC 4271's machine.
        "state" state: String
            where [Limit::OneOf(&["Idle", "Connect", "Active", "OpenSent", "OpenConfirm", "Established", "Close"])];
        /// Since when.
        "since" since: String;
    }
}

model! {
    /// Routes by family.
    pub struct NodeRoutes {
        /// IPv4.
        "routesV4" routes_v4: Vec<NodeRoute>;
        /// IPv6.
        "routesV6" routes_v6: Vec<NodeRoute>;
    }
}

model! {
    /// A route.
    pub struct NodeRoute {
        /// Where it is: in the kernel, or in the daemon only.
        "type" route_type: String where [Limit::OneOf(&["FIB", "RIB"])];
        /// Prefix.
        "destination" destination: String;
        /// Next hop.
        "gateway" gateway: String;
        /// Interface.
        "interface" interface: String;
        /// Where it comes from.
        "learnedFrom" learned_from: LearnedFrom;
    }
}

model! {
    /// Where a route comes from.
    pub struct LearnedFrom {
        /// Sort of source.
        "sourceType" source_type: String
            where [Limit::OneOf(&["Kernel", "Static", "Direct", "NodeMesh", "BGPPeer"])];
        /// The session that told it.
        "peerIP" peer_ip: String;
    }
}
