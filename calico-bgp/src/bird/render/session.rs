//! One session as a protocol of BIRD.

use core::net::IpAddr;
use core::time::Duration;

use calico_core::bgp::{
    AddPath, BGP_PORT, Bfd, DesiredPeer, Families, LocalSpeaker, NextHop, Password, PeerId, Role, RouteDirection,
    Source,
};
use calico_core::net::{AsNumber, Cidr, Family};

use super::base::word;
use super::filter::Filters;
use super::left_out::{PeerOrRange, Unsupported};
use super::settings::Dialect;
use super::text::{Text, description, quoted};
use super::{Context, names, suffix};

/// The longest restart time that fits the capability (RFC 4724).
const RESTART: u16 = 4095;
/// The longest stale time that fits the capability (RFC 9494).
const STALE: u32 = 0x00ff_ffff;

/// Whom a session is with.
#[derive(Debug, Clone, Copy)]
pub(super) enum Transport {
    Peer(PeerId),
    Range(Cidr),
}

/// A session that can be written.
#[derive(Debug)]
pub(super) struct Session<'a> {
    pub(super) name: String,
    pub(super) transport: Transport,
    pub(super) peer: &'a DesiredPeer,
    local: &'a LocalSpeaker,
    /// Address that it comes from; none leaves it to the kernel.
    source: Option<IpAddr>,
    /// The peer is on link.
    direct: bool,
    internal: bool,
    as_number: AsNumber,
    hold_time: u16,
    password: Option<String>,
    /// The link of a link-local peer.
    interface: Option<String>,
    pub(super) families: Families,
    /// Own next hops of families that the session's addresses are not of.
    next_hops: Vec<(Family, IpAddr)>,
    /// Places of its filters.
    pub(super) filters: Vec<usize>,
}

impl Transport {
    pub(super) const fn whose(self) -> PeerOrRange {
        match self {
            Self::Peer(id) => PeerOrRange::Peer(id),
            Self::Range(range) => PeerOrRange::Range(range),
        }
    }

    pub(super) fn family(self) -> Family {
        match self {
            Self::Peer(id) => Family::of(id.address),
            Self::Range(range) => range.family(),
        }
    }

    /// Addresses that mean something on a link only.
    fn is_link_local(self) -> bool {
        matches!(self, Self::Peer(PeerId { address: IpAddr::V6(address), .. }) if address.is_unicast_link_local())
    }
}

impl<'a> Session<'a> {
    /// The session, unless it cannot be written as it is wanted.
    pub(super) fn new(
        context: Context<'a>,
        local: &'a LocalSpeaker,
        transport: Transport,
        peer: &'a DesiredPeer,
    ) -> Result<Self, Unsupported> {
        let parameters = &peer.session;
        dialect(context.dialect, transport, peer)?;
        numbers(peer, local)?;
        let password = match &parameters.password {
            Password::None => None,
            Password::Missing(reason) => return Err(Unsupported::PasswordMissing(reason.clone())),
            Password::Key(key) => Some(quoted(key.expose()).ok_or(Unsupported::PasswordText)?),
        };
        let (name, interface) = match transport {
            Transport::Peer(id) => (names::session(peer.kind, id), link(transport, id)?),
            Transport::Range(range) => (names::range(peer.kind, range), None),
        };
        let as_number = parameters.local_as.unwrap_or(local.as_number);
        let direct = transport.is_link_local() || is_on_link(parameters.bfd, parameters.ttl_security);
        let session = Self {
            name,
            transport,
            peer,
            local,
            source: source(context.dialect, local, transport, peer)?,
            direct,
            internal: as_number == peer.as_number,
            as_number,
            hold_time: parameters.hold_time.unwrap_or(context.settings.hold_time),
            password,
            interface,
            families: parameters.families,
            next_hops: next_hops(local, transport, peer)?,
            filters: Vec::new(),
        };
        session.check()?;
        Ok(session)
    }

    fn check(&self) -> Result<(), Unsupported> {
        let needs = |what| if self.source.is_none() { Err(Unsupported::NeedsSource(what)) } else { Ok(()) };
        if self.peer.session.bfd.is_some() && !self.direct {
            needs("BFD over several hops")?;
        }
        match self.hold_time {
            value @ 1..=2 => Err(Unsupported::Range { what: "the hold time", value: value.into() }),
            _ => Ok(()),
        }
    }

    /// The protocol.
    pub(super) fn protocol(&self, text: &mut Text, context: Context<'_>, filters: &Filters<'_>) {
        text.open(format_args!("protocol bgp {}", self.name));
        text.line(format_args!("description \"{}\";", description(&self.peer.name)));
        self.ends(text, context.dialect);
        self.protection(text);
        self.timers(text, context);
        self.liveness(text);
        let policy = &self.peer.policy;
        if policy.reflector_client && self.internal {
            text.line("rr client;");
            if let Some(id) = self.local.cluster_id {
                text.line(format_args!("rr cluster id {id};"));
            }
        }
        if policy.own_as_allowed > 0 {
            text.line(format_args!("allow local as {};", policy.own_as_allowed));
        }
        if let Some(role) = self.peer.session.role.filter(|_| !self.internal) {
            text.line(format_args!("local role {};", word_of(role)));
        }
        match context.dialect {
            Dialect::Two => {
                for family in self.families.iter() {
                    text.open(word(family));
                    self.channel(text, context, filters, family);
                    text.close_item();
                }
            }
            Dialect::OneSix { family } => self.channel(text, context, filters, family),
        }
        text.close();
    }

    /// Addresses, ports and AS numbers.
    fn ends(&self, text: &mut Text, dialect: Dialect) {
        let as_number = self.as_number.value();
        match dialect {
            Dialect::Two => {
                let address = self.source.map(|address| format!(" {address}")).unwrap_or_default();
                let port = if self.local.listen.port == 0 { BGP_PORT } else { self.local.listen.port };
                text.line(format_args!("local{address} port {port} as {as_number};"));
                if self.local.listen.own_addresses && self.source.is_some() {
                    text.line("strict bind on;");
                }
            }
            Dialect::OneSix { .. } => {
                text.line(format_args!("local as {as_number};"));
                if let Some(address) = self.source {
                    text.line(format_args!("source address {address};"));
                }
            }
        }
        let remote = self.peer.as_number.value();
        match self.transport {
            Transport::Peer(id) => {
                text.line(format_args!("neighbor {} port {} as {remote};", id.address, self.peer.port));
            }
            Transport::Range(range) => {
                text.line(format_args!("neighbor range {range} as {remote};"));
                text.line("dynamic name \"Dynamic_\";");
            }
        }
        if let Some(interface) = &self.interface {
            text.line(format_args!("interface {interface};"));
        }
        if self.peer.session.passive {
            text.line("passive on;");
        }
    }

    fn protection(&self, text: &mut Text) {
        match (self.direct, self.peer.session.ttl_security) {
            (true, None) => text.line("direct;"),
            (true, Some(_)) => {
                text.line("direct;");
                text.line("ttl security on;");
            }
            (false, None) => text.line("multihop;"),
            (false, Some(hops)) => {
                text.line(format_args!("multihop {hops};"));
                text.line("ttl security on;");
            }
        }
        if let Some(password) = &self.password {
            text.line(format_args!("password {password};"));
        }
    }

    fn timers(&self, text: &mut Text, context: Context<'_>) {
        let parameters = &self.peer.session;
        text.line(format_args!("hold time {};", self.hold_time));
        // Otherwise BIRD's own, a third of the hold time.
        if let Some(keepalive) = parameters.keepalive.filter(|value| *value > 0 && *value < self.hold_time / 3) {
            text.line(format_args!("keepalive time {keepalive};"));
        }
        text.line("connect delay time 2;");
        text.line("connect retry time 5;");
        text.line("error wait time 5, 30;");
        text.line("graceful restart on;");
        let restart = parameters.restart_time.unwrap_or(context.settings.restart_time).min(RESTART);
        text.line(format_args!("graceful restart time {restart};"));
        if let Some(stale) = parameters.long_lived {
            text.line("long lived graceful restart on;");
            text.line(format_args!("long lived stale time {};", stale.min(STALE)));
        }
    }

    fn liveness(&self, text: &mut Text) {
        let Some(bfd) = self.peer.session.bfd else { return };
        text.open("bfd");
        text.line(format_args!("min tx interval {} us;", micros(bfd.transmit)));
        text.line(format_args!("min rx interval {} us;", micros(bfd.receive)));
        text.line(format_args!("multiplier {};", bfd.multiplier));
        text.close_item();
    }

    /// What is said of one family: within a channel of BIRD 2, within the protocol of BIRD 1.6.
    fn channel(&self, text: &mut Text, context: Context<'_>, filters: &Filters<'_>, family: Family) {
        let internal = self.internal;
        text.open("import filter");
        for function in filters.calls(&self.filters, RouteDirection::Import, family) {
            text.line(format_args!("{function}({internal});"));
        }
        text.line("accept;");
        text.close_item();
        text.open("export filter");
        text.line(format_args!("calico_own{}();", suffix(family)));
        for function in filters.calls(&self.filters, RouteDirection::Export, family) {
            text.line(format_args!("{function}({internal});"));
        }
        text.line(format_args!("calico_export{}();", suffix(family)));
        text.line("reject;");
        text.close_item();
        text.line("gateway recursive;");
        self.next_hop(text, family);
        match self.peer.session.add_path {
            AddPath { receive: true, send: 1.. } => text.line("add paths on;"),
            AddPath { receive: true, send: 0 } => text.line("add paths rx;"),
            AddPath { receive: false, send: 1.. } => text.line("add paths tx;"),
            AddPath { receive: false, send: 0 } => {}
        }
        let maximum = self.peer.session.maximum_prefixes.unwrap_or(context.settings.maximum_prefixes);
        text.line(format_args!("receive limit {maximum} action restart;"));
        if self.peer.session.extended_next_hop && family == Family::V4 {
            text.line("extended next hop on;");
        }
    }

    fn next_hop(&self, text: &mut Text, family: Family) {
        match self.peer.policy.next_hop {
            NextHop::Own => text.line("next hop self;"),
            NextHop::Keep => text.line("next hop keep;"),
            // On one link BIRD would tell external peers of each other.
            NextHop::Auto if self.direct && !self.internal => text.line("next hop self;"),
            NextHop::Auto => {}
        }
        if let Some((_, address)) = self.next_hops.iter().find(|(other, _)| *other == family) {
            text.line(format_args!("next hop address {address};"));
        }
    }
}

/// What BIRD 1.6 has not.
fn dialect(dialect: Dialect, transport: Transport, peer: &DesiredPeer) -> Result<(), Unsupported> {
    let parameters = &peer.session;
    if parameters.families.is_empty() {
        return Err(Unsupported::NoFamily);
    }
    let Dialect::OneSix { family } = dialect else { return Ok(()) };
    let wanted = [
        ("a range of peers", matches!(transport, Transport::Range(_))),
        ("another family than that of its addresses", parameters.families != Families::only(family)),
        ("BFD", parameters.bfd.is_some()),
        ("a role", parameters.role.is_some()),
        ("IPv6 next hops of IPv4 prefixes", parameters.extended_next_hop),
    ];
    match wanted.iter().find(|(_, wanted)| *wanted) {
        Some((what, _)) => Err(Unsupported::Dialect(what)),
        None => Ok(()),
    }
}

/// Numbers that BIRD refuses, and the file with them.
fn numbers(peer: &DesiredPeer, local: &LocalSpeaker) -> Result<(), Unsupported> {
    let parameters = &peer.session;
    let zero = |what, value: u64| if value == 0 { Err(Unsupported::Range { what, value }) } else { Ok(()) };
    zero("the peer's AS number", peer.as_number.value().into())?;
    zero("the own AS number", parameters.local_as.unwrap_or(local.as_number).value().into())?;
    zero("the peer's port", peer.port.into())?;
    zero("the number of hops", parameters.ttl_security.unwrap_or(1).into())?;
    zero("the most prefixes", parameters.maximum_prefixes.unwrap_or(1).into())?;
    if let Some(Bfd { transmit, receive, multiplier, .. }) = parameters.bfd {
        zero("the multiplier of BFD", multiplier.into())?;
        for interval in [transmit, receive] {
            let value = u64::try_from(interval.as_micros()).unwrap_or(u64::MAX);
            if !(1..=u64::from(u32::MAX)).contains(&value) {
                return Err(Unsupported::Range { what: "an interval of BFD in microseconds", value });
            }
        }
    }
    Ok(())
}

/// BFD of one hop goes with a session of one.
fn is_on_link(bfd: Option<Bfd>, ttl_security: Option<u8>) -> bool {
    bfd.is_some_and(|bfd| !bfd.multihop) && ttl_security.is_none_or(|hops| hops == 1)
}

fn micros(interval: Duration) -> u128 {
    interval.as_micros()
}

/// The interface of a link-local peer, as BIRD reads it.
fn link(transport: Transport, id: PeerId) -> Result<Option<String>, Unsupported> {
    if !transport.is_link_local() {
        return Ok(None);
    }
    let interface = id.interface.ok_or(Unsupported::NoInterface)?;
    let quoted = quoted(interface.as_str()).ok_or_else(|| Unsupported::Interface(interface.to_string()))?;
    Ok(Some(quoted))
}

/// The address that a session comes from.
fn source(
    dialect: Dialect,
    local: &LocalSpeaker,
    transport: Transport,
    peer: &DesiredPeer,
) -> Result<Option<IpAddr>, Unsupported> {
    let family = transport.family();
    let own = local.address(family);
    if let Transport::Peer(id) = transport
        && Some(id.address) == own
    {
        return Err(Unsupported::Ourselves);
    }
    if let Some(gateway) = peer.session.gateway
        && (Family::of(gateway) != family || matches!(transport, Transport::Range(_)))
    {
        return Err(Unsupported::Gateway(gateway));
    }
    let waits = peer.session.passive || matches!(transport, Transport::Range(_));
    match peer.session.source {
        // Its own link-local address, which BIRD finds by the interface.
        Source::Node | Source::Kernel if transport.is_link_local() => Ok(None),
        Source::Node => Ok(Some(own.ok_or(Unsupported::NoAddress(family))?)),
        Source::Address(address) if Family::of(address) == family => Ok(Some(address)),
        Source::Address(address) => Err(Unsupported::Source(address)),
        // BIRD 2 listens where its sessions come from. One that never connects comes from nowhere.
        Source::Kernel if local.listen.own_addresses && dialect == Dialect::Two => match own {
            Some(own) if waits => Ok(Some(own)),
            _ => Err(Unsupported::NeedsSource("listening on own addresses only")),
        },
        Source::Kernel => Ok(None),
    }
}

/// Next hops of families that the session's addresses are not of.
fn next_hops(
    local: &LocalSpeaker,
    transport: Transport,
    peer: &DesiredPeer,
) -> Result<Vec<(Family, IpAddr)>, Unsupported> {
    let others = peer.session.families.iter().filter(|family| *family != transport.family());
    let needed = others.filter(|family| !(peer.session.extended_next_hop && *family == Family::V4));
    needed.map(|family| Ok((family, local.address(family).ok_or(Unsupported::NoAddress(family))?))).collect()
}

const fn word_of(role: Role) -> &'static str {
    match role {
        Role::Provider => "provider",
        Role::RouteServer => "rs_server",
        Role::RouteServerClient => "rs_client",
        Role::Customer => "customer",
        Role::Peer => "peer",
    }
}
