//! What of a stored object that cannot be read still counts.
//!
//! Such an object is absent for those who calculate with it. One statement must outlive that: that a pool is kept out of BGP. Were
//! the pool simply gone, its blocks would be announced, as those of a deleted pool are. So range and `disableBGPExport` count as far
//! as each can be read. A `disableBGPExport` that cannot be read counts as set. Of a pool that is kept out, a range that cannot be
//! read is every address that lies in no pool which can be read; of any other pool nothing is left then.
//!
//! Two more statements outlive it. A tier whose order can be read keeps its place, with Deny at its end: its policies, which may be
//! understood in full, would otherwise come last of all, behind rules that allow. And a `datastoreReady` that is there and is no truth
//! value counts as false: somebody locked the datastore, or nobody knows.
//!
//! Withheld is thus what the document says is private, or may say. To withhold whatever lies in no readable pool for *any* fault in
//! *any* pool would cut off whole nodes for one field that a newer version wrote. All of this follows from what is stored, so a
//! restart decides alike.

use core::net::{IpAddr, Ipv4Addr};

use serde_json::Value;

use super::{
    ClusterInformationSpec, DefaultAction, IpPool, IpPoolSpec, Kind, Metadata, Object, Resource, Tier, TierSpec,
};
use crate::net::Cidr;

impl Resource {
    /// What still counts of a document that [`decode`](Self::decode) refuses (null where there is not even a document): of an IPPool
    /// range and `disableBGPExport`, with no address to give; of a Tier its order; of ClusterInformation `datastoreReady`; of anything
    /// else nothing. The name is left to the caller.
    pub fn remains(kind: Kind, document: &Value) -> Option<Self> {
        match kind {
            Kind::IpPool => Self::remains_of_pool(document),
            Kind::Tier => {
                let order = document.get("spec")?.as_object()?.get("order").filter(|order| !order.is_null());
                let order = order.map(|order| order.as_f64().ok_or(())).transpose().ok()?;
                let spec = TierSpec { order, default_action: Some(DefaultAction::Deny) };
                Some(Self::Tier(Tier::new(Metadata::default(), spec)))
            }
            Kind::ClusterInformation => {
                let flag = document.get("spec")?.as_object()?.get("datastoreReady").filter(|flag| !flag.is_null());
                let datastore_ready = flag.map(|flag| flag.as_bool().unwrap_or_default());
                let spec = ClusterInformationSpec { datastore_ready, ..ClusterInformationSpec::default() };
                Some(Self::ClusterInformation(Object::new(Metadata::default(), spec).into()))
            }
            _ => None,
        }
    }

    fn remains_of_pool(document: &Value) -> Option<Self> {
        let spec = document.get("spec").filter(|spec| spec.is_object());
        let field = |name: &str| spec?.get(name).filter(|value| !value.is_null());
        let cidr = field("cidr").and_then(|cidr| cidr.as_str()?.parse::<Cidr>().ok());
        let disable_bgp_export =
            spec.is_none() || field("disableBGPExport").is_some_and(|flag| flag.as_bool() != Some(false));
        // Who decides what is announced takes it for every address of the other family, too.
        let anywhere = || Cidr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0).filter(|_| disable_bgp_export);
        let cidr = cidr.or_else(anywhere)?;
        let spec = IpPoolSpec { cidr, disable_bgp_export, disabled: true, ..IpPoolSpec::default() };
        Some(Self::IpPool(IpPool::new(Metadata::default(), spec)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use serde_json::json;

    #[test]
    fn a_tier_keeps_its_place_and_a_lock_its_hold() {
        let order = |document| match Resource::remains(Kind::Tier, &document) {
            Some(Resource::Tier(tier)) => {
                assert_eq!(tier.spec.default_action, Some(DefaultAction::Deny), "{document}");
                Some(tier.spec.order)
            }
            other => {
                assert_eq!(other, None, "{document}");
                None
            }
        };
        assert_eq!(order(json!({"spec": {"order": 5, "defaultAction": "Audit"}})), Some(Some(5.0)));
        assert_eq!(order(json!({"metadata": 1, "spec": {"defaultAction": "Pass"}})), Some(None));
        for nothing in [json!({"spec": {"order": "5"}}), json!({"spec": 5}), json!({}), json!(null)] {
            assert_eq!(order(nothing), None);
        }
        let ready = |document| match Resource::remains(Kind::ClusterInformation, &document) {
            Some(Resource::ClusterInformation(information)) => Some(information.spec.datastore_ready),
            _ => None,
        };
        assert_eq!(ready(json!({"spec": {"datastoreReady": "no"}})), Some(Some(false)));
        assert_eq!(ready(json!({"metadata": [], "spec": {"datastoreReady": false}})), Some(Some(false)));
        assert_eq!(ready(json!({"metadata": [], "spec": {"datastoreReady": true}})), Some(Some(true)));
        assert_eq!(ready(json!({"metadata": [], "spec": {"datastoreReady": null}})), Some(None));
        assert_eq!(ready(json!({"spec": []})), None);
    }

    #[test]
    fn range_and_export_count_as_far_as_they_can_be_read() {
        for (document, expected) in [
            (json!({"spec": {"cidr": "10.0.0.0/16", "blockSize": "x"}}), Some(("10.0.0.0/16", false))),
            (
                json!({"spec": {"cidr": "10.0.0.0/16", "disableBGPExport": null, "blockSize": 1}}),
                Some(("10.0.0.0/16", false)),
            ),
            (
                json!({"spec": {"cidr": "10.0.0.0/16", "disableBGPExport": true, "blockSize": 1}}),
                Some(("10.0.0.0/16", true)),
            ),
            (json!({"spec": {"cidr": "10.0.0.0/16", "disableBGPExport": "yes"}}), Some(("10.0.0.0/16", true))),
            (
                json!({"metadata": 1, "spec": {"cidr": "fd00::/64", "disableBGPExport": true}}),
                Some(("fd00::/64", true)),
            ),
            (json!({"spec": {"cidr": "10.0.0/16", "disableBGPExport": true}}), Some(("0.0.0.0/0", true))),
            (json!({"spec": {"cidr": "10.0.0/16", "disableBGPExport": false}}), None),
            (json!({"spec": {"blockSize": 26}}), None),
            (json!({"spec": []}), Some(("0.0.0.0/0", true))),
            (json!([]), Some(("0.0.0.0/0", true))),
            (Value::Null, Some(("0.0.0.0/0", true))),
        ] {
            let remains = Resource::remains(Kind::IpPool, &document);
            let Some(Resource::IpPool(pool)) = &remains else {
                assert_eq!((remains, expected), (None, None), "{document}");
                continue;
            };
            let found = (pool.spec.cidr.to_string(), pool.spec.disable_bgp_export);
            assert_eq!(Some((found.0.as_str(), found.1)), expected, "{document}");
            assert!(pool.spec.disabled, "{document}");
        }
        let outlive = [Kind::IpPool, Kind::Tier, Kind::ClusterInformation];
        for kind in Kind::ALL.iter().copied().filter(|kind| !outlive.contains(kind)) {
            assert_eq!(Resource::remains(kind, &json!({"spec": {"cidr": "10.0.0.0/16"}})), None, "{kind}");
        }
    }
}
