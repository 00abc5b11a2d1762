//! Real packets between two namespaces, decided by elements that come and go.

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::slice::from_ref;
use std::time::Duration;

use calico_core::net::Family;
use calico_core::table::{
    BaseChain, Chain, ChainType, Datum, Delta, Element, ElementDelta, Field, FieldType, Hook, Match, Rule, SetDecl,
    SetKind, Statement, Verdict,
};
use calico_dataplane::netns::{Netns, Request, RouteSocket, VethEnd};
use calico_dataplane::testing::netns::scratch;
use calico_dataplane::testing::sample::{addr, chain_name, interface, member, net, rule, set_name};
use calico_dataplane::{Dataplane, LinuxDataplane};

use super::fixture::{WORKLOAD, open};

const HOST: &str = "10.77.0.1";
const POD: &str = "10.77.0.2";
const PORT: u16 = 7777;

fn attach(pod: &Netns) {
    let mut host = RouteSocket::open().unwrap();
    let end = |name: &str, netns| VethEnd { name: name.parse().unwrap(), netns, mac: None };
    host.carry_out(&[Request::veth(end(WORKLOAD, None), end("eth0", Some(pod.as_fd())), 0)]).unwrap();
    configure(&mut host, WORKLOAD, HOST);
    configure(&mut RouteSocket::open_in(pod).unwrap(), "eth0", POD);
}

fn configure(socket: &mut RouteSocket, name: &str, address: &str) {
    let link = socket.link(name.parse().unwrap()).unwrap().unwrap();
    socket.carry_out(&[Request::up(link.index), Request::address(link.index, address.parse().unwrap(), 24)]).unwrap();
}

fn decl(name: &str, key: &[FieldType], kind: SetKind) -> SetDecl {
    SetDecl { name: set_name(name), key: key.to_vec(), kind }
}

/// Drops what comes from a member of any of the sets, or from an interface that the map leads to `dropped`.
fn table() -> Delta {
    let (v4, source) = (FieldType::Addr(Family::V4), Field::SrcAddr(Family::V4));
    let drop_members = |key: &[Field], set| {
        let mut rule = rule(Match::InSet { key: key.to_vec(), set: set_name(set), negated: false }, Verdict::Drop);
        rule.statements.push(Statement::Counter);
        rule
    };
    let lookup = Verdict::Lookup { key: vec![Field::IifName], map: set_name("dispatch") };
    let base = BaseChain { chain_type: ChainType::Filter, hook: Hook::Input, priority: 0 };
    let chain = |name, base, rules| Chain { name: chain_name(name), base, rules };
    let dropped = Rule { verdict: Some(Verdict::Drop), ..Rule::default() };
    let rules = vec![
        drop_members(&[source], "hosts"),
        drop_members(&[source], "nets"),
        drop_members(&[source, Field::L4Proto, Field::DstPort], "ports"),
        drop_members(&[Field::IifName, source], "spoof"),
        Rule { verdict: Some(lookup), ..Rule::default() },
    ];
    Delta {
        sets_added: vec![
            decl("hosts", &[v4], SetKind::Hash),
            decl("nets", &[v4], SetKind::Interval),
            decl("ports", &[v4, FieldType::Proto, FieldType::Port], SetKind::Hash),
            decl("spoof", &[FieldType::Interface, v4], SetKind::Hash),
            decl("dispatch", &[FieldType::Interface], SetKind::VerdictMap),
        ],
        chains_set: vec![chain("dropped", None, vec![dropped]), chain("filter-input", Some(base), rules)],
        ..Delta::default()
    }
}

async fn change(dataplane: &mut LinuxDataplane, set: &str, removed: &[Element], added: &[Element]) {
    let change = ElementDelta { set: set_name(set), removed: removed.to_vec(), added: added.to_vec() };
    assert!(dataplane.apply(&Delta { elements: vec![change], ..Delta::default() }).await.is_complete());
}

/// One pod that sends, one host that listens. What was dropped is known by what comes next: the link keeps the order.
struct Traffic {
    pod: UdpSocket,
    host: UdpSocket,
    sent: u32,
}

impl Traffic {
    fn send(&mut self) -> u32 {
        self.sent += 1;
        self.pod.send_to(&self.sent.to_be_bytes(), (HOST, PORT)).unwrap();
        self.sent
    }

    fn next(&self) -> u32 {
        let mut number = [0; 4];
        self.host.recv(&mut number).unwrap();
        u32::from_be_bytes(number)
    }
}

#[test]
fn packets_obey_sets_and_maps_at_once() {
    let (host, pod) = (scratch(), scratch());
    host.run(|| {
        attach(&pod);
        let mut traffic = Traffic {
            pod: pod.run(|| UdpSocket::bind((POD, 0)).unwrap()).unwrap(),
            host: UdpSocket::bind((HOST, PORT)).unwrap(),
            sent: 0,
        };
        traffic.host.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut dataplane = open();
            assert!(dataplane.apply(&table()).await.is_complete());
            let leads = |verdict| Element::verdict([interface(WORKLOAD)], verdict);
            for (set, hit, miss) in [
                ("hosts", member([addr(POD)]), member([addr("10.77.0.3")])),
                ("nets", member([net("10.77.0.0/30")]), member([net("10.77.0.4/30")])),
                (
                    "ports",
                    member([addr(POD), Datum::Proto(17), Datum::Port(PORT)]),
                    member([addr(POD), Datum::Proto(6), Datum::Port(PORT)]),
                ),
                ("spoof", member([interface(WORKLOAD), addr(POD)]), member([interface("cali2"), addr(POD)])),
                ("dispatch", leads(Verdict::Goto(chain_name("dropped"))), leads(Verdict::Accept)),
            ] {
                change(&mut dataplane, set, &[], from_ref(&miss)).await;
                let passed = traffic.send();
                assert_eq!(traffic.next(), passed, "{set} without the member");
                change(&mut dataplane, set, from_ref(&miss), from_ref(&hit)).await;
                traffic.send();
                change(&mut dataplane, set, from_ref(&hit), &[]).await;
                let passed = traffic.send();
                assert_eq!(traffic.next(), passed, "{set} dropped the packet before");
            }
        });
    })
    .unwrap();
}
