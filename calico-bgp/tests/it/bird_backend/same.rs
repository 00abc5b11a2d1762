//! One desired state, several backends: a neutral neighbour must hear the same of each.
//!
//! A row says what is desired, of which AS the neighbour is, and what it must hear.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use calico_bgp::bird::client::BirdRoute;
use calico_bgp::{BgpBackend, NativeBackend, NativeConfig, SpeakerConfig};
use calico_core::bgp::{
    ByFamily, DesiredBgp, ExportPolicy, Filter, FilterOperation, FilterRule, Origin, Originated, Password, PrefixMatch,
    PrefixOperator, Secret,
};
use calico_core::net::AsNumber;

use super::daemon::{Bird, Daemon, neighbour};
use super::{AS, THEM, US, ours};
use crate::bird_render::one_six;
use crate::support::{PORT, in_namespace};

/// Attributes that are compared.
const ATTRIBUTES: [&str; 7] = ["origin", "as_path", "next_hop", "local_pref", "med", "community", "large_community"];
const OTHER_AS: u32 = 4_200_000_001;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Native,
    Bird2,
    Bird16,
}

struct Row {
    name: &'static str,
    their_as: u32,
    desired: DesiredBgp,
    /// More for the neighbour's session.
    theirs: &'static str,
    /// Prefixes that it hears of, each with a part of its attributes.
    expected: &'static [(&'static str, &'static str)],
}

fn filtered(mut desired: DesiredBgp, rules: Vec<FilterRule>) -> DesiredBgp {
    let export = ByFamily { ipv4: rules, ipv6: Vec::new() };
    let filter = Filter { name: "f".into(), import: ByFamily::default(), export };
    desired.peers[0].policy.filters = vec![Arc::new(filter)];
    desired
}

fn rules() -> Vec<FilterRule> {
    let within =
        |cidr: &str, lengths| PrefixMatch { cidr: cidr.parse().unwrap(), operator: PrefixOperator::In, lengths };
    vec![
        FilterRule { prefix: Some(within("10.1.0.0/25", Some((26, 26)))), ..FilterRule::default() },
        FilterRule {
            prefix: Some(within("10.1.0.128/26", None)),
            accept: true,
            operations: vec![
                FilterOperation::AddCommunity("65001:7".parse().unwrap()),
                FilterOperation::AddCommunity("65001:7:8".parse().unwrap()),
                FilterOperation::Prepend(vec![AsNumber::new(65001), AsNumber::new(65002)]),
                FilterOperation::SetPriority(512),
            ],
            ..FilterRule::default()
        },
    ]
}

fn rows() -> Vec<Row> {
    let blocks = ["10.1.0.0/26", "10.1.0.128/26", "10.1.1.0/24"];
    let communities = ExportPolicy {
        communities: vec![(
            "10.1.0.0/24".parse().unwrap(),
            vec!["64512:7".parse().unwrap(), "64512:1:2".parse().unwrap()],
        )],
        ..ExportPolicy::default()
    };
    let private = ExportPolicy {
        pools: [("10.1.0.0/16".parse().unwrap(), true), ("10.1.1.0/24".parse().unwrap(), false)].into(),
        blocks: blocks.iter().map(|block| block.parse().unwrap()).collect(),
        others: false,
        ..ExportPolicy::default()
    };
    let elevated = Originated { prefix: "10.1.0.7/32".parse().unwrap(), origin: Origin::Workload, priority: 512 };
    let ordinary = Originated { prefix: "10.1.0.8/32".parse().unwrap(), priority: 1024, ..elevated };
    let with =
        |their_as, export: ExportPolicy| DesiredBgp { export: Arc::new(export), ..ours(&[(THEM, their_as)], &blocks) };
    let mut migrating = with(AS, private.clone());
    migrating.originated.extend([elevated, ordinary]);
    migrating.originated.sort();
    let mut secret = ours(&[(THEM, AS)], &blocks[..1]);
    secret.peers[0].session.password = Password::Key(Secret::new("it's \\ secret".into()).unwrap());
    secret.peers[0].session.ttl_security = Some(1);
    let row = |name, their_as, desired, expected| Row { name, their_as, desired, theirs: "", expected };
    vec![
        row(
            "internal",
            AS,
            ours(&[(THEM, AS)], &blocks[..2]),
            &[
                ("10.1.0.0/26", "next_hop 10.77.0.1 local_pref 2147482623"),
                ("10.1.0.128/26", "origin IGP as_path  next_hop"),
            ],
        ),
        row(
            "external",
            OTHER_AS,
            ours(&[(THEM, OTHER_AS)], &blocks[..1]),
            &[("10.1.0.0/26", "as_path 64512 next_hop 10.77.0.1")],
        ),
        row(
            "communities",
            AS,
            with(AS, communities),
            &[
                ("10.1.0.0/26", "community (64512,7) large_community (64512, 1, 2)"),
                ("10.1.0.128/26", "community (64512,7)"),
                ("10.1.1.0/24", "next_hop 10.77.0.1"),
            ],
        ),
        row(
            "private pools and live migration",
            AS,
            migrating,
            &[
                ("10.1.0.0/26", "local_pref 2147482623"),
                ("10.1.0.7/32", "local_pref 2147483135"),
                ("10.1.0.128/26", ""),
            ],
        ),
        row(
            "filters",
            OTHER_AS,
            filtered(ours(&[(THEM, OTHER_AS)], &blocks), rules()),
            &[
                ("10.1.0.128/26", "as_path 64512 65001 65002 next_hop 10.77.0.1"),
                ("10.1.1.0/24", "as_path 64512 next_hop"),
            ],
        ),
        row(
            "filters within the AS",
            AS,
            filtered(ours(&[(THEM, AS)], &blocks), rules()),
            &[
                ("10.1.0.128/26", "local_pref 2147483135 community (65001,7) large_community (65001, 7, 8)"),
                ("10.1.1.0/24", "local_pref 2147482623"),
            ],
        ),
        Row {
            theirs: "password \"it's \\ secret\"; ttl security on; multihop 1;",
            ..row("password and TTL security", AS, secret, &[("10.1.0.0/26", "")])
        },
    ]
}

/// What a neighbour hears of a backend, by prefix.
async fn heard(who: Who, one_six: &Path, row: &Row) -> BTreeMap<String, String> {
    let them = Daemon::start(Path::new("bird"), &neighbour(THEM, row.their_as, US, AS, PORT, "", row.theirs));
    let program = match who {
        Who::Bird16 => one_six.join("usr/sbin/bird"),
        _ => PathBuf::from("bird"),
    };
    let mut backend: Box<dyn BgpBackend> = match who {
        Who::Native => {
            let config = NativeConfig { listen: Some(SocketAddr::from((US, PORT))), speaker: SpeakerConfig::default() };
            Box::new(NativeBackend::start(config).unwrap())
        }
        Who::Bird2 | Who::Bird16 => Box::new(Bird::start(&program)),
    };
    backend.apply(&row.desired).await.unwrap();
    let what = format!("{}: {who:?} has told {:?}", row.name, row.expected);
    them.until(&what, async |them| them.learned().await.len() >= row.expected.len()).await;
    them.learned().await.iter().map(|route| (route.prefix.to_string(), told(route))).collect()
}

fn told(route: &BirdRoute) -> String {
    let known = ATTRIBUTES.iter().filter_map(|name| Some(format!("{name} {}", route.attribute(name)?)));
    known.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_neighbour_hears_the_same_of_every_backend() {
    // Whoever has to fetch it cannot from within a namespace.
    let one_six = one_six();
    for row in rows() {
        let row = Arc::new(row);
        let mut former: Option<BTreeMap<String, String>> = None;
        for who in [Who::Bird2, Who::Bird16, Who::Native] {
            // BIRD 1.6 puts its own AS number into the path before the filter runs: what a filter prepends stands before it.
            let prepends_before_us = who == Who::Bird16 && row.name == "filters";
            if prepends_before_us {
                continue;
            }
            let (sender, receiver) = std::sync::mpsc::channel();
            let of_thread = Arc::clone(&row);
            in_namespace(&[US, THEM], move || async move {
                sender.send(heard(who, one_six, &of_thread).await).unwrap();
            });
            let heard = receiver.recv().unwrap();
            let prefixes: Vec<&str> = heard.keys().map(String::as_str).collect();
            let mut expected: Vec<&str> = row.expected.iter().map(|(prefix, _)| *prefix).collect();
            expected.sort_unstable();
            assert_eq!(prefixes, expected, "{}: {who:?}", row.name);
            for (prefix, part) in row.expected {
                assert!(
                    heard[*prefix].contains(part),
                    "{}: {who:?}: {prefix}: {} lacks {part}",
                    row.name,
                    heard[*prefix]
                );
            }
            if let Some(former) = &former {
                assert_eq!(former, &heard, "{}: {who:?} differs", row.name);
            }
            former = Some(heard);
        }
    }
}
