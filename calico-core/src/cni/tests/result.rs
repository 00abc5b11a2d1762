use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;

use crate::cni::{CniError, CniResult, ErrorCode, Interface, IpConfig, Route, Version};
use crate::net::Mac;

/// A dual-stack result, as the plugin makes it.
fn dual_stack() -> CniResult {
    let ip = |address: &str| IpConfig { interface: Some(1), address: address.parse().unwrap(), gateway: None };
    CniResult {
        interfaces: vec![
            Interface { name: "cali0123456789a".into(), ..Interface::default() },
            Interface {
                name: "eth0".into(),
                mac: Some(Mac::new([2, 0, 0, 0, 0, 1])),
                mtu: Some(1440),
                sandbox: "/run/netns/pod".into(),
            },
        ],
        ips: vec![ip("10.65.3.7/32"), ip("fd00::7/128")],
        routes: vec![
            Route { dst: "0.0.0.0/0".parse().unwrap(), gw: Some("169.254.1.1".parse().unwrap()) },
            Route { dst: "fd00::/64".parse().unwrap(), gw: None },
        ],
        dns: Some(serde_json::json!({"nameservers": ["10.96.0.10"]})),
    }
}

fn golden(name: &str) -> String {
    format!("{}/src/cni/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn results_in_every_version() {
    for version in Version::ALL {
        let path = golden(&format!("result-{version}.json"));
        let text = serde_json::to_string_pretty(&dual_stack().to_json(version).unwrap()).unwrap() + "\n";
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert_eq!(text, std::fs::read_to_string(&path).unwrap(), "{path}");
    }
}

#[test]
fn results_read_back() {
    for version in Version::ALL {
        let document = dual_stack().to_json(version).unwrap();
        let back = CniResult::from_json(&document, Version::LATEST).unwrap();
        assert_eq!(back.to_json(version).unwrap(), document, "{version}");
        assert_eq!(back.ips.len(), 2);
    }
    assert_eq!(
        CniResult::from_json(&dual_stack().to_json(Version::LATEST).unwrap(), Version::LATEST),
        Ok(dual_stack())
    );
}

#[test]
fn a_delegates_result_without_a_version_is_in_the_configurations() {
    let bare = serde_json::json!({"ip4": {"ip": "10.0.0.7/24", "routes": [{"dst": "0.0.0.0/0"}]}, "dns": {}});
    let result = CniResult::from_json(&bare, Version::V0_2_0).unwrap();
    assert_eq!((result.ips[0].address.to_string().as_str(), result.routes.len()), ("10.0.0.7/24", 1));
    assert_eq!(result.dns, None);
    assert!(CniResult::from_json(&bare, Version::V1_0_0).unwrap().ips.is_empty());
    let error = CniResult::from_json(&serde_json::json!({"ips": [{"address": "10.0.0.7/33"}]}), Version::LATEST);
    assert_eq!(error.unwrap_err().code, ErrorCode::Decode);
}

#[test]
fn an_old_result_needs_an_address() {
    let error = CniResult::default().to_json(Version::V0_1_0).unwrap_err();
    assert_eq!(error.to_string(), "cannot convert: no valid IP addresses");
    assert!(CniResult::default().to_json(Version::V0_3_0).is_ok());
}

#[test]
fn error_documents() {
    let error = CniError::new(ErrorCode::TryAgain, "datastore is unavailable");
    let expected = serde_json::json!({"cniVersion": "1.0.0", "code": 11, "msg": "datastore is unavailable"});
    assert_eq!(error.to_json(Version::V1_0_0), expected);
    let document = error.with_details("get Node(a)").to_json(Version::V1_1_0);
    assert_eq!(document["details"], "get Node(a)");
    let back = CniError::from_json(&document).unwrap();
    assert_eq!((back.code.number(), back.to_string().as_str()), (11, "datastore is unavailable; get Node(a)"));
    assert_eq!(CniError::from_json(&serde_json::json!({"code": 0})), None);
    assert_eq!(CniError::from_json(&serde_json::json!([])), None);
}
