//! Kubernetes' strategic merge, for the kinds of our API.
//!
//! Upstream's types name a way of merging for two lists only, both in the metadata: finalizers are added, owners are merged by their
//! uid. Every other list is replaced. The directives are Kubernetes': `$patch` (replace, delete, merge), `$retainKeys`,
//! `$deleteFromPrimitiveList/FIELD`. `$setElementOrder`, which only programs write, is refused.

use serde_json::{Map, Value};

const PATCH: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// Merges a patch into a document.
pub(super) fn merge(document: &mut Value, patch: &Value) -> Result<(), String> {
    match (document, patch) {
        (Value::Object(members), Value::Object(patch)) => merge_members(members, patch, ""),
        _ => Err("expected an object".into()),
    }
}

fn merge_members(members: &mut Map<String, Value>, patch: &Map<String, Value>, path: &str) -> Result<(), String> {
    match patch.get(PATCH).map(|directive| directive.as_str().unwrap_or_default()) {
        None | Some("merge") => {}
        Some("replace") => {
            *members = without_directives(patch);
            return Ok(());
        }
        Some("delete") => {
            members.clear();
            return Ok(());
        }
        Some(_) => return Err(format!("{}: {PATCH} must be replace, delete or merge", shown(path))),
    }
    retain(members, patch, path)?;
    for (name, new) in patch {
        let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if let Some(list) = name.strip_prefix(DELETE_FROM) {
            delete_from(members, list, new, &below)?;
        } else if name.starts_with(ORDER) {
            return Err(format!("{}: the directive {name} is not supported", shown(path)));
        } else if name == PATCH || name == RETAIN {
        } else if new.is_null() {
            members.shift_remove(name);
        } else {
            merge_member(members, name, new, &below)?;
        }
    }
    Ok(())
}

fn merge_member(members: &mut Map<String, Value>, name: &str, new: &Value, path: &str) -> Result<(), String> {
    match (members.get_mut(name), new) {
        (Some(Value::Object(old)), Value::Object(new)) => merge_members(old, new, path),
        (Some(Value::Array(old)), Value::Array(new)) if path == "metadata.finalizers" => {
            let added: Vec<_> = new.iter().filter(|item| !old.contains(item)).cloned().collect();
            old.extend(added);
            Ok(())
        }
        (Some(Value::Array(old)), Value::Array(new)) if path == "metadata.ownerReferences" => {
            merge_owners(old, new, path)
        }
        _ => {
            members.insert(name.to_owned(), plain(new));
            Ok(())
        }
    }
}

/// Owners are told apart by uid.
fn merge_owners(old: &mut Vec<Value>, new: &[Value], path: &str) -> Result<(), String> {
    let directive = |item: &Value| item.get(PATCH).and_then(Value::as_str).map(str::to_owned);
    if new.iter().any(|item| directive(item).as_deref() == Some("replace")) {
        *old = new.iter().filter(|item| item.get(PATCH).is_none()).map(plain).collect();
        return Ok(());
    }
    for item in new {
        let Some(uid) = item.get("uid") else { return Err(format!("{path}: an owner is told by its uid")) };
        let place = old.iter().position(|owner| owner.get("uid") == Some(uid));
        match (place.and_then(|place| old.get_mut(place)), item) {
            _ if directive(item).as_deref() == Some("delete") => old.retain(|owner| owner.get("uid") != Some(uid)),
            (Some(Value::Object(owner)), Value::Object(item)) => merge_members(owner, item, path)?,
            _ => old.push(plain(item)),
        }
    }
    Ok(())
}

/// Of the members only those in the patch's `$retainKeys` stay.
fn retain(members: &mut Map<String, Value>, patch: &Map<String, Value>, path: &str) -> Result<(), String> {
    let Some(kept) = patch.get(RETAIN) else { return Ok(()) };
    let kept = kept.as_array().ok_or_else(|| format!("{}: {RETAIN} must be a list of names", shown(path)))?;
    let is_kept = |name: &str| kept.iter().any(|kept| kept.as_str() == Some(name));
    if let Some(name) = patch.keys().find(|name| !name.starts_with('$') && !is_kept(name)) {
        return Err(format!("{}: {name} is given but not among {RETAIN}", shown(path)));
    }
    members.retain(|name, _| is_kept(name));
    Ok(())
}

fn delete_from(members: &mut Map<String, Value>, list: &str, gone: &Value, path: &str) -> Result<(), String> {
    let gone = gone.as_array().ok_or_else(|| format!("{path}: expected a list of what is to go"))?;
    if let Some(Value::Array(items)) = members.get_mut(list) {
        items.retain(|item| !gone.contains(item));
    }
    Ok(())
}

/// What the patch adds: neither directives nor nulls are data.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(without_directives(members)),
        other => other.clone(),
    }
}

fn without_directives(members: &Map<String, Value>) -> Map<String, Value> {
    let is_data = |name: &str, value: &Value| {
        !value.is_null()
            && name != PATCH
            && name != RETAIN
            && !name.starts_with(DELETE_FROM)
            && !name.starts_with(ORDER)
    };
    let data = members.iter().filter(|(name, value)| is_data(name, value));
    data.map(|(name, value)| (name.clone(), plain(value))).collect()
}

fn shown(path: &str) -> &str {
    if path.is_empty() { "the document" } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn merged(mut document: Value, patch: &Value) -> Result<Value, String> {
        merge(&mut document, patch).map(|()| document)
    }

    #[test]
    fn directives() {
        let document = json!({"spec": {"nets": ["a", "b"], "bgp": {"x": 1, "y": 2}, "order": 1}});
        for (patch, expected) in [
            (json!({"spec": {"nets": ["c"]}}), json!({"nets": ["c"], "bgp": {"x": 1, "y": 2}, "order": 1})),
            (
                json!({"spec": {"bgp": {"x": null, "z": {"a": null}}}}),
                json!({"nets": ["a", "b"], "bgp": {"y": 2, "z": {}}, "order": 1}),
            ),
            (
                json!({"spec": {"$deleteFromPrimitiveList/nets": ["a"]}}),
                json!({"nets": ["b"], "bgp": {"x": 1, "y": 2}, "order": 1}),
            ),
            (
                json!({"spec": {"bgp": {"$patch": "replace", "z": 3}}}),
                json!({"nets": ["a", "b"], "bgp": {"z": 3}, "order": 1}),
            ),
            (json!({"spec": {"bgp": {"$patch": "delete"}}}), json!({"nets": ["a", "b"], "bgp": {}, "order": 1})),
            (json!({"spec": {"$retainKeys": ["order"], "order": 5}}), json!({"order": 5})),
        ] {
            assert_eq!(merged(document.clone(), &patch), Ok(json!({ "spec": expected })), "{patch}");
        }
        for wrong in [
            json!({"spec": {"$patch": "x"}}),
            json!({"spec": {"$retainKeys": [], "order": 1}}),
            json!({"spec": {"$retainKeys": 1}}),
            json!({"spec": {"$deleteFromPrimitiveList/nets": 1}}),
            json!({"spec": {"$setElementOrder/nets": ["a"]}}),
            json!([]),
        ] {
            assert!(merged(document.clone(), &wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_of_the_metadata_are_merged() {
        let document =
            json!({"metadata": {"finalizers": ["a"], "ownerReferences": [{"uid": "1", "name": "x"}, {"uid": "2"}]}});
        let patch = json!({"metadata": {"finalizers": ["b", "a"], "ownerReferences": [
            {"uid": "1", "name": "y"}, {"uid": "2", "$patch": "delete"}, {"uid": "3"}]}});
        let expected = json!({"finalizers": ["a", "b"], "ownerReferences": [{"uid": "1", "name": "y"}, {"uid": "3"}]});
        assert_eq!(merged(document.clone(), &patch), Ok(json!({ "metadata": expected })));
        let patch = json!({"metadata": {"ownerReferences": [{"$patch": "replace"}, {"uid": "9"}]}});
        let expected = json!({"finalizers": ["a"], "ownerReferences": [{"uid": "9"}]});
        assert_eq!(merged(document.clone(), &patch), Ok(json!({ "metadata": expected })));
        assert!(merged(document, &json!({"metadata": {"ownerReferences": [{"name": "x"}]}})).is_err());
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(Value::Null), any::<u8>().prop_map(Value::from), "[ab]{0,2}".prop_map(Value::from)];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[abc]", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Without directives and outside the metadata it is RFC 7396's merge.
        #[test]
        fn without_directives_it_is_a_merge(document in value(), patch in value()) {
            let (document, patch) = (json!({ "spec": document }), json!({ "spec": patch }));
            let mut expected = document.clone();
            json_patch::merge(&mut expected, &patch);
            prop_assert_eq!(merged(document, &patch).unwrap(), expected);
        }
    }
}
