//! What every [`Ipam`] must do. Panics with the property that is broken.

use std::collections::BTreeSet;
use std::net::IpAddr;

use calico_core::ipam::{
    Assign, Assigned, FamilyWant, HeldBy, Holder, IpamError, Release, ReleaseAddresses, ReleaseHandle, Want,
};
use calico_core::net::Family;
use calico_core::resource::AllowedUse;
use calico_core::time::Timestamp;

use super::{Ipam, IpamFailure};

/// A request of node `node-a` for so many IPv4 and IPv6 addresses.
pub fn request(handle: &str, v4: u32, v6: u32) -> Assign {
    let any = |count| FamilyWant { count, pools: Vec::new() };
    Assign {
        node: "node-a".into(),
        namespace_labels: None,
        holder: Holder { handle: handle.into(), attributes: [("node".to_owned(), "node-a".to_owned())].into() },
        want: Want::Any { v4: any(v4), v6: any(v6) },
        intended_use: AllowedUse::Workload,
        max_blocks: 0,
        seed: 0,
        now: NOW,
    }
}

/// The time that all requests give: 2026-08-17 20:53:20 UTC.
pub const NOW: Timestamp = Timestamp::from_secs(1_787_000_000);

/// Runs the suite. `ipam` must be fresh and able to give 8 to 4096 addresses of each family to `node-a`.
#[expect(clippy::panic, reason = "a test suite reports by panicking")]
pub async fn run(ipam: &dyn Ipam) {
    assigns_once_per_handle(ipam).await;
    releases_by_handle(ipam).await;
    assigns_certain_addresses(ipam).await;
    releases_certain_addresses(ipam).await;
    gives_all_or_nothing(ipam).await;
    let Ok(held) = ipam.held_by(HeldBy { handle: "suite-1".into() }).await else { panic!("held_by failed") };
    assert!(held.is_empty(), "the suite leaves something behind");
}

async fn assigns_once_per_handle(ipam: &dyn Ipam) {
    let first = assign(ipam, request("suite-1", 1, 1)).await;
    assert_eq!(families(&first), (1, 1), "one address of each family");
    assert!(first.iter().all(|one| one.block.contains(one.address)), "an address lies in its block");
    assert_eq!(assign(ipam, request("suite-1", 1, 1)).await, first, "asking again yields the same addresses");
    let more = assign(ipam, request("suite-1", 3, 1)).await;
    assert_eq!(families(&more), (3, 1), "what is held counts");
    assert!(first.iter().all(|one| more.contains(one)), "what is held stays");
    let other = assign(ipam, request("suite-2", 2, 0)).await;
    assert!(distinct(&more).is_disjoint(&distinct(&other)), "no address is handed out twice");
    let mut all = more;
    all.sort_unstable();
    let mut held = held_by(ipam, "suite-1").await;
    held.sort_unstable();
    assert_eq!(held, all, "a handle holds what it was given");
}

async fn releases_by_handle(ipam: &dyn Ipam) {
    let held = held_by(ipam, "suite-1").await;
    let released = release(ipam, "suite-1").await;
    assert_eq!(released, distinct(&held), "a release names what was held");
    assert!(release(ipam, "suite-1").await.is_empty(), "a second release finds nothing");
    assert!(release(ipam, "suite-unknown").await.is_empty(), "to release an unknown handle is no error");
    assert!(held_by(ipam, "suite-1").await.is_empty(), "a released handle holds nothing");
    let next = assign(ipam, request("suite-3", 1, 0)).await;
    assert!(distinct(&next).is_disjoint(&released), "a released address is not handed out at once");
    release(ipam, "suite-2").await;
    release(ipam, "suite-3").await;
}

async fn assigns_certain_addresses(ipam: &dyn Ipam) {
    let address = assign(ipam, request("suite-1", 1, 0)).await.first().map(|one| one.address);
    let address = address.unwrap_or_else(|| unreachable!("asked for one"));
    let wanting = |handle| Assign { want: Want::Address(address), ..request(handle, 0, 0) };
    let again = assign(ipam, wanting("suite-1")).await;
    assert_eq!(distinct(&again), BTreeSet::from([address]), "the holder may ask for its own address");
    let taken = ipam.assign(wanting("suite-2")).await;
    let is_taken = matches!(taken, Err(IpamFailure::Ipam(IpamError::AlreadyAssigned { .. })));
    assert!(is_taken, "an address that another holds is refused: {taken:?}");
    let outside = Assign { want: Want::Address(IpAddr::from([203, 0, 113, 9])), ..request("suite-2", 0, 0) };
    let outside = ipam.assign(outside).await;
    assert!(matches!(outside, Err(IpamFailure::Ipam(IpamError::NotInPool { .. }))), "no pool holds it: {outside:?}");
    release(ipam, "suite-1").await;
}

async fn releases_certain_addresses(ipam: &dyn Ipam) {
    let held = assign(ipam, request("suite-1", 2, 0)).await;
    let releasing = |one: &Assigned, handle: &str| {
        let release = Release { address: one.address, handle: Some(handle.into()), sequence: None };
        ReleaseAddresses { releases: vec![release], now: NOW }
    };
    let [first, second] = held.as_slice() else { unreachable!("asked for two") };
    let wrong = ipam.release_addresses(releasing(first, "suite-2")).await;
    assert!(matches!(wrong, Err(IpamFailure::Ipam(IpamError::BadHandle { .. }))), "another's address: {wrong:?}");
    let right = ipam.release_addresses(releasing(first, "suite-1")).await;
    assert_eq!(right.map(|done| done.released).unwrap_or_default(), [first.address], "a release by address");
    let again = ipam.release_addresses(releasing(first, "suite-1")).await;
    assert_eq!(again.map(|done| done.unallocated).unwrap_or_default(), [first.address], "nobody holds it any more");
    assert_eq!(held_by(ipam, "suite-1").await, [*second], "the other stays");
    release(ipam, "suite-1").await;
}

async fn gives_all_or_nothing(ipam: &dyn Ipam) {
    let result = ipam.assign(request("suite-1", 1, 1_000_000)).await;
    let refused = matches!(&result, Err(failure) if failure.is_exhausted());
    assert!(refused, "a million IPv6 addresses are more than there are");
    assert!(held_by(ipam, "suite-1").await.is_empty(), "a refused request leaves nothing");
}

#[expect(clippy::panic, reason = "a test suite reports by panicking")]
async fn assign(ipam: &dyn Ipam, request: Assign) -> Vec<Assigned> {
    match ipam.assign(request.clone()).await {
        Ok(assigned) => assigned,
        Err(error) => panic!("{request:?}: {error}"),
    }
}

#[expect(clippy::panic, reason = "a test suite reports by panicking")]
async fn release(ipam: &dyn Ipam, handle: &str) -> BTreeSet<IpAddr> {
    match ipam.release_handle(ReleaseHandle { handle: handle.into(), now: NOW }).await {
        Ok(done) => done.released.into_iter().collect(),
        Err(error) => panic!("release of {handle}: {error}"),
    }
}

#[expect(clippy::panic, reason = "a test suite reports by panicking")]
async fn held_by(ipam: &dyn Ipam, handle: &str) -> Vec<Assigned> {
    match ipam.held_by(HeldBy { handle: handle.into() }).await {
        Ok(held) => held,
        Err(error) => panic!("addresses of {handle}: {error}"),
    }
}

fn distinct(assigned: &[Assigned]) -> BTreeSet<IpAddr> {
    assigned.iter().map(|one| one.address).collect()
}

fn families(assigned: &[Assigned]) -> (usize, usize) {
    let v4 = distinct(assigned).into_iter().filter(|address| Family::of(*address) == Family::V4).count();
    (v4, distinct(assigned).len() - v4)
}
