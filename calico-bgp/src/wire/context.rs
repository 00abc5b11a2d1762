//! What reading and writing depend on once two OPENs have been exchanged.
//!
//! Both contexts are small and `Copy`: a connection holds one of each, and peers whose [`EncodeContext`] is equal can be sent the
//! same bytes.

use calico_core::bgp::Families;
use calico_core::net::Family;

use super::capability::AddPathMode;
use super::header::{MAX_EXTENDED_LENGTH, MAX_MESSAGE_LENGTH};
use super::{AddressFamily, Open, PeerType};

/// How a peer's messages are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "what the two OPENs agree on; whoever builds one must say it all")]
pub struct DecodeContext {
    /// The kind of session, which decides how attributes that only one kind may carry are treated.
    pub peer: PeerType,
    /// Whether AS numbers in paths have four octets (RFC 6793).
    pub four_octet_as: bool,
    /// Families that may be exchanged. Routes of others are recognised and ignored.
    pub families: Families,
    /// Families whose prefixes the peer sends with path identifiers (RFC 7911).
    pub add_path: Families,
    /// Families whose prefixes may have a next hop of the other kind (RFC 8950): only IPv4 means anything.
    pub extended_next_hop: Families,
    /// Whether messages of up to 65 535 octets may come (RFC 8654).
    pub extended_message: bool,
}

impl DecodeContext {
    /// What holds without any agreement on options: IPv4 unicast, messages of 4096 octets. AS numbers of four octets.
    pub const fn new(peer: PeerType) -> Self {
        Self {
            peer,
            four_octet_as: true,
            families: Families::IPV4,
            add_path: Families::NONE,
            extended_next_hop: Families::NONE,
            extended_message: false,
        }
    }
}

/// How messages to a peer are to be written. Equal contexts get equal bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "what the two OPENs agree on; whoever builds one must say it all")]
pub struct EncodeContext {
    /// Whether AS numbers in paths have four octets (RFC 6793).
    pub four_octet_as: bool,
    /// Families whose prefixes are sent with path identifiers (RFC 7911).
    pub add_path: Families,
    /// Whether messages may have up to 65 535 octets (RFC 8654).
    pub extended_message: bool,
}

impl EncodeContext {
    /// Most octets of an UPDATE.
    pub const fn max_message_length(self) -> usize {
        if self.extended_message { MAX_EXTENDED_LENGTH } else { MAX_MESSAGE_LENGTH }
    }
}

impl Default for EncodeContext {
    /// AS numbers of four octets, no path identifiers, messages of 4096 octets.
    fn default() -> Self {
        Self { four_octet_as: true, add_path: Families::NONE, extended_message: false }
    }
}

/// What our OPEN and the peer's agree on.
pub fn agree(local: &Open, remote: &Open, peer: PeerType) -> (DecodeContext, EncodeContext) {
    let families = local.families().intersection(remote.families());
    let four_octet_as = local.has_four_octet_as() && remote.has_four_octet_as();
    // RFC 8654 section 4: whoever does not announce it must not send them either.
    let extended_message = local.has_extended_message() && remote.has_extended_message();
    let add_path = |from: &Open, to: &Open| -> Families {
        let sends = |family: &Family| {
            from.add_path(AddressFamily::unicast(*family)).is_some_and(AddPathMode::sends)
                && to.add_path(AddressFamily::unicast(*family)).is_some_and(AddPathMode::receives)
        };
        families.iter().filter(sends).collect()
    };
    let crosses =
        |open: &Open| open.has_extended_next_hop(AddressFamily::IPV4_UNICAST, AddressFamily::IPV6_UNICAST.afi);
    let extended_next_hop = if crosses(local) && crosses(remote) { Families::IPV4 } else { Families::NONE };
    let decode = DecodeContext {
        peer,
        four_octet_as,
        families,
        add_path: add_path(remote, local),
        extended_next_hop: extended_next_hop.intersection(families),
        extended_message,
    };
    let encode = EncodeContext { four_octet_as, add_path: add_path(local, remote), extended_message };
    (decode, encode)
}
