//! Conditions on a packet.

use alloc::vec::Vec;
use core::net::IpAddr;

use super::SetName;
use crate::net::{Cidr, Family, InterfaceName, PortRange};

/// A packet field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Field {
    /// Interface the packet came in by.
    IifName,
    /// Interface it goes out by.
    OifName,
    /// Source address. A packet of the other family does not match.
    SrcAddr(Family),
    /// Destination address. A packet of the other family does not match.
    DstAddr(Family),
    /// Layer-4 protocol.
    L4Proto,
    /// Source port (TCP, UDP, SCTP and others with ports in the first four octets).
    SrcPort,
    /// Destination port.
    DstPort,
    /// IPv4 address of an ARP packet's sender ([`Table::Arp`](super::Table::Arp) only).
    ArpSender,
}

/// A value that a field is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Value {
    /// Interface name.
    Interface(InterfaceName),
    /// Address.
    Addr(IpAddr),
    /// Protocol number.
    Proto(u8),
    /// Port.
    Port(u16),
}

/// Connection-tracking states, as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CtState(u32);

impl CtState {
    /// `invalid`.
    pub const INVALID: Self = Self(1);
    /// `established`.
    pub const ESTABLISHED: Self = Self(2);
    /// `related`.
    pub const RELATED: Self = Self(4);
    /// `new`.
    pub const NEW: Self = Self(8);
    /// `untracked`.
    pub const UNTRACKED: Self = Self(64);

    /// Either of the two.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The bits as the kernel numbers them (`NF_CT_STATE_BIT`).
    pub const fn bits(self) -> u32 {
        self.0
    }
}

/// Flags of a TCP packet, as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TcpFlags(u8);

impl TcpFlags {
    /// The sender will send no more.
    pub const FIN: Self = Self(1);
    /// A connection begins.
    pub const SYN: Self = Self(2);
    /// The connection is refused, or broken off.
    pub const RST: Self = Self(4);
    /// Something is acknowledged.
    pub const ACK: Self = Self(16);

    /// Both.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The bits as they stand in the header.
    pub const fn bits(self) -> u8 {
        self.0
    }
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Match {
    /// The packet is of this family.
    Family(Family),
    /// The field equals (or, negated, differs from) the value.
    Equal {
        /// Field.
        field: Field,
        /// Value of the field's type.
        value: Value,
        /// Differs instead.
        negated: bool,
    },
    /// The interface name starts with this text (`cali` for `cali*`).
    InterfacePrefix {
        /// [`Field::IifName`] or [`Field::OifName`].
        field: Field,
        /// The prefix, without a wildcard.
        prefix: InterfaceName,
        /// Does not start so instead.
        negated: bool,
    },
    /// The address lies in the prefix.
    InCidr {
        /// An address field of the prefix's family.
        field: Field,
        /// The prefix.
        cidr: Cidr,
        /// Lies outside instead.
        negated: bool,
    },
    /// The address lies in one of the prefixes (or, negated, in none). All of one family.
    InCidrs {
        /// An address field of that family.
        field: Field,
        /// The prefixes; not empty, none overlaps another.
        cidrs: Vec<Cidr>,
        /// In none instead.
        negated: bool,
    },
    /// The port lies in one of the ranges (or, negated, in none).
    InPorts {
        /// [`Field::SrcPort`] or [`Field::DstPort`].
        field: Field,
        /// The ranges; not empty, none overlaps another.
        ranges: Vec<PortRange>,
        /// In none instead.
        negated: bool,
    },
    /// The key is a member of the named set.
    InSet {
        /// Fields that form the key, in the order of the set's key types.
        key: Vec<Field>,
        /// The set.
        set: SetName,
        /// Is no member instead.
        negated: bool,
    },
    /// ICMP or ICMPv6 type, and code where given. A packet of another protocol does not match, negated or not.
    Icmp {
        /// Which ICMP.
        family: Family,
        /// Type; none matches any type (of that ICMP).
        icmp_type: u8,
        /// Code.
        code: Option<u8>,
        /// Differs instead.
        negated: bool,
    },
    /// `flags & mask == value` (or, negated, differs) of a TCP packet, the flags being numbered as in its header ([`TcpFlags`]). A packet of
    /// another protocol does not match, negated or not.
    Tcp {
        /// Flags looked at.
        mask: TcpFlags,
        /// Those of them that are set.
        value: TcpFlags,
        /// Differs instead.
        negated: bool,
    },
    /// The connection is in one of the states.
    CtState(CtState),
    /// The connection's destination was (or, negated, was not) translated. Of a packet without a connection (invalid, untracked) neither
    /// holds.
    Translated {
        /// Was not instead.
        negated: bool,
    },
    /// The address is (or, negated, is not) one of this host's.
    Local {
        /// An address field.
        field: Field,
        /// Is not instead.
        negated: bool,
    },
    /// The packet is an ARP reply ([`Table::Arp`](super::Table::Arp) only).
    ArpReply,
    /// `mark & mask == value` (or, negated, differs).
    Mark {
        /// Bits looked at.
        mask: u32,
        /// Their value.
        value: u32,
        /// Differs instead.
        negated: bool,
    },
}
