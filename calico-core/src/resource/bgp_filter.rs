//! `BGPFilter`: which routes a session takes and gives, and with which attributes.

use alloc::string::String;
use alloc::vec::Vec;

use super::formats::{COMMUNITY, INTERFACE_PATTERN, STRICT_CIDR};
use super::limit::Limit;
use super::model::{model, words};
use crate::net::AsNumber;

model! {
    /// Specification of a `BGPFilter`. The first rule that matches decides.
    pub struct BgpFilterSpec: specification {
        /// Rules for IPv4 routes that are announced.
        "exportV4" export_v4: Vec<BgpFilterRule>;
        /// Rules for IPv4 routes that are received.
        "importV4" import_v4: Vec<BgpFilterRule>;
        /// Rules for IPv6 routes that are announced.
        "exportV6" export_v6: Vec<BgpFilterRule>;
        /// Rules for IPv6 routes that are received.
        "importV6" import_v6: Vec<BgpFilterRule>;
    }
}

model! {
    /// One rule. What is given must match.
    pub struct BgpFilterRule {
        /// Prefix that the route's is compared with.
        "cidr" cidr: String where [Limit::Text(&STRICT_CIDR)];
        /// Lengths that the route's prefix may have.
        "prefixLength" prefix_length: Option<PrefixLengthRange>;
        /// How the prefix is compared.
        "matchOperator" match_operator: Option<MatchOperator>;
        /// Where the route comes from.
        "source" source: String where [Limit::OneOf(&["RemotePeers"])];
        /// Interface of the route.
        "interface" interface: String where [Limit::Text(&INTERFACE_PATTERN)];
        /// Kind of session.
        "peerType" peer_type: Option<BgpPeerType>;
        /// Communities of the route.
        "communities" communities: Option<CommunityMatch>;
        /// How the route's AS path begins.
        "asPathPrefix" as_path_prefix: Vec<AsNumber>;
        /// Priority of the route in the kernel.
        "priority" priority: Option<i64> where [Limit::Range(1, 2_147_483_646)];
        /// What happens to the route.
        "action" action: Option<FilterAction>, required;
        /// How it is changed, in order.
        "operations" operations: Vec<FilterOperation> where [Limit::Items(1, 10)];
    }
}

model! {
    /// Lengths of prefixes, bounds included.
    pub struct PrefixLengthRange {
        /// Shortest.
        "min" min: Option<i32> where [Limit::Range(0, 128)];
        /// Longest.
        "max" max: Option<i32> where [Limit::Range(0, 128)];
    }
}

model! {
    /// Communities that a route must have.
    pub struct CommunityMatch {
        /// `aa:nn` or `aa:nn:mm`.
        "values" values: Vec<String>, required where [Limit::Items(1, 1), Limit::Text(&COMMUNITY)];
    }
}

model! {
    /// A change of a route: exactly one of its members is given.
    pub struct FilterOperation {
        /// A community more.
        "addCommunity" add_community: Option<AddCommunity>;
        /// AS numbers before the path.
        "prependASPath" prepend_as_path: Option<PrependAsPath>;
        /// A priority in the kernel.
        "setPriority" set_priority: Option<SetPriority>;
    }
}

model! {
    /// A community more.
    pub struct AddCommunity {
        /// `aa:nn` or `aa:nn:mm`.
        "value" value: String, required where [Limit::Text(&COMMUNITY)];
    }
}

model! {
    /// AS numbers before the path.
    pub struct PrependAsPath {
        /// In the order in which they stand.
        "prefix" prefix: Vec<AsNumber>, required where [Limit::Items(1, 10)];
    }
}

model! {
    /// A priority in the kernel.
    pub struct SetPriority {
        /// The metric.
        "value" value: Option<i64>, required where [Limit::Range(1, 2_147_483_646)];
    }
}

words! {
    /// How prefixes are compared.
    pub enum MatchOperator {
        /// The same.
        Equal,
        /// Another.
        NotEqual,
        /// Inside.
        In,
        /// Not inside.
        NotIn,
    }
}

words! {
    /// Kind of session.
    pub enum BgpPeerType {
        /// Between autonomous systems.
        External = "eBGP",
        /// Within one.
        Internal = "iBGP",
    }
}

words! {
    /// What happens to a route.
    pub enum FilterAction {
        /// It passes.
        Accept,
        /// It does not.
        Reject,
    }
}
