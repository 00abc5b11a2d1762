//! `HostEndpoint`: an interface of a host, or all of them, under policy.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::formats::{INTERFACE, NAME, PORT_NAME};
use super::limit::Limit;
use super::model::model;
use crate::net::Protocol;

model! {
    /// Specification of a `HostEndpoint`.
    pub struct HostEndpointSpec: specification {
        /// Host that it is on.
        "node" node: String, required where [Limit::Text(&NAME), Limit::Length(253)];
        /// The interface; `*` for all of the host's, empty where the addresses tell which.
        "interfaceName" interface_name: String where [Limit::Text(&INTERFACE)];
        /// Addresses that are expected on it.
        "expectedIPs" expected_ips: Vec<IpAddr> where [Limit::Unique];
        /// Profiles that apply after the policies.
        "profiles" profiles: Vec<String> where [Limit::Text(&NAME), Limit::Unique];
        /// Ports with a name.
        "ports" ports: Vec<HostPort>;
    }
}

model! {
    /// A named port of a host endpoint.
    pub struct HostPort {
        /// Its name in rules.
        "name" name: String, required where [Limit::Text(&PORT_NAME)];
        /// TCP, UDP or SCTP.
        "protocol" protocol: Option<Protocol>, required;
        /// Number.
        "port" port: Option<u16>, required where [Limit::Range(1, 65_535)];
    }
}
