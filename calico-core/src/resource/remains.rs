//! What of a stored object that cannot be read still counts.
//!
//! Such an object is absent for those who calculate with it. One statement must outlive that: that a pool is kept out of BGP. Were
//! the pool simply gone, its blocks would be announced, as those of a deleted pool are. So range and `disableBGPExport` count as far
//! as each can be read. A `disableBGPExport` that cannot be read counts as set. Of a pool that is kept out, a range that cannot be
//! read is every address that lies in no pool which can be read; of any other pool nothing is left then.
//!
//! Withheld is thus what the document says is private, or may say. To withhold whatever lies in no readable pool for *any* fault in
//! *any* pool would cut off whole nodes for one field that a newer version wrote. All of this follows from what is stored, so a
//! restart decides alike.

use core::net::{IpAddr, Ipv4Addr};

use serde_json::Value;

use super::{IpPool, IpPoolSpec, Kind, Metadata, Resource};
use crate::net::Cidr;

impl Resource {
    /// What still counts of a document that [`decode`](Self::decode) refuses (null where there is not even a document): of an IPPool
    /// range and `disableBGPExport`, with no address to give; of anything else nothing.
    pub fn remains(kind: Kind, document: &Value) -> Option<Self> {
        if kind != Kind::IpPool {
            return None;
        }
        let spec = document.get("spec").filter(|spec| spec.is_object());
        let field = |name: &str| spec?.get(name).filter(|value| !value.is_null());
        let cidr = field("cidr").and_then(|cidr| cidr.as_str()?.parse::<Cidr>().ok());
        let disable_bgp_export =
            spec.is_none() || field("disableBGPExport").is_some_and(|flag| flag.as_bool() != Some(false));
        // Only IPv4 is announced.
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
        for kind in Kind::ALL.iter().copied().filter(|kind| *kind != Kind::IpPool) {
            assert_eq!(Resource::remains(kind, &json!({"spec": {"cidr": "10.0.0.0/16"}})), None, "{kind}");
        }
    }
}
