use super::*;

fn decoded(key: ResourceKey, text: &str) -> Entry {
    decode(key, text.as_bytes(), Revision::from_raw(1))
}

#[test]
fn what_is_no_object_is_a_bad_object() {
    for kind in Kind::V3.iter().copied() {
        for (text, reason) in [
            ("", "the value is empty"),
            ("null", "expected a JSON object, found nothing"),
            ("[]", "expected a JSON object, found a list"),
            ("5", "expected a JSON object, found a number"),
        ] {
            let bad = decoded(ResourceKey::cluster(kind, "x"), text).unwrap_err();
            assert!(bad.reason.starts_with(reason), "{kind} {text:?}: {}", bad.reason);
            assert_eq!(&*bad.text, text.as_bytes());
        }
    }
    let (affinity, _) = crate::testing::affinity("host", "10.0.0.0/26");
    assert!(decoded(affinity.clone(), "").is_ok());
    assert!(decoded(affinity, "[]").is_err());
    assert!(decoded(ResourceKey::IpamConfig, "").is_err());
}

/// What Go reads for upstream: the policy counts here, too, and is never written back otherwise than it was.
#[test]
fn what_upstream_reads_is_not_absent() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/document");
    let names = ["half-surrogate", "large-integer", "long-decimal", "no-utf8", "number-beyond-range", "too-deep"];
    for name in names {
        let path = std::path::Path::new(folder).join(format!("{name}.json"));
        let key = ResourceKey::cluster(Kind::GlobalNetworkPolicy, "x");
        let stored = decode(key.clone(), &std::fs::read(&path).unwrap(), Revision::from_raw(1));
        let stored = stored.unwrap_or_else(|bad| panic!("{path:?}: {}", bad.reason));
        let Resource::GlobalNetworkPolicy(policy) = &*stored.resource else { panic!("{path:?}") };
        assert_eq!(policy.spec.ingress[0].action, calico_core::resource::Action::Deny, "{path:?}");
        assert!(!policy.metadata.unread.is_empty(), "{path:?}");
        assert_eq!(stored.raw.text(), Some(&*std::fs::read(&path).unwrap()), "{path:?}");
        let write = crate::Write::update(&stored, Arc::clone(&stored.resource));
        let refused = check(&write.into()).unwrap_err();
        assert!(matches!(refused, DatastoreError::Inexact { .. }), "{path:?}: {refused}");
    }
    let (block, _) = crate::testing::affinity("host", "10.0.0.0/26");
    let bad = decoded(block, r#"{"state": "confirmed", "future": 1e999}"#).unwrap_err();
    assert!(bad.reason.starts_with("future: the number 1e999"), "{}", bad.reason);
}

/// A label more must not make a rule that is left out one that allows.
#[test]
fn what_would_be_lost_is_never_written() {
    let policy = |spec: &str, metadata: &str| {
        format!(
            r#"{{"kind": "GlobalNetworkPolicy", "apiVersion": "projectcalico.org/v3", "metadata": {metadata},
            "spec": {{"selector": "all()", "ingress": [{{"action": "Allow"}}], {spec}}}}}"#
        )
    };
    let named = r#"{"name": "x"}"#;
    for (text, lost) in [
        (policy(r#""doNotTrack": "yes""#, named), Some("spec.doNotTrack")),
        (policy(r#""preDNAT": [1]"#, named), Some("spec.preDNAT")),
        (policy(r#""applyOnForward": "x""#, named), Some("spec.applyOnForward")),
        (policy(r#""doNotTrack": true, "preDNAT": true, "applyOnForward": true"#, named), Some("spec.preDNAT")),
        (policy(r#""preDNAT": true"#, named), Some("spec.applyOnForward")),
        (policy(r#""preDNAT": true, "applyOnForward": null"#, named), Some("spec.applyOnForward")),
        (
            policy(r#""preDNAT": true, "applyOnForward": true, "egress": [{"action": "Allow"}]"#, named),
            Some("spec.egress"),
        ),
        (policy(r#""order": "first""#, named), Some("spec.order")),
        (policy(r#""types": ["Ingress", "Later"]"#, named), Some("spec.types")),
        (policy(r#""types": "Ingress", "ingress": []"#, named), Some("spec.types")),
        (policy(r#""order": 1"#, r#"{"name": "x", "labels": {"a": [1], "b": "c"}}"#), Some("metadata.labels")),
        (policy(r#""order": 1"#, r#"{"name": "x", "annotations": ["q"]}"#), Some("metadata.annotations")),
        (policy(r#""order": 1"#, r#"{"name": "x", "uid": 5}"#), Some("metadata.uid")),
        (policy(r#""order": 1"#, "5"), Some("metadata")),
        (policy(r#""order": 1, "newer": {"a": [1]}"#, r#"{"name": "x", "newer": 1, "annotations": {"b": "c"}}"#), None),
        (policy(r#""order": 1, "egress": [{"action": "Audit", "odd": 1}, 5]"#, named), None),
    ] {
        let stored = decoded(ResourceKey::cluster(Kind::GlobalNetworkPolicy, "x"), &text).unwrap();
        let reason = lost.map(|path| format!("{path} cannot be read, and would be lost"));
        assert_eq!(stored.raw.inexact(), reason.as_deref(), "{text}");
        let written = encode(&stored.resource, Some(&stored.raw));
        let is_kept =
            written["spec"] == stored.raw["spec"] && written["metadata"]["newer"] == stored.raw["metadata"]["newer"];
        assert!(is_kept || lost.is_some(), "{text}: {written}");
    }
    let profile = r#"{"spec": {"labelsToApply": {"q": ["z"]}, "ingress": [{"action": "Allow"}]}}"#;
    let profile = decoded(ResourceKey::cluster(Kind::Profile, "x"), profile).unwrap();
    assert!(profile.raw.inexact().is_some_and(|reason| reason.starts_with("spec.labelsToApply")));
    let tier = r#"{"spec": {"order": 5}, "status": {"conditions": [5]}}"#;
    let tier = decoded(ResourceKey::cluster(Kind::Tier, "x"), tier).unwrap();
    assert!(tier.raw.inexact().is_some_and(|reason| reason.starts_with("status")));
}

#[test]
fn an_order_of_any_length_can_be_written_as_it_was_or_as_go_writes_it() {
    for (order, written) in [
        ("9007199254740993", "9007199254740993"),
        ("0.1234567890123456789", "0.12345678901234568"),
        ("1e20", "100000000000000000000"),
        ("1.0e21", "1e+21"),
        ("5.0", "5"),
        ("-0.5", "-0.5"),
    ] {
        let text = format!(r#"{{"metadata": {{"name": "x"}}, "spec": {{"order": {order}}}}}"#);
        let stored = decoded(ResourceKey::cluster(Kind::Tier, "x"), &text).unwrap();
        let write = crate::Write::update(&stored, Arc::clone(&stored.resource));
        check(&write.into()).unwrap();
        let bytes = to_bytes(&encode(&stored.resource, Some(&stored.raw)));
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(text.contains(&format!("\"order\":{written}")), "{text}");
        let again = decode(stored.key.clone(), &bytes, Revision::from_raw(2)).unwrap();
        assert_eq!(again.resource, stored.resource, "{order}");
    }
}

#[test]
fn what_remains_of_a_pool_is_told() {
    let key = || ResourceKey::cluster(Kind::IpPool, "x");
    for (text, told) in [
        (r#"{"spec": {"cidr": "10.0.0.0/16", "blockSize": "x"}}"#, ""),
        (r#"{"spec": {"cidr": "10.0.0.0/16", "disableBGPExport": 1}}"#, "; its blocks are not announced to BGP peers"),
        (r#"{"spec": "#, "; no block outside of the other pools is announced to BGP peers"),
    ] {
        let bad = decoded(key(), text).unwrap_err();
        assert!(bad.remains.is_some() && bad.reason.ends_with(told), "{text}: {}", bad.reason);
        assert_eq!(bad.reason.contains("announced"), !told.is_empty(), "{text}");
    }
    let bad = decoded(ResourceKey::cluster(Kind::Tier, "x"), "[]").unwrap_err();
    assert_eq!(bad.remains, None);
    let bad = decoded(ResourceKey::cluster(Kind::Tier, "x"), r#"{"spec": {"order": 5, "defaultAction": "Audit"}}"#);
    assert_eq!(bad.unwrap_err().remains.and_then(|tier| tier.key()), Some(ResourceKey::cluster(Kind::Tier, "x")));
}

/// As an endpoint is read that many others are like.
fn endpoint(name: &str) -> Stored {
    let text = format!(
        r#"{{"metadata": {{"name": "{name}", "labels": {{"app": "web"}}}}, "newer": {{"a": [1]}},
        "spec": {{"node": "host", "interfaceName": "cali1", "profiles": ["kns.n"], "newer": null}}}}"#
    );
    decoded(ResourceKey::namespaced(Kind::WorkloadEndpoint, "n", name), &text).unwrap()
}

/// Nothing that was read is such a base; one that is all the same must not cost what is stored.
#[test]
fn over_what_is_no_object_nothing_is_written() {
    let stored = endpoint("a");
    for base in [Document::default(), Document::of_text(b"no text of ours".as_slice().into())] {
        let read = Stored { raw: Arc::new(base), ..stored.clone() };
        let refused = check(&crate::Write::update(&read, Arc::clone(&read.resource)).into()).unwrap_err();
        assert!(matches!(refused, DatastoreError::Inexact { .. }), "{refused}");
    }
    check(&crate::Write::update(&stored, Arc::clone(&stored.resource)).into()).unwrap();
}

#[test]
fn what_is_read_straight_from_the_text_keeps_what_is_not_known() {
    let stored = endpoint("a");
    let mut known = (**stored.raw).clone();
    let straight =
        |document: &Value| Resource::decode_text(Kind::WorkloadEndpoint, document.to_string().as_bytes()).is_some();
    // Of a specification it is told, which the careful reader does.
    assert!(!straight(&known));
    known["spec"].as_object_mut().unwrap().remove("newer");
    assert!(straight(&known));
    let written = encode(&stored.resource, Some(&stored.raw));
    assert_eq!(written["newer"], serde_json::json!({"a": [1]}));
    assert_eq!(written["metadata"]["namespace"], "n");
    let value = stored.raw["spec"].clone();
    assert_eq!(
        value,
        serde_json::json!({"node": "host", "interfaceName": "cali1", "profiles": ["kns.n"], "newer": null})
    );
    assert_eq!(Document::clone(&stored.raw).into_value(), **stored.raw);
    let (unread, read) = (endpoint("a").raw, stored.raw);
    assert_eq!(Document::clone(&unread).into_value(), **read);
    assert_eq!(unread, read);
}

/// Words forget one another where their hashes collide, and the hash is drawn anew for each: some of many hold all five.
#[test]
fn what_many_say_is_kept_once() {
    let places = |words: &mut calico_core::text::Words, name| {
        let mut stored = endpoint(name);
        stored.share(words);
        assert_eq!(stored, endpoint(name));
        let Resource::WorkloadEndpoint(endpoint) = &*stored.resource else { panic!("no endpoint") };
        let (key, value) = endpoint.metadata.labels.iter().next().unwrap();
        let namespace = stored.key.namespace().unwrap();
        let said = [key, value, &endpoint.spec.node, &endpoint.spec.profiles[0], namespace].map(str::as_ptr);
        (said, stored)
    };
    let once = (0..32).filter(|_| {
        let mut words = calico_core::text::Words::default();
        let (first, second) = (places(&mut words, "a"), places(&mut words, "b"));
        first.0 == second.0
    });
    assert!(once.count() > 16);
}

#[test]
fn a_nameless_object_has_the_name_of_its_key() {
    let key = ResourceKey::namespaced(Kind::NetworkPolicy, "shop", "web");
    let stored = decoded(key.clone(), "{}").unwrap();
    assert_eq!(stored.resource.key(), Some(key));
    assert_eq!(**stored.raw, serde_json::json!({}));
}
