//! From a desired state to BIRD's configuration. Pure.

mod base;
mod filter;
mod kernel;
mod left_out;
mod names;
mod policy;
mod session;
mod settings;
mod text;

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use calico_core::bgp::{DesiredBgp, LocalSpeaker, PeerId};
use calico_core::net::Family;

pub use left_out::{LeftOut, PeerOrRange, Unsupported};
pub use settings::{BirdLog, BirdLogLevel, BirdSettings, Dialect, KernelMetric, KernelSettings};

use filter::Filters;
use session::{Session, Transport};
use text::Text;

/// A configuration, and what is not in it. `Debug` does not show the text: it has passwords in it.
#[derive(Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Rendered {
    /// The file.
    pub text: String,
    /// Names of BIRD's protocols, and whose session each is.
    pub sessions: BTreeMap<String, PeerId>,
    /// What is not in it.
    pub left_out: Vec<LeftOut>,
}

impl fmt::Debug for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, sessions, left_out } = self;
        f.debug_struct("Rendered")
            .field("bytes", &text.len())
            .field("sessions", sessions)
            .field("left_out", left_out)
            .finish()
    }
}

/// What all parts look at.
#[derive(Debug, Clone, Copy)]
struct Context<'a> {
    desired: &'a DesiredBgp,
    dialect: Dialect,
    settings: &'a BirdSettings,
}

/// The configuration for a daemon of that dialect.
pub fn render(desired: &DesiredBgp, dialect: Dialect, settings: &BirdSettings) -> Rendered {
    let context = Context { desired, dialect, settings };
    let mut sessions = Sessions::default();
    if let Some(local) = &desired.local {
        sessions.gather(context, local);
    }
    let mut text = Text::default();
    base::globals(&mut text, context);
    for family in dialect.families() {
        policy::functions(&mut text, context, family);
        kernel::filter(&mut text, context, family);
    }
    let bfd = sessions.kept.iter().any(|session| session.peer.session.bfd.is_some());
    base::protocols(&mut text, context, &sessions.gateways(), bfd);
    sessions.filters.functions(&mut text, dialect);
    for session in &sessions.kept {
        session.protocol(&mut text, context, &sessions.filters);
    }
    let named = |session: &Session<'_>| {
        let Transport::Peer(id) = session.transport else { return None };
        Some((session.name.clone(), id))
    };
    let names = sessions.kept.iter().filter_map(named).collect();
    Rendered { text: text.finish(), sessions: names, left_out: sessions.left_out }
}

/// Sessions that can be written, and those that cannot.
#[derive(Debug, Default)]
struct Sessions<'a> {
    kept: Vec<Session<'a>>,
    filters: Filters<'a>,
    left_out: Vec<LeftOut>,
}

impl<'a> Sessions<'a> {
    fn gather(&mut self, context: Context<'a>, local: &'a LocalSpeaker) {
        let peers = context.desired.peers.iter().map(|peer| (Transport::Peer(peer.id), peer));
        let ranges = context.desired.dynamic.iter().map(|range| (Transport::Range(range.range), &range.like));
        let mut names = BTreeSet::new();
        for (transport, peer) in peers.chain(ranges) {
            if !context.dialect.is_told_of(transport.family()) {
                continue;
            }
            let mut session = match Session::new(context, local, transport, peer) {
                Ok(session) => session,
                Err(what) => {
                    self.left_out.push(LeftOut { peer: transport.whose(), what });
                    continue;
                }
            };
            if let Err(what) = self.filters.add(&mut session) {
                self.left_out.push(LeftOut { peer: transport.whose(), what });
            } else if names.insert(session.name.clone()) {
                self.kept.push(session);
            } else {
                self.left_out.push(LeftOut { peer: transport.whose(), what: Unsupported::SameName(session.name) });
            }
        }
    }

    fn gateways(&self) -> BTreeMap<core::net::IpAddr, core::net::IpAddr> {
        let gateway = |session: &Session<'_>| match (session.transport, session.peer.session.gateway) {
            (Transport::Peer(id), Some(gateway)) => Some((id.address, gateway)),
            _ => None,
        };
        self.kept.iter().filter_map(gateway).collect()
    }
}

/// The end of names that exist for each family.
const fn suffix(family: Family) -> &'static str {
    match family {
        Family::V4 => "4",
        Family::V6 => "6",
    }
}
