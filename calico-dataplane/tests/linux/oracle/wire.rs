//! Packets as octets: what a flow looks like on the wire, with a number by which it is known again wherever it arrives.

use std::net::IpAddr;

use calico_core::flow::Flow;

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const SCTP: u8 = 132;
pub(crate) const ICMP: u8 = 1;
pub(crate) const ICMPV6: u8 = 58;
pub(crate) const GRE: u8 = 47;
pub(crate) const OSPF: u8 = 89;
/// IPv4 in IP.
pub(crate) const IPIP: u8 = 4;

/// What stands before a packet's number.
const MAGIC: [u8; 8] = *b"oracle-4";

/// Which part of a conversation a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// What begins one.
    First,
    /// What can be of none: TCP that both begins and ends.
    Impossible,
    /// What answers the first.
    Answer,
    /// What says that the first could not be delivered.
    Complaint,
}

/// Sequence number of a first TCP segment, and verification tag that a first SCTP chunk asks for.
const FIRST: u32 = 0x0100_0000;

/// The packet of a flow, with its number. What comes back is given by its own flow; a complaint quotes what it is about.
pub(crate) fn packet(flow: &Flow, part: Part, number: u32, about: Option<&[u8]>) -> Vec<u8> {
    let mut payload = about.unwrap_or_default().to_vec();
    payload.extend(MAGIC);
    payload.extend(number.to_be_bytes());
    let transport = transport(flow, part, number, &payload);
    let length = u16::try_from(transport.len()).unwrap();
    let mut packet = Vec::new();
    match (flow.source, flow.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            packet.extend([0x45, 0]);
            packet.extend((length + 20).to_be_bytes());
            packet.extend([0, 0, 0x40, 0, 64, flow.protocol, 0, 0]);
            packet.extend(source.octets().iter().chain(&destination.octets()));
            let sum = checksum(&[&packet]);
            put(&mut packet, 10, sum);
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            packet.extend([0x60, 0, 0, 0]);
            packet.extend(length.to_be_bytes());
            packet.extend([flow.protocol, 64]);
            packet.extend(source.octets().iter().chain(&destination.octets()));
        }
        _ => panic!("a flow of two families: {flow:?}"),
    }
    packet.extend(transport);
    packet
}

fn transport(flow: &Flow, part: Part, number: u32, payload: &[u8]) -> Vec<u8> {
    let mut octets = Vec::new();
    let ports = [flow.source_port.to_be_bytes(), flow.destination_port.to_be_bytes()].concat();
    match flow.protocol {
        TCP => {
            let (sequence, acknowledged, flags) = match part {
                Part::First | Part::Complaint => (FIRST, 0, 0x02),
                Part::Impossible => (FIRST, 0, 0x03),
                Part::Answer => (2 * FIRST, FIRST + 1, 0x12),
            };
            octets.extend(ports);
            octets.extend(sequence.to_be_bytes());
            octets.extend(u32::to_be_bytes(acknowledged));
            octets.extend([0x50, flags, 0x10, 0, 0, 0, 0, 0]);
            octets.extend(payload);
            finish(flow, &mut octets, 16);
        }
        UDP => {
            octets.extend(ports);
            octets.extend(u16::try_from(8 + payload.len()).unwrap().to_be_bytes());
            octets.extend([0, 0]);
            octets.extend(payload);
            finish(flow, &mut octets, 6);
        }
        SCTP => octets = association(&ports, part, payload),
        ICMP | ICMPV6 => {
            let (icmp_type, code) = flow.icmp.unwrap();
            octets.extend([icmp_type, code, 0, 0]);
            octets.extend(identifier(number).to_be_bytes());
            octets.extend([0, 1]);
            octets.extend(payload);
            finish(flow, &mut octets, 2);
        }
        GRE => {
            octets.extend([0, 0, 0x08, 0]);
            octets.extend(payload);
        }
        _ => octets.extend(payload),
    }
    octets
}

/// Chunk that begins an association, or answers one.
fn association(ports: &[u8], part: Part, payload: &[u8]) -> Vec<u8> {
    let (tag, kind) = if part == Part::Answer { (FIRST, 2) } else { (0, 1) };
    let mut octets = ports.to_vec();
    octets.extend(u32::to_be_bytes(tag));
    octets.extend([0; 4]);
    octets.extend([kind, 0]);
    octets.extend(u16::try_from(20 + payload.len()).unwrap().to_be_bytes());
    octets.extend(FIRST.to_be_bytes());
    octets.extend(0x1_0000_u32.to_be_bytes());
    octets.extend([0, 1, 0, 1]);
    octets.extend(FIRST.to_be_bytes());
    octets.extend(payload);
    let sum = crc32c(&octets).to_le_bytes();
    octets.splice(8..12, sum);
    octets
}

/// Of an ICMP query; each packet has its own, so none belongs to the connection of another.
pub(crate) fn identifier(number: u32) -> u16 {
    u16::try_from(number & 0xffff).unwrap()
}

/// The number of a packet, which is at its end.
pub(crate) fn number(packet: &[u8]) -> Option<u32> {
    let (rest, number) = packet.split_last_chunk()?;
    rest.ends_with(&MAGIC).then(|| u32::from_be_bytes(*number))
}

/// A packet as it was caught: the flow by the addresses and ports that it has now, and its number.
pub(crate) fn read(packet: &[u8]) -> Option<(u32, IpAddr, u16)> {
    let (protocol, destination, rest): (u8, IpAddr, &[u8]) = match packet.first()? >> 4 {
        4 => (*packet.get(9)?, IpAddr::from(<[u8; 4]>::try_from(packet.get(16..20)?).ok()?), packet.get(20..)?),
        6 => (*packet.get(6)?, IpAddr::from(<[u8; 16]>::try_from(packet.get(24..40)?).ok()?), packet.get(40..)?),
        _ => return None,
    };
    let port = match protocol {
        TCP | UDP | SCTP => u16::from_be_bytes(rest.get(2..4)?.try_into().ok()?),
        _ => 0,
    };
    Some((number(packet)?, destination, port))
}

/// Writes the checksum over pseudo header and packet; its place holds zeros.
fn finish(flow: &Flow, octets: &mut [u8], place: usize) {
    let mut pseudo = Vec::new();
    for address in [flow.source, flow.destination] {
        match address {
            IpAddr::V4(address) => pseudo.extend(address.octets()),
            IpAddr::V6(address) => pseudo.extend(address.octets()),
        }
    }
    pseudo.extend([0, flow.protocol]);
    pseudo.extend(u16::try_from(octets.len()).unwrap().to_be_bytes());
    if flow.protocol == ICMP {
        pseudo.clear();
    }
    // Zero would say that there is none.
    let sum = match checksum(&[&pseudo, octets]) {
        0 if flow.protocol == UDP => u16::MAX,
        sum => sum,
    };
    put(octets, place, sum);
}

fn put(octets: &mut [u8], place: usize, sum: u16) {
    octets.get_mut(place..place + 2).unwrap().copy_from_slice(&sum.to_be_bytes());
}

/// Of parts with an even number of octets each.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let word = |pair: &[u8]| u32::from(*pair.first().unwrap()) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u32 = words.map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).map(|sum| !sum).unwrap()
}

fn crc32c(octets: &[u8]) -> u32 {
    let step = |sum: u32, _| if sum & 1 == 1 { (sum >> 1) ^ 0x82f6_3b78 } else { sum >> 1 };
    !octets.iter().fold(u32::MAX, |sum, octet| (0..8).fold(sum ^ u32::from(*octet), step))
}
