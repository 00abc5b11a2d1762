//! Conditions: how those who watch over objects say in which state they find them (Kubernetes' `metav1.Condition`).

use alloc::string::String;
use alloc::vec::Vec;

use super::formats::{CONDITION_REASON, CONDITION_TYPE, DATE_TIME};
use super::limit::Limit;
use super::model::model;

/// Status of a condition that does not hold.
const FALSE: &str = "False";

model! {
    /// Status of a kind of which nothing but conditions is reported.
    pub struct Conditions {
        /// The conditions, one of each type.
        "conditions" conditions: Vec<Condition> where [Limit::UniqueIn("type")];
    }
}

model! {
    /// One aspect of an object's state.
    pub struct Condition {
        /// Which aspect: `Allocatable`, `Ready` …
        "type" condition_type: String, required where [Limit::Text(&CONDITION_TYPE)];
        /// Whether it holds.
        "status" status: String, required where [Limit::OneOf(&["True", FALSE, "Unknown"])];
        /// The `metadata.generation` that it was found for.
        "observedGeneration" observed_generation: Option<i64> where [Limit::Range(0, i64::MAX)];
        /// Since when.
        "lastTransitionTime" last_transition_time: String, required where [Limit::Text(&DATE_TIME)];
        /// Why, as one word for programs.
        "reason" reason: String, required where [Limit::Text(&CONDITION_REASON)];
        /// Why, for people. Empty text is written, as upstream does.
        "message" message: Option<String> where [Limit::Length(32_768)];
    }
}

impl Conditions {
    /// Whether it is said of a condition that it does not hold.
    pub fn deny(&self, condition_type: &str) -> bool {
        self.conditions.iter().any(|one| one.condition_type == condition_type && one.status == FALSE)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec::Vec;

    use serde_json::{Value, json};

    use crate::resource::{API_VERSION, Kind, Resource, merge_unknown};

    fn condition() -> Value {
        json!({"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "OK",
               "message": ""})
    }

    fn tier(conditions: &[Value]) -> Value {
        json!({"kind": "Tier", "apiVersion": API_VERSION, "metadata": {"name": "t"}, "spec": {},
               "status": {"conditions": conditions}})
    }

    fn paths(conditions: &[Value]) -> Vec<String> {
        let read = Resource::decode_strict(Kind::Tier, &tier(conditions), None);
        read.err().unwrap_or_default().into_iter().map(|fault| fault.path).collect()
    }

    /// The schema's bounds and patterns.
    #[test]
    fn conditions_of_a_manifest_are_in_order() {
        let none: [&str; 0] = [];
        let mut whole = condition();
        whole["observedGeneration"] = json!(3);
        assert_eq!(paths(&[whole]), none);
        for (name, value) in [
            ("type", json!("not ready")),
            ("type", json!(null)),
            ("status", json!("false")),
            ("status", json!(false)),
            ("observedGeneration", json!(-1)),
            ("lastTransitionTime", json!("yesterday")),
            ("reason", json!("")),
            ("reason", json!("not ready")),
            ("message", json!(1)),
            ("message", json!("x".repeat(32_769))),
        ] {
            let mut wrong = condition();
            wrong[name] = value;
            assert_eq!(paths(&[wrong]), [["status.conditions[0].", name].concat()]);
        }
        assert_eq!(paths(&[condition(), condition()]), ["status.conditions[1].type"]);
    }

    /// Stored conditions are taken as they come, and come back as they were.
    #[test]
    fn stored_conditions_survive_a_rewrite() {
        let mut odd = condition();
        odd["later"] = json!({"x": 1});
        odd["reason"] = json!("in words");
        for kind in [Kind::Tier, Kind::IpPool] {
            let mut stored = tier(&[condition(), odd.clone(), json!({})]);
            stored["kind"] = kind.name().into();
            stored["spec"] = json!({"cidr": "10.0.0.0/16", "vxlanMode": "Never", "ipipMode": "Never",
                                    "allowedUses": ["Workload"], "assignmentMode": "Automatic"});
            let mut resource = Resource::decode(kind, &stored).unwrap();
            let conditions = match &mut resource {
                Resource::Tier(tier) => &mut tier.status,
                Resource::IpPool(pool) => &mut pool.status,
                other => panic!("{other:?}"),
            };
            assert!(conditions.deny("Ready") && !conditions.deny("Allocatable"));
            assert_eq!(merge_unknown(kind, &stored, resource.encode()), stored);
        }
    }
}
