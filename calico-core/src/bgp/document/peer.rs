//! One peer of a document.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::bgp::{
    AddPath, BGP_PORT, Bfd, DesiredPeer, Families, Filter, NextHop, Password, PeerId, PeerKind, PeerPolicy, Role,
    Secret, SessionParameters, Source,
};
use crate::net::{AsNumber, Family};
use crate::resource::GoDuration;

/// A peer. What is not said is as a BGPPeer has it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct PeerSpec {
    /// Address; of a link-local one with its interface, `fe80::1%eth0`.
    pub(super) address: Option<String>,
    as_number: Option<AsNumber>,
    name: Option<String>,
    port: Option<u16>,
    families: Option<Vec<FamilyName>>,
    passive: bool,
    password: Option<Key>,
    ttl_security: Option<u8>,
    source_address: Option<String>,
    reachable_by: Option<IpAddr>,
    #[serde(rename = "localASNumber")]
    local_as: Option<AsNumber>,
    hold_time: Option<String>,
    keepalive_time: Option<String>,
    max_restart_time: Option<String>,
    long_lived_time: Option<String>,
    add_path: Option<AddPathSpec>,
    extended_next_hop: bool,
    role: Option<RoleName>,
    bfd: Option<BfdSpec>,
    maximum_prefixes: Option<u32>,
    next_hop_mode: NextHopName,
    reflector_client: bool,
    #[serde(rename = "numAllowedLocalASNumbers")]
    own_as_allowed: u32,
    filters: Vec<String>,
}

/// A password, whatever form it has: no error may show it.
#[derive(Deserialize)]
#[serde(transparent)]
struct Key(Value);

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key(..)")
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum FamilyName {
    IPv4,
    IPv6,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
enum NextHopName {
    #[default]
    Auto,
    #[serde(rename = "Self")]
    Own,
    Keep,
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum RoleName {
    Provider,
    RouteServer,
    RouteServerClient,
    Customer,
    Peer,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AddPathSpec {
    receive: bool,
    send: u8,
}

/// Names and defaults as in the annotation of a BGPPeer.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct BfdSpec {
    transmit_interval: Option<String>,
    receive_interval: Option<String>,
    multiplier: Option<u8>,
    multihop: bool,
}

impl PeerSpec {
    /// Whom to talk to.
    pub(super) fn id(&self) -> Result<PeerId, String> {
        let text = self.address.as_deref().ok_or("it has no address")?;
        let (address, interface) = match text.split_once('%') {
            Some((address, interface)) => (address, Some(interface)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| format!("{text:?} is no address"))?;
        let is_local = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
        if is_local != interface.is_some() {
            return Err(format!("{text}: link-local addresses, and only those, have an interface, as fe80::1%eth0"));
        }
        let interface = interface.map(str::parse).transpose().map_err(|error| format!("{text}: {error}"))?;
        Ok(PeerId { address, interface })
    }

    /// The session.
    pub(super) fn desired(&self, id: PeerId, filters: &BTreeMap<&str, Arc<Filter>>) -> Result<DesiredPeer, String> {
        let name = self.name.clone().unwrap_or_else(|| id.to_string());
        Ok(DesiredPeer {
            id,
            port: self.port.unwrap_or(BGP_PORT),
            as_number: self.as_number.ok_or("it has no asNumber")?,
            kind: PeerKind::Global,
            name,
            session: self.session(id)?,
            policy: self.policy(filters)?,
        })
    }

    fn session(&self, id: PeerId) -> Result<SessionParameters, String> {
        let families = match &self.families {
            None => Families::only(Family::of(id.address)),
            Some(names) => names.iter().map(|name| family(*name)).collect(),
        };
        if families.is_empty() {
            return Err("families: give IPv4, IPv6 or both".to_string());
        }
        let password = match &self.password {
            None => Password::None,
            Some(Key(text)) => {
                let text = text.as_str().ok_or("password: it is no text; put it in quotes")?;
                Password::Key(Secret::new(text.into()).map_err(|error| format!("password: {error}"))?)
            }
        };
        Ok(SessionParameters {
            local_as: self.local_as,
            families,
            source: self.source(id)?,
            passive: self.passive,
            password,
            ttl_security: self.ttl_security,
            hold_time: self.hold()?,
            keepalive: seconds("keepaliveTime", self.keepalive_time.as_deref(), u16::MAX.into())?.map(short),
            restart_time: seconds("maxRestartTime", self.max_restart_time.as_deref(), 4095)?.map(short),
            long_lived: seconds("longLivedTime", self.long_lived_time.as_deref(), 0xff_ffff)?,
            add_path: self
                .add_path
                .as_ref()
                .map(|wanted| AddPath { receive: wanted.receive, send: wanted.send })
                .unwrap_or_default(),
            extended_next_hop: self.extended_next_hop,
            role: self.role.map(role),
            bfd: self.bfd.as_ref().map(BfdSpec::session).transpose()?,
            gateway: self.reachable_by,
            maximum_prefixes: self.maximum_prefixes,
        })
    }

    fn hold(&self) -> Result<Option<u16>, String> {
        let hold = seconds("holdTime", self.hold_time.as_deref(), u16::MAX.into())?.map(short);
        match hold {
            Some(1 | 2) => Err("holdTime: it is 0s, or at least 3s (RFC 4271)".to_string()),
            hold => Ok(hold),
        }
    }

    fn source(&self, id: PeerId) -> Result<Source, String> {
        let Some(text) = self.source_address.as_deref() else { return Ok(Source::Node) };
        if text == "None" {
            return Ok(Source::Kernel);
        }
        let address: IpAddr = text.parse().map_err(|_| format!("sourceAddress: {text:?} is no address, nor None"))?;
        if Family::of(address) != Family::of(id.address) {
            return Err(format!("sourceAddress: {address} cannot reach {id}"));
        }
        Ok(Source::Address(address))
    }

    fn policy(&self, filters: &BTreeMap<&str, Arc<Filter>>) -> Result<PeerPolicy, String> {
        let filter = |name: &String| {
            filters.get(name.as_str()).cloned().ok_or_else(|| format!("filters: there is no filter {name:?}"))
        };
        Ok(PeerPolicy {
            next_hop: match self.next_hop_mode {
                NextHopName::Auto => NextHop::Auto,
                NextHopName::Own => NextHop::Own,
                NextHopName::Keep => NextHop::Keep,
            },
            reflector_client: self.reflector_client,
            own_as_allowed: self.own_as_allowed,
            filters: self.filters.iter().map(filter).collect::<Result<_, _>>()?,
        })
    }
}

impl BfdSpec {
    fn session(&self) -> Result<Bfd, String> {
        let pause = |field: &str, text: &Option<String>| match text {
            None => Ok(Duration::from_millis(300)),
            Some(text) => duration(text)
                .filter(|pause| (Duration::from_millis(1)..=Duration::from_secs(60)).contains(pause))
                .ok_or_else(|| format!("bfd.{field}: {text:?} is no duration from 1ms to 1m")),
        };
        Ok(Bfd {
            transmit: pause("transmitInterval", &self.transmit_interval)?,
            receive: pause("receiveInterval", &self.receive_interval)?,
            multiplier: match self.multiplier {
                Some(0) => return Err("bfd.multiplier: it cannot be 0".to_string()),
                multiplier => multiplier.unwrap_or(3),
            },
            multihop: self.multihop,
        })
    }
}

const fn family(name: FamilyName) -> Family {
    match name {
        FamilyName::IPv4 => Family::V4,
        FamilyName::IPv6 => Family::V6,
    }
}

const fn role(name: RoleName) -> Role {
    match name {
        RoleName::Provider => Role::Provider,
        RoleName::RouteServer => Role::RouteServer,
        RoleName::RouteServerClient => Role::RouteServerClient,
        RoleName::Customer => Role::Customer,
        RoleName::Peer => Role::Peer,
    }
}

fn duration(text: &str) -> Option<Duration> {
    text.parse::<GoDuration>().ok()?.duration()
}

/// Whole seconds, up to what the protocol can say.
fn seconds(field: &str, text: Option<&str>, most: u32) -> Result<Option<u32>, String> {
    let Some(text) = text else { return Ok(None) };
    let found = duration(text).filter(|duration| duration.subsec_nanos() == 0);
    let found = found.and_then(|duration| u32::try_from(duration.as_secs()).ok()).filter(|seconds| *seconds <= most);
    found.map(Some).ok_or_else(|| format!("{field}: {text:?} is no number of whole seconds up to {most}s, such as 90s"))
}

/// Of what is bounded.
fn short(seconds: u32) -> u16 {
    u16::try_from(seconds).unwrap_or(u16::MAX)
}
