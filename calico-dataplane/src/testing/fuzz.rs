//! Fuzz bodies: functions of bytes that must not panic.

/// Reads arbitrary bytes as whatever the kernel may send: nf_tables listings, and route, link and neighbour messages.
pub fn netlink_decode(bytes: &[u8]) {
    crate::nftables::decode::decode_any(bytes);
    crate::netlink::decode_any(bytes);
}

#[cfg(test)]
mod tests {
    #[test]
    fn replays_the_corpus() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/netlink");
        let mut replayed = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            super::netlink_decode(&std::fs::read(entry.unwrap().path()).unwrap());
            replayed += 1;
        }
        assert!(replayed >= 4, "{replayed} files in {folder}");
    }
}
