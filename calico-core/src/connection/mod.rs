//! Tracked connections, against what policy says now.
//!
//! A packet of a known connection passes before policy is asked, so a connection goes on although a newer policy denies it. Upstream
//! leaves it at that. Here such connections end, and only those. This module says two things about them, and touches none: which
//! changes can deny what was allowed ([`Doubts`]), and whether one connection is denied now ([`Judge`]).
//!
//! What nobody remembers is the interfaces that a connection goes through. So all ways that it can take are asked, and it is denied only if each
//! of them is:
//! - To and from addresses of workloads of this host there is the workload (of several that share one, any), and the host's own addresses
//!   are the host.
//! - Other addresses are behind the interface by which the host would send to them, as it answers the same way in all but odd networks; behind
//!   several, if the route has several. What goes to the host may also come by the interface that has the address.
//! - What comes from one of a workload's further source prefixes may come from that workload, or from where the route leads.
//! - Nothing leaves by where it came from, if there is another way.
//!
//! Without a known route it is not denied.

mod doubt;
mod judge;
mod policed;
#[cfg(test)]
mod tests;

use core::net::IpAddr;

use crate::flow::Flow;

pub use doubt::{Doubt, Doubts};
pub use judge::{Host, Judge, RouteQuery, Routes};
pub use policed::Policed;

/// A connection as a host tracks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; a new part must break every evaluator")]
pub struct Connection {
    /// Its first packet, as it arrived.
    pub original: Flow,
    /// What is expected to come back: source and destination say how the original was translated.
    pub reply: Flow,
    /// The original of the connection that this one belongs to, as a file transfer's to its control connection. It passes as long as that is
    /// known, whatever policy says of itself.
    pub master: Option<Flow>,
}

impl Connection {
    /// Its first packet as policy sees it: after the translation of the destination, before that of the source.
    pub const fn at_policy(&self) -> Flow {
        let destination = self.reply.source;
        Flow { destination, destination_port: self.reply.source_port, ..self.original }
    }

    /// The addresses that it has, before and after translation; some twice.
    pub const fn addresses(&self) -> [IpAddr; 4] {
        [self.original.source, self.original.destination, self.reply.source, self.reply.destination]
    }
}
