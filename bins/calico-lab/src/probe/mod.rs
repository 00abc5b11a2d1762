//! Real packets between pods, and what became of them.
//!
//! Every pod runs [`Servers`]: TCP and UDP sockets that were opened inside its namespace and answer with the pod's own name, so that
//! an answer proves who was reached. A probe opens a fresh socket in the client's namespace, hence a fresh connection for the
//! kernel's connection tracking, and waits for the answer. Pings are answered by the pod's kernel.
//!
//! Silence is a denial. Everything else that is not the right answer, a refused connection above all, is an error of the probe
//! and counts as neither verdict: Calico drops, it does not refuse. All probes of a round are under way at the same time.

mod client;
mod icmp;
mod prober;
mod server;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use calico_core::flow::Decision;
use serde::{Serialize, Serializer};

use crate::plan::PodId;

use client::{Sockets, send};
pub(crate) use prober::{Prober, Question, descriptors};
use server::Servers;

/// TCP ports with a server in every pod.
pub(crate) const TCP_PORTS: [u16; 2] = [80, 8080];
/// UDP ports with a server in every pod.
pub(crate) const UDP_PORTS: [u16; 1] = [53];

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// A connection to this port.
    Tcp(u16),
    /// A datagram to this port.
    Udp(u16),
    /// An echo request.
    Ping,
}

/// One question: does `kind` get from one pod to the other, and an answer back?
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Probe {
    /// Sender.
    pub(crate) from: PodId,
    /// Receiver.
    pub(crate) to: PodId,
    /// What.
    pub(crate) kind: Kind,
}

/// What became of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Observed {
    /// The right answer, or silence.
    Verdict(Decision),
    /// Something that is neither.
    Error(String),
}

impl Kind {
    /// Everything that is probed between two pods.
    pub(crate) fn all() -> impl Iterator<Item = Self> + Clone {
        TCP_PORTS.into_iter().map(Self::Tcp).chain(UDP_PORTS.into_iter().map(Self::Udp)).chain([Self::Ping])
    }

    /// Name of the protocol.
    pub(crate) const fn protocol(self) -> &'static str {
        match self {
            Self::Tcp(_) => "tcp",
            Self::Udp(_) => "udp",
            Self::Ping => "icmp",
        }
    }

    /// Destination port, where there is one.
    pub(crate) const fn port(self) -> Option<u16> {
        match self {
            Self::Tcp(port) | Self::Udp(port) => Some(port),
            Self::Ping => None,
        }
    }

    /// The socket address to send to.
    pub(crate) fn target(self, address: IpAddr) -> SocketAddr {
        SocketAddr::new(address, self.port().unwrap_or(0))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port() {
            Some(port) => write!(f, "{} {port}", self.protocol()),
            None => f.write_str(self.protocol()),
        }
    }
}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verdict(decision) => f.write_str(word(*decision)),
            Self::Error(text) => write!(f, "error: {text}"),
        }
    }
}

impl Serialize for Observed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A decision in one word.
pub(crate) const fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Deny => "deny",
    }
}
