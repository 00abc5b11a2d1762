//! `show route`, with or without `all`.

use core::net::IpAddr;

use calico_core::net::Cidr;

use super::reply::Reply;

/// A route that the daemon has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BirdRoute {
    /// Its prefix.
    pub prefix: Cidr,
    /// The protocol that it is from.
    pub protocol: String,
    /// The peer that told it.
    pub from: Option<IpAddr>,
    /// The best of its prefix.
    pub primary: bool,
    /// The kernel refused it.
    pub refused: bool,
    /// Gateway of its first way.
    pub gateway: Option<IpAddr>,
    /// Interface of its first way.
    pub interface: Option<String>,
    /// Attributes (`all` only), by the names that BIRD gives them, in small letters and without what stands before a point: `next_hop`,
    /// `local_pref`, `as_path`, `community`, …
    pub attributes: Vec<(String, String)>,
}

impl BirdRoute {
    /// An attribute's text.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The next hop that the peer announced (`all` only).
    pub fn next_hop(&self) -> Option<IpAddr> {
        self.attribute("next_hop").and_then(|hops| hops.split_whitespace().next()).and_then(|hop| hop.parse().ok())
    }

    fn way(&mut self, text: &str) {
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "via" if self.gateway.is_none() => self.gateway = words.next().and_then(|word| word.parse().ok()),
                "on" | "dev" if self.interface.is_none() => self.interface = words.next().map(str::to_owned),
                _ => {}
            }
        }
    }
}

/// Of `show route`.
pub fn routes(reply: &Reply) -> Vec<BirdRoute> {
    let mut found: Vec<BirdRoute> = Vec::new();
    for line in &reply.lines {
        match line.code {
            1007 => match line.text.strip_prefix('\t') {
                Some(way) => {
                    if let Some(route) = found.last_mut() {
                        route.way(way);
                    }
                }
                None => {
                    let former = found.last().map(|route| route.prefix);
                    found.extend(row(&line.text, former));
                }
            },
            1012 => {
                if let (Some(route), Some((name, value))) = (found.last_mut(), line.text.split_once(':')) {
                    let name = name.trim().rsplit('.').next().unwrap_or_default();
                    let name = name.trim_start_matches("bgp_").to_ascii_lowercase();
                    route.attributes.push((name, value.trim().to_owned()));
                }
            }
            _ => {}
        }
    }
    found
}

/// `PREFIX WAY [PROTOCOL TIME from PEER] * (…)`. Further routes of a prefix do not repeat it.
fn row(text: &str, former: Option<Cidr>) -> Option<BirdRoute> {
    let (before, rest) = text.split_once('[')?;
    let (source, after) = rest.split_once(']')?;
    let (prefix, way) = match before.starts_with(' ') {
        true => (former?, before),
        false => {
            let (prefix, way) = before.split_once(char::is_whitespace)?;
            (prefix.parse().ok()?, way)
        }
    };
    let mut words = source.split_whitespace();
    let protocol = words.next()?.to_owned();
    let from = words.skip_while(|word| *word != "from").nth(1);
    let mark = after.split_whitespace().next();
    let mut route = BirdRoute {
        prefix,
        protocol,
        from: from.and_then(|peer| peer.split('%').next()).and_then(|peer| peer.parse().ok()),
        primary: matches!(mark, Some("*" | "!")),
        refused: mark == Some("!"),
        gateway: None,
        interface: None,
        attributes: Vec::new(),
    };
    route.way(way);
    Some(route)
}

#[cfg(test)]
mod tests {
    use super::super::Replies;
    use super::*;

    fn parsed(text: &str) -> Vec<BirdRoute> {
        let mut replies = Replies::default();
        replies.push(text.as_bytes());
        routes(&replies.next_reply().unwrap().unwrap())
    }

    #[test]
    fn both_dialects() {
        let two = parsed(
            "1007-Table master4:\n 10.1.0.0/26          blackhole [static1 18:01:01.928] * (200)\n1008-\tType: static univ\n\
             1012-\tBGP.local_pref: 2147482623\n \tBGP.community: (65000,1)\n\
             1007-10.2.0.0/26          unicast [Mesh_1 18:01:04.629 from 10.77.0.2] ! (100/0) [i]\n \tvia 10.0.0.2 on eth0\n\
             1008-\tType: BGP univ\n1012-\tBGP.next_hop: 10.77.0.2 fe80::1\n1007-                     unicast [Mesh_2 18:01:04.629 from fe80::3%eth0] (100/0) [i]\n\
             \x20\tvia 10.0.0.3 on eth1\n0000 \n",
        );
        let [own, best, other] = two.as_slice() else { panic!("{two:?}") };
        assert_eq!((own.primary, own.attribute("local_pref"), own.from), (true, Some("2147482623"), None));
        assert_eq!((best.primary, best.refused, best.interface.as_deref()), (true, true, Some("eth0")));
        assert_eq!(best.next_hop(), Some("10.77.0.2".parse().unwrap()));
        assert_eq!((other.prefix, other.primary), (best.prefix, false));
        assert_eq!((other.gateway, other.from), (Some("10.0.0.3".parse().unwrap()), Some("fe80::3".parse().unwrap())));
        let one = parsed(
            "1007-10.1.0.0/26        via 10.77.0.1 on eth0 [Mesh_1 18:01:03 from 10.77.0.1] * (100/-) [i]\n\
             1008-\tType: BGP unicast univ\n1012-\tBGP.origin: IGP\n \tBGP.as_path: \n \tBGP.next_hop: 10.77.0.1\n0000 \n",
        );
        let [route] = one.as_slice() else { panic!("{one:?}") };
        assert_eq!((route.gateway, route.interface.as_deref()), (Some("10.77.0.1".parse().unwrap()), Some("eth0")));
        assert_eq!(route.attribute("as_path"), Some(""));
        assert!(route.primary && !route.refused);
    }
}
