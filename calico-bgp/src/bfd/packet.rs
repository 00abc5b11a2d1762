//! The control packet of RFC 5880 section 4.1, without authentication.

use core::fmt;
use core::num::{NonZeroU8, NonZeroU32};

use crate::wire::reader::Reader;

/// Octets of a control packet without authentication.
pub const PACKET_LENGTH: usize = 24;
const VERSION: u8 = 1;
/// Least length with an authentication section: type and length of it.
const AUTHENTICATED_LENGTH: usize = 26;

const POLL: u8 = 0x20;
const FINAL: u8 = 0x10;
const INDEPENDENT: u8 = 0x08;
const AUTHENTICATED: u8 = 0x04;
const DEMAND: u8 = 0x02;
const MULTIPOINT: u8 = 0x01;

/// State of a session, as either end sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the states of RFC 5880, two bits on the wire")]
pub enum State {
    /// Held down by an operator.
    AdminDown,
    /// Nothing is heard, or the other end does not hear.
    Down,
    /// The other end is heard, and does not yet know it.
    Init,
    /// Both ends hear each other.
    Up,
}

/// Why the session last left [`State::Up`]: five bits, of which RFC 5880 names nine values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Diagnostic(u8);

/// A control packet that passed the checks of RFC 5880 section 6.8.6 that need no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the fields of RFC 5880")]
pub struct ControlPacket {
    /// Why the sender's session last went down.
    pub diagnostic: Diagnostic,
    /// The sender's state.
    pub state: State,
    /// P: an answer is asked for.
    pub poll: bool,
    /// F: this is the answer.
    pub answer: bool,
    /// C: the sender's BFD lives on without its control plane.
    pub control_plane_independent: bool,
    /// D: the sender asks not to be sent periodic packets.
    pub demand: bool,
    /// Detect Mult.
    pub multiplier: NonZeroU8,
    /// The sender's discriminator.
    pub my_discriminator: NonZeroU32,
    /// The receiver's discriminator, once the sender knows it.
    pub your_discriminator: Option<NonZeroU32>,
    /// Desired Min TX Interval in microseconds.
    pub desired_min_tx: u32,
    /// Required Min RX Interval in microseconds.
    pub required_min_rx: u32,
    /// Required Min Echo RX Interval in microseconds.
    pub required_min_echo_rx: u32,
}

/// A packet that no session may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// Shorter than a header, than it says, or than its flags require.
    #[error("the length does not fit")]
    Length,
    /// Not version 1.
    #[error("the version is not 1")]
    Version,
    /// Detect Mult is zero.
    #[error("the detection multiplier is zero")]
    Multiplier,
    /// Point-to-multipoint, which RFC 5880 reserves.
    #[error("the multipoint bit is set")]
    Multipoint,
    /// The sender has no discriminator.
    #[error("the sender's discriminator is zero")]
    Discriminator,
    /// Your Discriminator is zero, in a state that can only be reached by knowing it.
    #[error("the receiver's discriminator is zero in state Init or Up")]
    StateWithoutDiscriminator,
    /// Authenticated; no session here is.
    #[error("the packet is authenticated and the session is not")]
    Authenticated,
    /// P and F together, which RFC 5880 section 6.5 forbids. To answer would let two ends answer each other for ever.
    #[error("poll and final bits are both set")]
    PollAndFinal,
}

impl ControlPacket {
    /// Parses the payload of a UDP datagram. What follows the packet's own length is ignored.
    pub fn decode(payload: &[u8]) -> Result<Self, PacketError> {
        let mut reader = Reader::new(payload);
        let Some([first, flags, multiplier, length]) = reader.array() else {
            return Err(PacketError::Length);
        };
        if first >> 5 != VERSION {
            return Err(PacketError::Version);
        }
        let least = if flags & AUTHENTICATED == 0 { PACKET_LENGTH } else { AUTHENTICATED_LENGTH };
        if usize::from(length) < least || usize::from(length) > payload.len() {
            return Err(PacketError::Length);
        }
        let multiplier = NonZeroU8::new(multiplier).ok_or(PacketError::Multiplier)?;
        if flags & MULTIPOINT != 0 {
            return Err(PacketError::Multipoint);
        }
        let mut word = || reader.u32().ok_or(PacketError::Length);
        let packet = Self {
            diagnostic: Diagnostic(first & 0x1f),
            state: State::from_bits(flags >> 6),
            poll: flags & POLL != 0,
            answer: flags & FINAL != 0,
            control_plane_independent: flags & INDEPENDENT != 0,
            demand: flags & DEMAND != 0,
            multiplier,
            my_discriminator: NonZeroU32::new(word()?).ok_or(PacketError::Discriminator)?,
            your_discriminator: NonZeroU32::new(word()?),
            desired_min_tx: word()?,
            required_min_rx: word()?,
            required_min_echo_rx: word()?,
        };
        if packet.your_discriminator.is_none() && !matches!(packet.state, State::Down | State::AdminDown) {
            return Err(PacketError::StateWithoutDiscriminator);
        }
        if flags & AUTHENTICATED != 0 {
            return Err(PacketError::Authenticated);
        }
        if packet.poll && packet.answer {
            return Err(PacketError::PollAndFinal);
        }
        Ok(packet)
    }

    /// The payload of a UDP datagram.
    pub fn encode(&self) -> [u8; PACKET_LENGTH] {
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = (self.state.bits() << 6)
            | bit(self.poll, POLL)
            | bit(self.answer, FINAL)
            | bit(self.control_plane_independent, INDEPENDENT)
            | bit(self.demand, DEMAND);
        let first = (VERSION << 5) | self.diagnostic.0;
        let words = [
            u32::from_be_bytes([first, flags, self.multiplier.get(), PACKET_LENGTH as u8]),
            self.my_discriminator.get(),
            self.your_discriminator.map_or(0, NonZeroU32::get),
            self.desired_min_tx,
            self.required_min_rx,
            self.required_min_echo_rx,
        ];
        let mut bytes = [0; PACKET_LENGTH];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }
}

impl State {
    const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::AdminDown,
            1 => Self::Down,
            2 => Self::Init,
            _ => Self::Up,
        }
    }

    const fn bits(self) -> u8 {
        match self {
            Self::AdminDown => 0,
            Self::Down => 1,
            Self::Init => 2,
            Self::Up => 3,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AdminDown => "AdminDown",
            Self::Down => "Down",
            Self::Init => "Init",
            Self::Up => "Up",
        })
    }
}

impl Diagnostic {
    /// Nothing has happened.
    pub const NONE: Self = Self(0);
    /// The detection time passed without a packet.
    pub const EXPIRED: Self = Self(1);
    /// The other end said that its session is down.
    pub const NEIGHBOR_DOWN: Self = Self(3);
    /// An operator holds the session down.
    pub const ADMIN_DOWN: Self = Self(7);

    /// As on the wire.
    pub const fn code(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            0 => "no diagnostic",
            1 => "control detection time expired",
            2 => "echo function failed",
            3 => "neighbor signaled session down",
            4 => "forwarding plane reset",
            5 => "path down",
            6 => "concatenated path down",
            7 => "administratively down",
            8 => "reverse concatenated path down",
            reserved => return write!(f, "diagnostic {reserved}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every field has a value of its own.
    const BYTES: [u8; PACKET_LENGTH] = [
        0x23, 0x6a, 5, 24, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24, 0x31, 0x32, 0x33, 0x34, 0x41, 0x42, 0x43,
        0x44, 0x51, 0x52, 0x53, 0x54,
    ];

    fn changed(changes: &[(usize, u8)]) -> [u8; PACKET_LENGTH] {
        let mut bytes = BYTES;
        for (position, value) in changes {
            bytes[*position] = *value;
        }
        bytes
    }

    #[test]
    fn every_field_is_where_rfc_5880_puts_it() {
        let packet = ControlPacket::decode(&BYTES).unwrap();
        let expected = ControlPacket {
            diagnostic: Diagnostic::NEIGHBOR_DOWN,
            state: State::Down,
            poll: true,
            answer: false,
            control_plane_independent: true,
            demand: true,
            multiplier: NonZeroU8::new(5).unwrap(),
            my_discriminator: NonZeroU32::new(0x1112_1314).unwrap(),
            your_discriminator: NonZeroU32::new(0x2122_2324),
            desired_min_tx: 0x3132_3334,
            required_min_rx: 0x4142_4344,
            required_min_echo_rx: 0x5152_5354,
        };
        assert_eq!(packet, expected);
        assert_eq!(packet.encode(), BYTES);
    }

    #[test]
    fn every_flag_is_a_bit_of_its_own() {
        let flags = |packet: ControlPacket| {
            [packet.poll, packet.answer, packet.control_plane_independent, packet.demand].map(u8::from)
        };
        for (bit, expected) in
            [(0x20, [1, 0, 0, 0]), (0x10, [0, 1, 0, 0]), (0x08, [0, 0, 1, 0]), (0x02, [0, 0, 0, 1]), (0, [0; 4])]
        {
            let bytes = changed(&[(1, 0xc0 | bit)]);
            let packet = ControlPacket::decode(&bytes).unwrap();
            assert_eq!((packet.state, flags(packet)), (State::Up, expected), "{bit:#04x}");
            assert_eq!(packet.encode(), bytes);
        }
        for (bits, state) in [(0x00, State::AdminDown), (0x40, State::Down), (0x80, State::Init), (0xc0, State::Up)] {
            let bytes = changed(&[(1, bits)]);
            assert_eq!(ControlPacket::decode(&bytes).unwrap().state, state);
            assert_eq!(ControlPacket::decode(&bytes).unwrap().encode(), bytes);
        }
        for code in 0..32 {
            let packet = ControlPacket::decode(&changed(&[(0, 0x20 | code)])).unwrap();
            assert_eq!(packet.diagnostic.code(), code);
        }
    }

    #[test]
    fn what_section_6_8_6_discards_is_discarded() {
        let zero = |from: usize| [(from, 0), (from + 1, 0), (from + 2, 0), (from + 3, 0)];
        let cases: [(&[(usize, u8)], PacketError); 14] = [
            (&[(0, 0x03)], PacketError::Version),
            (&[(0, 0x43)], PacketError::Version),
            (&[(0, 0xe3)], PacketError::Version),
            (&[(3, 0)], PacketError::Length),
            (&[(3, 23)], PacketError::Length),
            (&[(3, 25)], PacketError::Length),
            (&[(3, 255)], PacketError::Length),
            (&[(2, 0)], PacketError::Multiplier),
            (&[(1, 0x6b)], PacketError::Multipoint),
            (&[(1, 0x6e)], PacketError::Length),
            (&zero(4), PacketError::Discriminator),
            (&[(1, 0x80), (8, 0), (9, 0), (10, 0), (11, 0)], PacketError::StateWithoutDiscriminator),
            (&[(1, 0xc0), (8, 0), (9, 0), (10, 0), (11, 0)], PacketError::StateWithoutDiscriminator),
            (&[(1, 0x70)], PacketError::PollAndFinal),
        ];
        for (changes, expected) in cases {
            assert_eq!(ControlPacket::decode(&changed(changes)), Err(expected), "{changes:?}");
        }
        for length in 0..PACKET_LENGTH {
            assert_eq!(ControlPacket::decode(&BYTES[..length]), Err(PacketError::Length), "{length}");
        }
        for state in [0x00, 0x40] {
            let first = changed(&[(1, state), (8, 0), (9, 0), (10, 0), (11, 0)]);
            assert_eq!(ControlPacket::decode(&first).unwrap().your_discriminator, None);
        }
    }

    #[test]
    fn an_authenticated_packet_is_discarded_and_a_longer_one_is_not() {
        let mut authenticated = changed(&[(1, 0x6e), (3, 33)]).to_vec();
        authenticated.extend([1, 9, 1, b's', b'e', b'c', b'r', b'e', b't']);
        assert_eq!(ControlPacket::decode(&authenticated), Err(PacketError::Authenticated));
        assert_eq!(ControlPacket::decode(&authenticated[..25]), Err(PacketError::Length));
        let mut padded = BYTES.to_vec();
        padded.extend([0; 20]);
        assert_eq!(ControlPacket::decode(&padded), ControlPacket::decode(&BYTES));
        padded[3] = 30;
        assert_eq!(ControlPacket::decode(&padded), ControlPacket::decode(&BYTES));
    }

    #[test]
    fn diagnostics_have_the_names_of_rfc_5880() {
        let names: Vec<_> = (0..10).map(|code| Diagnostic(code).to_string()).collect();
        assert_eq!(
            names,
            [
                "no diagnostic",
                "control detection time expired",
                "echo function failed",
                "neighbor signaled session down",
                "forwarding plane reset",
                "path down",
                "concatenated path down",
                "administratively down",
                "reverse concatenated path down",
                "diagnostic 9",
            ]
        );
    }
}
