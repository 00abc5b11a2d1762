//! Which connections anybody's policy may be about.

use alloc::vec::Vec;
use core::net::IpAddr;

use hashbrown::HashSet;

use super::Connection;
use crate::flow::Flow;
use crate::net::Cidr;
use crate::verdict::{ActiveState, Settings};

/// Whose connections are policed on a host: those of its workloads, and everybody's where it has host endpoints.
#[derive(Debug, Clone)]
pub struct Policed {
    workloads: HashSet<IpAddr>,
    /// Prefixes that workloads may use beyond their own addresses.
    further: Vec<Cidr>,
    has_host_endpoints: bool,
}

impl Policed {
    /// By what is active.
    pub fn of(state: &ActiveState, settings: &Settings) -> Self {
        let endpoints = || state.endpoints.values();
        let mut further: Vec<Cidr> = Vec::new();
        if settings.host.allow_spoofed_sources {
            further.extend(endpoints().flat_map(|endpoint| &endpoint.allowed_sources));
        }
        Self {
            workloads: endpoints().flat_map(|endpoint| &endpoint.addresses).map(Cidr::address).collect(),
            further,
            has_host_endpoints: !state.host_endpoints.is_empty(),
        }
    }

    /// Whether anybody's policy may concern a connection.
    pub fn concerns(&self, connection: &Connection) -> bool {
        let Flow { source, destination, .. } = connection.at_policy();
        if source.is_loopback() && destination.is_loopback() {
            return false;
        }
        self.has_host_endpoints
            || self.workloads.contains(&source)
            || self.workloads.contains(&destination)
            || self.further.iter().any(|net| net.contains(source))
    }
}
