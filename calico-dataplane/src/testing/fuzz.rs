//! Fuzz bodies: functions of bytes that must not panic.

/// Reads arbitrary bytes as whatever the kernel may send: nf_tables listings, and route, link and neighbour messages.
pub fn netlink_decode(bytes: &[u8]) {
    crate::nftables::decode::decode_any(bytes);
    crate::netlink::decode_any(bytes);
}
