//! OPEN (RFC 4271 section 4.2), with the extended form of the optional parameters (RFC 9072).

use core::net::Ipv4Addr;
use std::collections::BTreeSet;

use calico_core::net::AsNumber;

use super::capability::{
    AddPathMode, ExtendedNextHop, Fqdn, GracefulRestart, LongLivedGracefulRestart, SoftwareVersion,
};
use super::header::{MessageKind, frame};
use super::reader::Reader;
use super::{AS_TRANS, AddressFamily, Capability, Families, Role, WireError};

const VERSION: u8 = 4;
const CAPABILITIES: u8 = 2;
/// Marks the extended form where the length, and again where the first type, would stand (RFC 9072).
const EXTENDED: u8 = 255;

/// What a speaker says about itself. Checked for what can be checked without knowing the peer's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the fields of RFC 4271 section 4.2")]
pub struct Open {
    /// The AS number: of the four-octet capability where present, else of the two-octet field.
    pub as_number: AsNumber,
    /// Proposed hold time in seconds; 0, or at least 3.
    pub hold_time: u16,
    /// BGP identifier; never zero.
    pub identifier: Ipv4Addr,
    /// Capabilities in the order sent; of equal ones only the last.
    pub capabilities: Vec<Capability>,
}

impl Open {
    /// Reads a body.
    pub fn decode(body: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(body);
        let head = (reader.u8(), reader.u16(), reader.u16(), reader.u32());
        let (Some(version), Some(my_as), Some(hold_time), Some(identifier)) = head else {
            return Err(WireError::MalformedOpen { what: "it is cut short" });
        };
        if version != VERSION {
            return Err(WireError::UnsupportedVersion { version });
        }
        let capabilities = decode_parameters(reader.rest())?;
        let as_number = checked_as(my_as, &capabilities)?;
        if matches!(hold_time, 1 | 2) {
            return Err(WireError::UnacceptableHoldTime { seconds: hold_time });
        }
        let identifier = Ipv4Addr::from(identifier);
        if identifier.is_unspecified() {
            return Err(WireError::BadIdentifier { identifier });
        }
        Ok(Self { as_number, hold_time, identifier, capabilities })
    }

    /// A whole message. Capabilities that would not fit in the short form make it use the extended one.
    pub fn encode(&self) -> Vec<u8> {
        let my_as = u16::try_from(self.as_number.value()).unwrap_or(AS_TRANS);
        let mut body = vec![VERSION];
        body.extend_from_slice(&my_as.to_be_bytes());
        body.extend_from_slice(&self.hold_time.to_be_bytes());
        body.extend_from_slice(&self.identifier.octets());
        let capabilities: Vec<u8> = self.capabilities.iter().flat_map(Capability::encode).collect();
        let short = u8::try_from(capabilities.len()).ok().and_then(|length| Some((length, length.checked_add(2)?)));
        match short {
            _ if capabilities.is_empty() => body.push(0),
            Some((length, total)) if total < EXTENDED => body.extend_from_slice(&[total, CAPABILITIES, length]),
            _ => {
                let length = u16::try_from(capabilities.len()).unwrap_or(u16::MAX);
                body.extend_from_slice(&[EXTENDED, EXTENDED]);
                body.extend_from_slice(&length.saturating_add(3).to_be_bytes());
                body.push(CAPABILITIES);
                body.extend_from_slice(&length.to_be_bytes());
            }
        }
        body.extend_from_slice(&capabilities);
        frame(MessageKind::Open, &body)
    }

    /// Whether a family may be exchanged: an OPEN without any multiprotocol capability implies IPv4 unicast.
    pub fn offers(&self, family: AddressFamily) -> bool {
        let mut any = false;
        for capability in &self.capabilities {
            if let Capability::Multiprotocol(offered) = capability {
                if *offered == family {
                    return true;
                }
                any = true;
            }
        }
        !any && family == AddressFamily::IPV4_UNICAST
    }

    /// Those of the families that this speaker knows which may be exchanged.
    pub fn families(&self) -> Families {
        Families::BOTH.iter().filter(|family| self.offers(AddressFamily::unicast(*family))).collect()
    }

    /// Whether the speaker uses four-octet AS numbers in paths.
    pub fn has_four_octet_as(&self) -> bool {
        self.capabilities.iter().any(|capability| matches!(capability, Capability::FourOctetAs(_)))
    }

    /// Whether it answers route refreshes.
    pub fn has_route_refresh(&self) -> bool {
        self.capabilities.contains(&Capability::RouteRefresh)
    }

    /// Whether it marks begin and end of its answers to route refreshes, and understands such marks.
    pub fn has_enhanced_route_refresh(&self) -> bool {
        self.capabilities.contains(&Capability::EnhancedRouteRefresh)
    }

    /// Whether it takes messages of up to 65 535 octets.
    pub fn has_extended_message(&self) -> bool {
        self.capabilities.contains(&Capability::ExtendedMessage)
    }

    /// Whether prefixes of `family` may have next hops of another address family identifier. Several capabilities add up.
    pub fn has_extended_next_hop(&self, family: AddressFamily, next_hop_afi: u16) -> bool {
        let wanted = ExtendedNextHop { family, next_hop_afi };
        self.capabilities
            .iter()
            .any(|capability| matches!(capability, Capability::ExtendedNextHop(rows) if rows.contains(&wanted)))
    }

    /// What it can do with several paths to one prefix; the last word about a family counts.
    pub fn add_path(&self, family: AddressFamily) -> Option<AddPathMode> {
        self.last(|capability| match capability {
            Capability::AddPath(rows) => rows.iter().rev().find(|row| row.family == family).map(|row| row.mode),
            _ => None,
        })
    }

    /// Its graceful restart capability; the last one counts (RFC 4724 section 3).
    pub fn graceful_restart(&self) -> Option<&GracefulRestart> {
        self.last(|capability| if let Capability::GracefulRestart(restart) = capability { Some(restart) } else { None })
    }

    /// Its long-lived graceful restart capability; the last one counts. It means nothing without the former (RFC 9494 section 4.1).
    pub fn long_lived_graceful_restart(&self) -> Option<&LongLivedGracefulRestart> {
        let _ = self.graceful_restart()?;
        self.last(|capability| match capability {
            Capability::LongLivedGracefulRestart(restart) => Some(restart),
            _ => None,
        })
    }

    /// Its role. Two that differ must end the session (RFC 9234 section 4.2), if it is an external one: on others roles are to
    /// be ignored.
    pub fn role(&self) -> Result<Option<Role>, WireError> {
        let mut role = None;
        for capability in &self.capabilities {
            if let Capability::Role(offered) = capability
                && *role.get_or_insert(*offered) != *offered
            {
                return Err(WireError::RoleMismatch);
            }
        }
        Ok(role)
    }

    /// Its name, if it tells.
    pub fn fqdn(&self) -> Option<&Fqdn> {
        self.last(|capability| if let Capability::Fqdn(name) = capability { Some(name) } else { None })
    }

    /// Its software, if it tells.
    pub fn software_version(&self) -> Option<&SoftwareVersion> {
        self.last(|capability| if let Capability::SoftwareVersion(version) = capability { Some(version) } else { None })
    }

    fn last<'a, T>(&'a self, pick: impl Fn(&'a Capability) -> Option<T>) -> Option<T> {
        self.capabilities.iter().rev().find_map(pick)
    }
}

fn decode_parameters(bytes: &[u8]) -> Result<Vec<Capability>, WireError> {
    let malformed = |what| WireError::MalformedOpen { what };
    let mut reader = Reader::new(bytes);
    let length = reader.u8().ok_or_else(|| malformed("it is cut short"))?;
    let extended = length == EXTENDED && reader.rest().first() == Some(&EXTENDED);
    let total = if extended {
        let _marker = reader.u8();
        usize::from(reader.u16().ok_or_else(|| malformed("the extended parameter length is cut short"))?)
    } else {
        usize::from(length)
    };
    if total != reader.len() {
        return Err(malformed("the optional parameter length does not fit the message"));
    }
    let mut raw = Vec::new();
    while !reader.is_empty() {
        let code = reader.u8();
        let length = if extended { reader.u16() } else { reader.u8().map(u16::from) };
        let value = length.and_then(|length| reader.take(usize::from(length)));
        let (Some(code), Some(value)) = (code, value) else {
            return Err(malformed("an optional parameter runs over the end"));
        };
        if code != CAPABILITIES {
            return Err(WireError::UnsupportedOptionalParameter { code });
        }
        split_capabilities(value, &mut raw)?;
    }
    // Equal ones are one (RFC 5492 section 4). The last stays, because for some the last counts.
    let mut seen = BTreeSet::new();
    raw.reverse();
    raw.retain(|capability| seen.insert(*capability));
    Ok(raw.into_iter().rev().map(|(code, value)| Capability::decode(code, value)).collect())
}

fn split_capabilities<'a>(bytes: &'a [u8], into: &mut Vec<(u8, &'a [u8])>) -> Result<(), WireError> {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let code = reader.u8();
        let value = reader.u8().and_then(|length| reader.take(usize::from(length)));
        let (Some(code), Some(value)) = (code, value) else {
            return Err(WireError::MalformedOpen { what: "a capability runs over its parameter" });
        };
        into.push((code, value));
    }
    Ok(())
}

/// The two-octet field and the capability must agree (RFC 6793 section 4.2.3); zero is no AS (RFC 7607).
fn checked_as(my_as: u16, capabilities: &[Capability]) -> Result<AsNumber, WireError> {
    let mut number = None;
    for capability in capabilities {
        if let Capability::FourOctetAs(offered) = capability {
            let offered = offered.value();
            if *number.get_or_insert(offered) != offered {
                return Err(WireError::BadPeerAs { received: offered, expected: number.unwrap_or(offered) });
            }
        }
    }
    let two_octet = u32::from(my_as);
    let Some(number) = number else {
        return match my_as {
            0 | AS_TRANS => Err(WireError::BadPeerAs { received: two_octet, expected: two_octet }),
            _ => Ok(AsNumber::new(two_octet)),
        };
    };
    let field = u32::from(u16::try_from(number).unwrap_or(AS_TRANS));
    if number == 0 || number == u32::from(AS_TRANS) || field != two_octet {
        return Err(WireError::BadPeerAs { received: two_octet, expected: number });
    }
    Ok(AsNumber::new(number))
}
