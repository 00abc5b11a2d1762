//! What is written for BIRD: golden files (`BLESS=1` writes them anew), each read by the BIRD that it is for.

mod examples;
mod parse;
mod random;

use std::path::PathBuf;

use calico_bgp::bird::{
    BirdLog, BirdLogLevel, BirdSettings, Dialect, KernelMetric, KernelSettings, Unsupported, render,
};
use calico_core::bgp::{DesiredBgp, Password, PeerKind, Secret};
use calico_core::net::Family;

pub(crate) use parse::one_six;
use parse::{Reader, assert_reads};

const DIALECTS: [(&str, Dialect, Reader); 3] = [
    ("bird2", Dialect::Two, Reader::Two),
    ("bird", Dialect::OneSix { family: Family::V4 }, Reader::OneSix(Family::V4)),
    ("bird6", Dialect::OneSix { family: Family::V6 }, Reader::OneSix(Family::V6)),
];

fn golden(example: &str, desired: &DesiredBgp, settings: &BirdSettings) {
    for (daemon, dialect, reader) in DIALECTS {
        let rendered = render(desired, dialect, settings);
        let mut text = rendered.text.clone();
        for left_out in &rendered.left_out {
            text.push_str(&format!("# left out: {}: {}\n", left_out.peer, left_out.what));
        }
        let name = format!("render-{example}-{daemon}.conf");
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(&name);
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert_eq!(text, std::fs::read_to_string(&path).unwrap_or_default(), "{name}; BLESS=1 writes it anew");
        assert_reads(reader, &rendered.text);
    }
}

#[test]
fn a_node_without_an_address_runs_idle() {
    golden("idle", &DesiredBgp::default(), &BirdSettings::default());
}

#[test]
fn a_mesh() {
    golden("mesh", &examples::mesh(), &BirdSettings::default());
}

#[test]
fn peers_of_every_kind() {
    let settings = BirdSettings {
        log: Some(BirdLog::Syslog),
        log_level: BirdLogLevel::Debug,
        ignored_interfaces: vec!["docker*".into(), "what?".into(), "cali*".into()],
        hold_time: 240,
        ..BirdSettings::default()
    };
    golden("peers", &examples::peers(), &settings);
}

#[test]
fn filters() {
    golden("filters", &examples::filters(), &BirdSettings::default());
}

#[test]
fn pools_and_tunnels() {
    let fixed = KernelSettings { table: Some(100), metric: KernelMetric::Fixed(4096), ..KernelSettings::default() };
    golden("pools", &examples::pools(), &BirdSettings::default());
    golden("metric", &examples::pools(), &BirdSettings { kernel: Some(fixed), ..BirdSettings::default() });
    golden("no-kernel", &examples::pools(), &BirdSettings { kernel: None, ..BirdSettings::default() });
}

#[test]
fn a_reflector() {
    golden("reflector", &examples::reflector(), &BirdSettings::default());
}

/// A session with less than was asked for would be worse than none.
#[test]
fn what_cannot_be_written_keeps_its_session_out_and_nobody_elses() {
    for (what, peer) in examples::unwritable() {
        let mut desired = examples::mesh();
        let id = peer.id;
        desired.peers.push(peer);
        let rendered = render(&desired, Dialect::Two, &BirdSettings::default());
        let [left_out] = rendered.left_out.as_slice() else { panic!("{what}: {:?}", rendered.left_out) };
        assert!(left_out.what.to_string().contains(what), "{what}: {}", left_out.what);
        assert!(!rendered.sessions.values().any(|session| *session == id), "{what}");
        assert_eq!(rendered.sessions.len(), examples::mesh().peers.len(), "{what}");
        assert_reads(Reader::Two, &rendered.text);
    }
}

#[test]
fn a_password_is_nowhere_but_in_the_text() {
    let mut desired = examples::mesh();
    desired.peers[0].session.password = Password::Key(Secret::new("hunter2".into()).unwrap());
    let rendered = render(&desired, Dialect::Two, &BirdSettings::default());
    assert!(rendered.text.contains("password \"hunter2\";"));
    assert!(!format!("{rendered:?}").contains("hunter2"));
    desired.peers[0].session.password = Password::Key(Secret::new("hun\"ter2".into()).unwrap());
    let rendered = render(&desired, Dialect::Two, &BirdSettings::default());
    assert_eq!(rendered.left_out[0].what, Unsupported::PasswordText);
    assert!(!format!("{rendered:?}").contains("ter2"));
}

#[test]
fn names_are_those_that_upstreams_tools_look_for() {
    let rendered = render(&examples::peers(), Dialect::Two, &BirdSettings::default());
    let known = |kind| match kind {
        PeerKind::Mesh => "Mesh_",
        PeerKind::Node => "Node_",
        PeerKind::Global => "Global_",
        _ => "Local_Workload_",
    };
    for peer in examples::peers().peers {
        let (name, _) = rendered.sessions.iter().find(|(_, id)| **id == peer.id).unwrap();
        assert!(name.starts_with(known(peer.kind)), "{name}");
    }
}
