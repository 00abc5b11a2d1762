//! What cannot be read, or not be written back, is replaced as a whole, and only by who asks for that.

use super::*;
use crate::DatastoreError;

/// What is stored, and what is kept of it.
const SPOILT: [(&str, Option<&str>); 4] = [
    ("{", None),
    (r#"{"metadata":{"name":"t","uid":"u"},"spec":{"order":"high"}}"#, Some("u")),
    (r#"{"metadata":{"name":"t","uid":"u"},"spec":{"order":5,"newer":1e999}}"#, Some("u")),
    (r#"{"metadata":{"name":"t","uid":"u"},"spec":{"order":5},"status":{"conditions":[5]}}"#, Some("u")),
];

#[tokio::test]
async fn what_is_spoilt_is_only_mended() {
    for (stored, uid) in SPOILT {
        let (store, client) = client();
        let key = tier("t", 1.0).0;
        store.inject(key.clone(), stored.as_bytes());
        for refused in [client.update(user_tier("t", 1.0)).await.err(), client.apply(user_tier("t", 1.0)).await.err()] {
            let refused = refused.unwrap();
            assert!(
                matches!(
                    refused,
                    ClientError::Store(DatastoreError::Unreadable { .. } | DatastoreError::Inexact { .. })
                ),
                "{stored}: {refused}"
            );
        }
        let rehearsed = Rehearsal::new(&client).write(Intent::Mend, user_tier("t", 2.0)).await.unwrap();
        assert!(rehearsed.mends.is_some() && rehearsed.before.is_none(), "{stored}: {rehearsed:?}");
        assert_eq!(rehearsed.after["spec"]["order"], 2, "{stored}");
        let mended = client.mend(user_tier("t", 2.0)).await.unwrap();
        assert_eq!(mended.raw["spec"], json!({"order": 2, "defaultAction": "Deny"}), "{stored}");
        match uid {
            Some(uid) => assert_eq!(mended.raw["metadata"]["uid"], uid, "{stored}"),
            None => assert!(mended.raw["metadata"]["uid"].is_string(), "{stored}"),
        }
        assert_eq!(client.get(&key).await.unwrap(), mended);
        // What is sound is not replaced: somebody mended it since.
        let late = client.mend(user_tier("t", 3.0)).await.unwrap_err();
        assert!(late.is_conflict(), "{late}");
        let late = Rehearsal::new(&client).write(Intent::Mend, user_tier("t", 3.0)).await.unwrap_err();
        assert!(late.is_conflict(), "{late}");
        assert_eq!(client.get(&key).await.unwrap(), mended);
    }
}

#[tokio::test]
async fn a_revision_that_is_named_must_be_that_of_what_is_spoilt() {
    let (store, client) = client();
    let key = tier("t", 1.0).0;
    store.inject(key.clone(), b"{");
    let bad = client.entry(&key).await.unwrap().unwrap_err();
    assert_eq!(&*bad.text, b"{");
    store.inject(key.clone(), b"[");
    let Resource::Tier(mut one) = user_tier("t", 1.0) else { panic!() };
    one.metadata.resource_version = Some(bad.revision.to_string());
    let stale = client.mend(Resource::Tier(one.clone())).await.unwrap_err();
    assert!(stale.is_conflict(), "{stale}");
    let bad = client.entry(&key).await.unwrap().unwrap_err();
    one.metadata.resource_version = Some(bad.revision.to_string());
    client.mend(Resource::Tier(one)).await.unwrap();
    assert!(client.mend(user_tier("absent", 1.0)).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn what_is_mended_keeps_the_rules_of_what_is_new() {
    let (store, client) = client();
    let policy_key = ResourceKey::cluster(Kind::GlobalNetworkPolicy, "p");
    store.inject(policy_key.clone(), b"{");
    assert!(client.mend(policy("p", "absent")).await.unwrap_err().is_not_found(), "its tier");
    client.create(pool("two", "10.2.0.0/16")).await.unwrap();
    store.inject(ResourceKey::cluster(Kind::IpPool, "one"), b"{");
    let overlapping = client.mend(pool("one", "10.2.0.0/24")).await.unwrap_err();
    assert!(matches!(overlapping, ClientError::Invalid { .. }), "{overlapping}");
    client.mend(pool("one", "10.1.0.0/16")).await.unwrap();
    // Where versions before 3.32 kept a policy of the default tier, nobody can say that it is this one.
    client.initialise().await.unwrap();
    store.inject(ResourceKey::cluster(Kind::GlobalNetworkPolicy, "default.q"), b"{");
    let other = client.mend(policy("q", "default")).await.unwrap_err();
    assert!(
        matches!(&other, ClientError::Store(DatastoreError::Unreadable { key, .. }) if key.name() == Some("default.q"))
    );
}

/// Another writer comes first: what that wrote is looked at anew.
#[tokio::test]
async fn a_write_in_between_is_seen() {
    let (store, client) = client();
    let key = tier("t", 1.0).0;
    store.inject(key.clone(), b"{");
    store.faults().conflict_next(1);
    client.mend(user_tier("t", 2.0)).await.unwrap();
    assert_eq!(store.get(&key).await.unwrap().raw["spec"]["order"], 2);
}

/// Under the key lies a policy that users see under another name, since before 3.32.
#[tokio::test]
async fn another_policy_under_the_key_is_not_replaced() {
    let (store, client) = client();
    client.initialise().await.unwrap();
    let key = ResourceKey::cluster(Kind::GlobalNetworkPolicy, "default.web");
    for stored in [
        r#"{"metadata":{"name":"default.web"},"spec":{"newer":1e999}}"#,
        r#"{"metadata":{"name":"default.web","annotations":{"projectcalico.org/metadata":"{\"name\":\"web\"}"}},"spec":{"newer":1e999}}"#,
        r#"{"metadata":{"name":"x","annotations":{"projectcalico.org/metadata":"{\"name\":\"web\"}"}},"spec":{"selector":5}}"#,
    ] {
        store.inject(key.clone(), stored.as_bytes());
        for refused in [
            client.mend(policy("default.web", "default")).await.map(drop),
            Rehearsal::new(&client).write(Intent::Mend, policy("default.web", "default")).await.map(drop),
        ] {
            let refused = refused.expect_err(stored);
            assert!(matches!(refused, ClientError::NotSupported { .. }), "{stored}: {refused}");
        }
    }
    store.inject(key, br#"{"metadata":{"name":"default.web","annotations":{"projectcalico.org/metadata":"{\"name\":\"default.web\"}"}},"spec":{"selector":5}}"#);
    client.mend(policy("default.web", "default")).await.unwrap();
}
