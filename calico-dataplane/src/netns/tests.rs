//! Against the real kernel: these need root.

use std::net::{TcpListener, TcpStream};

use super::*;
use crate::testing::netns::scratch;

fn unique(name: &str) -> String {
    format!("lab-{name}-{}", std::process::id())
}

#[test]
fn a_named_namespace_is_listed_opened_and_deleted() {
    let name = unique("named");
    let made = named::create(&name).unwrap();
    assert!(named::list().unwrap().contains(&name));
    assert!(named::open(&name).unwrap().is_same(&made).unwrap());
    assert!(!made.is_same(&Netns::current().unwrap()).unwrap());
    assert!(matches!(named::create(&name), Err(NetnsError::Exists { .. })));
    named::delete(&name).unwrap();
    assert!(named::open(&name).unwrap_err().is_absent());
    assert!(!named::list().unwrap().contains(&name));
    named::delete(&name).unwrap();
}

#[test]
fn a_leftover_mount_point_is_no_namespace_and_can_be_deleted() {
    let name = unique("leftover");
    drop(named::create(&unique("directory")).unwrap());
    named::delete(&unique("directory")).unwrap();
    std::fs::write(named::path(&name).unwrap(), "").unwrap();
    assert!(matches!(named::open(&name), Err(NetnsError::NotNetns { .. })));
    named::delete(&name).unwrap();
    assert!(matches!(named::open(&name), Err(NetnsError::Absent { .. })));
}

#[test]
fn names_that_leave_the_directory_are_refused() {
    for bad in ["", ".", "..", "../etc", "a/b", "a b", ".hidden", "a\n"] {
        assert!(matches!(named::path(bad), Err(NetnsError::Name { .. })), "{bad:?}");
    }
}

#[test]
fn code_runs_inside_and_the_caller_stays_outside() {
    let before = Netns::current().unwrap();
    let netns = scratch();
    let inside = netns.run(Netns::current).unwrap().unwrap();
    assert!(inside.is_same(&netns).unwrap());
    assert!(Netns::current().unwrap().is_same(&before).unwrap());
}

#[test]
fn a_socket_stays_in_the_namespace_it_was_opened_in() {
    let (netns, other) = (scratch(), scratch());
    for netns in [&netns, &other] {
        let mut routes = RouteSocket::open_in(netns).unwrap();
        let lo = routes.link("lo".parse().unwrap()).unwrap().unwrap();
        assert!(!lo.up);
        routes.carry_out(&[Request::up(lo.index)]).unwrap();
    }
    let listener = netns.run(|| TcpListener::bind("127.0.0.1:0")).unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    let outside = other.run(|| TcpStream::connect(address)).unwrap();
    assert!(outside.is_err(), "the listener must not be reachable from outside");
    netns.run(|| TcpStream::connect(address)).unwrap().unwrap();
}

#[test]
fn a_pair_is_born_in_two_namespaces_and_failures_name_the_request() {
    let (left, right) = (scratch(), scratch());
    let mut socket = RouteSocket::open_in(&left).unwrap();
    let name = |text: &str| text.parse().unwrap();
    let pair = || {
        let near = VethEnd { name: name("near"), netns: None, mac: None };
        let far = VethEnd {
            name: name("far"),
            netns: Some(std::os::fd::AsFd::as_fd(&right)),
            mac: Some("02:00:00:00:00:01".parse().unwrap()),
        };
        Request::veth(near, far, 1400)
    };
    socket.carry_out(&[pair()]).unwrap();
    let near = socket.link(name("near")).unwrap().unwrap();
    let far = RouteSocket::open_in(&right).unwrap().link(name("far")).unwrap().unwrap();
    assert_eq!((near.mtu, near.up, near.peer, near.is_veth), (1400, false, Some(far.index), true));
    assert_eq!((far.up, far.mac.unwrap().to_string().as_str()), (false, "02:00:00:00:00:01"));
    assert_eq!(socket.link(name("far")).unwrap(), None);

    // One failing request hides none of the others.
    let error = socket.carry_out(&[pair(), Request::address(near.index, "10.9.0.1".parse().unwrap(), 24)]).unwrap_err();
    assert!(error.is_exists());
    assert_eq!(error.to_string(), "kernel refused to create the veth pair near and far");
    let address = socket.addresses().unwrap().into_iter().find(|found| found.index == near.index && found.length == 24);
    assert_eq!(address.unwrap().address.to_string(), "10.9.0.1");
    let error = socket.carry_out(&[Request::up(9999)]).unwrap_err();
    assert!(error.is_absent());
}
