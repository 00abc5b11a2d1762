//! What becomes of connections after they ended.

use super::*;

#[test]
fn what_comes_back_the_other_way_ends_as_long_as_it_is_denied() {
    let mut host = Host::new();
    [to_port(1, 81), to_port(2, 81), back(to_port(3, 81))].into_iter().for_each(|one| host.kernel.track(one));
    host.allow(&[80]);
    host.work();
    assert_eq!(host.kernel.tracked(), [back(to_port(3, 81))], "that one began the other way");
    for minute in 1..=15 {
        host.kernel.track(back(to_port(1, 81)));
        host.wait(Duration::from_secs(60 * minute));
        host.wait(Duration::from_secs(60 * minute + 59));
        let back_again = host.kernel.tracked().contains(&back(to_port(1, 81)));
        assert!(!back_again || minute > 7, "minute {minute}: it is looked for ever less often");
    }
    host.wait(Duration::from_secs(18 * 60));
    assert_eq!(host.kernel.tracked(), [back(to_port(3, 81))]);
    let listings = host.kernel.take_listings();
    assert!((40..120).contains(&listings), "{listings}");
    assert_eq!(host.machine.poll_timeout(), None, "in the end it is forgotten");
    assert!(host.barred.is_empty());

    host.kernel.track(to_port(1, 81));
    host.machine.doubt_all();
    host.work();
    host.allow(&[80, 81]);
    host.kernel.track(back(to_port(1, 81)));
    host.wait(Duration::from_secs(40 * 60));
    assert!(host.kernel.tracked().contains(&back(to_port(1, 81))), "allowed again");
}

/// Where something ends all the time, what ended long ago must make room.
#[test]
fn each_is_looked_for_and_barred_for_a_time_of_its_own() {
    let mut host = Host::new();
    let minutes = |number: u64| Duration::from_secs(number * 60);
    host.kernel.track(to_port(1, 81));
    host.allow(&[80]);
    host.wait(minutes(10));
    assert_eq!(host.barred, HashSet::from([to_port(1, 81).reply]));
    host.kernel.track(to_port(2, 80));
    host.allow(&[82]);
    host.wait(minutes(15));
    assert_eq!(host.barred, HashSet::from([to_port(1, 81).reply, to_port(2, 80).reply]));
    host.wait(minutes(20));
    assert_eq!(host.barred, HashSet::from([to_port(2, 80).reply]));
    host.wait(minutes(40));
    assert_eq!(host.barred, HashSet::new());
}

/// Of UDP nobody knows what a beginning is.
#[test]
fn what_is_not_tcp_is_looked_for_and_not_barred() {
    let udp = |flow: Flow| Flow { protocol: 17, ..flow };
    let tcp = to_port(1, 81);
    let one = Connection { original: udp(tcp.original), reply: udp(tcp.reply), master: None };
    let mut host = Host::new();
    host.kernel.track(one);
    host.machine.doubt_all();
    host.work();
    assert!(host.kernel.tracked().is_empty() && host.barred.is_empty());
    host.kernel.track(back(one));
    host.wait(Duration::from_secs(60));
    assert!(host.kernel.tracked().is_empty(), "it came back");
    host.wait(Duration::from_secs(40 * 60));
    assert_eq!(host.machine.poll_timeout(), None);
}

#[test]
fn more_than_can_be_watched_end_all_the_same() {
    let mut host = Host::new();
    for number in 0..MOST_WATCHED + 10 {
        let Connection { original, reply, .. } = to_port(u8::try_from(number % 256).unwrap(), 81);
        let port = u16::try_from(1 + number / 256).unwrap();
        let (original, reply) = (Flow { source_port: port, ..original }, Flow { destination_port: port, ..reply });
        host.kernel.track(Connection { original, reply, master: None });
    }
    host.allow(&[80]);
    host.work();
    assert_eq!((host.kernel.tracked().len(), host.barred.len()), (0, MOST_WATCHED));
    // Those who come later are not let off because of them.
    host.wait(Duration::from_secs(60));
    let later = to_port(1, 80);
    host.kernel.track(later);
    host.allow(&[82]);
    host.work();
    assert_eq!((host.kernel.tracked().len(), host.barred.len()), (0, MOST_WATCHED));
    assert!(host.barred.contains(&later.reply));
}

/// How often does not depend on those that ended before.
#[test]
fn what_ended_just_now_is_looked_for_often() {
    let mut host = Host::new();
    host.kernel.track(to_port(1, 81));
    host.allow(&[80]);
    host.wait(Duration::from_secs(8 * 60));
    host.kernel.track(to_port(2, 80));
    host.allow(&[82]);
    host.work();
    host.kernel.track(back(to_port(2, 80)));
    host.wait(host.now + Duration::from_secs(1));
    assert_eq!(host.kernel.tracked(), []);
}

#[test]
fn what_could_not_be_ended_at_once_is_looked_for_too() {
    let mut host = Host::new();
    host.kernel.track(to_port(1, 81));
    host.allow(&[80]);
    let Some(Work::List(pick)) = host.machine.poll(&host.active, host.holding, host.now) else { panic!("no list") };
    let listed = now_or_never(host.kernel.connections(pick));
    host.machine.listed(listed, host.now).unwrap();
    host.kernel.set_faults(Faults { tracking: 1, ..Faults::default() });
    host.work();
    assert_eq!((host.failures, host.kernel.tracked().len()), (1, 1));
    host.wait(Duration::from_secs(2));
    assert_eq!(host.kernel.tracked(), []);
    host.kernel.track(back(to_port(1, 81)));
    host.wait(Duration::from_secs(4));
    assert_eq!(host.kernel.tracked(), []);
}

/// The one that ended may begin again, but what came back is denied by itself.
#[test]
fn what_comes_back_ends_if_either_way_is_denied() {
    let mut host = Host::new();
    host.kernel.track(to_port(1, 81));
    host.allow(&[80]);
    host.work();
    host.kernel.track(back(to_port(1, 81)));
    let ingress = vec![ActiveRule::all(Action::Allow)];
    let rules = ActiveRules { tier: None, ingress, egress: Vec::new() };
    host.event(&Event::ProfileSet { id: ProfileId("open".into()), rules: Arc::new(rules) });
    host.wait(Duration::from_secs(1));
    assert_eq!(host.kernel.tracked(), []);
}

#[test]
fn what_ended_is_judged_again_in_slices_to_the_last() {
    let mut host = Host::new();
    let many = SLICE + 10;
    for number in 0..many {
        let Connection { original, reply, .. } = to_port(u8::try_from(number % 256).unwrap(), 81);
        let port = u16::try_from(1 + number / 256).unwrap();
        let (original, reply) = (Flow { source_port: port, ..original }, Flow { destination_port: port, ..reply });
        host.kernel.track(Connection { original, reply, master: None });
    }
    host.allow(&[80]);
    host.work();
    assert_eq!(host.barred.len(), many);
    host.allow(&[80, 81]);
    host.wait(Duration::from_secs(1));
    assert_eq!(host.barred.len(), 0, "all are allowed again");
}
