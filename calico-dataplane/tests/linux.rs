//! The Linux backend in throw-away network namespaces. Needs root, and the Debian packages `nftables` and `iproute2`.
#![cfg(all(feature = "linux", feature = "testing"))]
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod linux {
    mod bandwidth;
    mod coexistence;
    mod conformance;
    mod connections;
    mod differential;
    mod discovery;
    mod drift;
    mod ended;
    mod failures;
    mod fixture;
    mod host;
    mod host_endpoints;
    mod leftovers;
    mod multipath;
    mod network;
    mod notifications;
    mod oracle;
    mod packets;
    mod places;
    #[cfg(feature = "nft-json")]
    mod programs;
    mod rendered;
    mod restart;
    mod robust;
    mod segments;
    mod settings;
    mod suspicion;
    mod tampering;
    mod verdicts;
    mod words;
}
