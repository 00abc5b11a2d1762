//! What sessions need of TCP: the speaker says it, whoever holds the sockets carries it out.

use core::net::IpAddr;
use core::time::Duration;

use calico_core::bgp::{DesiredPeer, Families, LocalSpeaker, Password, PeerId, Secret, Source};
use calico_core::net::{Cidr, Family};

/// Properties of one connection. Both ends send with the highest TTL, so that either may ask for TTL security.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a transport must carry out every one")]
pub struct Transport {
    /// Which local address to connect from; what the kernel chooses if absent.
    pub source: Option<IpAddr>,
    /// Key of its TCP MD5 signatures (RFC 2385).
    pub key: Option<Secret>,
    /// Least TTL or hop limit that packets must come with (RFC 5082).
    pub least_ttl: Option<u8>,
    /// For how long sent data may stay unacknowledged.
    pub user_timeout: Option<Duration>,
}

/// Where peers are awaited.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "a transport must carry out all of it")]
pub struct Listening {
    /// TCP port.
    pub port: u16,
    /// Addresses, unspecified ones for all of a family.
    pub addresses: Vec<IpAddr>,
    /// Keys of those peers that have one: to be known before they call, sorted.
    pub keys: Vec<ListenKey>,
}

/// The key of whoever calls from there. Linux knows no link here, so that of two peers with one link-local address and different keys
/// one only can call; the other has to be called.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a transport must carry out all of it")]
pub struct ListenKey {
    /// Addresses.
    pub from: Cidr,
    /// The key.
    pub key: Secret,
}

/// Which local address a session comes from; the error says why there is none.
pub(crate) fn source(local: &LocalSpeaker, peer: &DesiredPeer) -> Result<Option<IpAddr>, String> {
    let family = Family::of(peer.id.address);
    match peer.session.source {
        Source::Kernel => Ok(None),
        Source::Node if is_link_local(peer.id.address) => Ok(None),
        Source::Node => match local.address(family) {
            Some(own) => Ok(Some(own)),
            None => Err(format!("this node has no {} address for BGP to come from", name(family))),
        },
        Source::Address(own) if Family::of(own) == family => Ok(Some(own)),
        Source::Address(own) => Err(format!("{own} cannot be the source of a session with {}", peer.id)),
    }
}

/// Whether an address says nothing without a link.
pub(crate) const fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

impl Transport {
    /// Of the connections with a peer that can be had.
    pub(crate) fn of(local: &LocalSpeaker, peer: &DesiredPeer, hold_time: u16) -> Self {
        let key = match &peer.session.password {
            Password::Key(key) => Some(key.clone()),
            Password::None | Password::Missing(_) => None,
        };
        let seconds = peer.session.hold_time.unwrap_or(hold_time);
        Self {
            source: source(local, peer).ok().flatten(),
            key,
            // Of 255, each hop takes one; the peer next door takes none.
            least_ttl: peer.session.ttl_security.map(|hops| u8::MAX.saturating_sub(hops).saturating_add(1)),
            user_timeout: (seconds > 0).then(|| Duration::from_secs(seconds.into())),
        }
    }
}

impl Listening {
    /// For these peers, by where they call from, and these families besides theirs.
    pub(crate) fn of<'a>(
        local: &LocalSpeaker,
        port: u16,
        callers: impl Iterator<Item = (PeerId, Option<Cidr>, &'a Password)>,
    ) -> Self {
        let mut families: Families =
            [Family::V4, Family::V6].into_iter().filter(|f| local.address(*f).is_some()).collect();
        let mut keys = Vec::new();
        for (id, range, password) in callers {
            families = families.union(Families::only(Family::of(id.address)));
            if let Password::Key(key) = password {
                let from = range.unwrap_or_else(|| Cidr::host(id.address));
                keys.push(ListenKey { from, key: key.clone() });
            }
        }
        let anywhere = |family| match family {
            Family::V4 => IpAddr::from([0; 4]),
            Family::V6 => IpAddr::from([0_u16; 8]),
        };
        let address = |family| if local.listen.own_addresses { local.address(family) } else { Some(anywhere(family)) };
        Self { port, addresses: families.iter().filter_map(address).collect(), keys }
    }
}

const fn name(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use calico_core::bgp::{Listen, PeerKind};
    use calico_core::net::AsNumber;

    use super::*;

    fn peer(address: &str) -> DesiredPeer {
        DesiredPeer::new(address.parse().unwrap(), AsNumber::DEFAULT, PeerKind::Global, "tor")
    }

    fn node() -> LocalSpeaker {
        LocalSpeaker::new("us", AsNumber::DEFAULT, Ipv4Addr::new(10, 0, 0, 1))
    }

    #[test]
    fn sources_are_of_the_peers_family() {
        let own = |peer: &DesiredPeer| source(&node(), peer);
        assert_eq!(own(&peer("10.0.0.2")), Ok(node().address(Family::V4)));
        assert!(own(&peer("2001:db8::2")).unwrap_err().contains("no IPv6 address"));
        assert_eq!(own(&peer("fe80::2")), Ok(None), "the kernel knows the link's address");
        let mut other = peer("2001:db8::2");
        other.session.source = Source::Kernel;
        assert_eq!(own(&other), Ok(None));
        other.session.source = Source::Address("10.0.0.9".parse().unwrap());
        assert!(own(&other).is_err());
        other.session.source = Source::Address("2001:db8::9".parse().unwrap());
        assert_eq!(own(&other), Ok(Some("2001:db8::9".parse().unwrap())));
    }

    #[test]
    fn a_neighbour_within_n_hops_has_lost_fewer_than_n() {
        let least = |hops| {
            let mut near = peer("10.0.0.2");
            near.session.ttl_security = Some(hops);
            Transport::of(&node(), &near, 90).least_ttl
        };
        assert_eq!([least(1), least(2), least(254)], [Some(255), Some(254), Some(2)]);
        assert_eq!(Transport::of(&node(), &peer("10.0.0.2"), 90).least_ttl, None);
        assert_eq!(Transport::of(&node(), &peer("10.0.0.2"), 0).user_timeout, None);
    }

    #[test]
    fn listens_where_somebody_may_call_from() {
        let key = Password::Key(Secret::new("key".into()).unwrap());
        let (v4, v6) = (PeerId::from(peer("10.0.0.2").id.address), PeerId::from(peer("2001:db8::2").id.address));
        let mut node = node();
        let listening = Listening::of(&node, 179, [(v4, None, &key), (v6, None, &Password::None)].into_iter());
        assert_eq!(listening.addresses, [IpAddr::from([0; 4]), IpAddr::from([0_u16; 8])]);
        assert_eq!(listening.keys.len(), 1);
        node.listen = Listen { own_addresses: true, ..Listen::default() };
        let listening = Listening::of(&node, 179, [(v6, None, &Password::None)].into_iter());
        assert_eq!(listening.addresses, [node.address(Family::V4).unwrap()], "it has no address of the other family");
    }
}
