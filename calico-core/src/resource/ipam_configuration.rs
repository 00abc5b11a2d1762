//! `IPAMConfiguration`: how addresses are handed out, as operators write it. The form that IPAM itself reads in etcd is
//! [`IpamConfig`](super::IpamConfig).

use alloc::string::String;

use super::limit::Limit;
use super::model::model;

model! {
    /// Specification of an `IPAMConfiguration`; the only one is called `default`.
    pub struct IpamConfigurationSpec: specification {
        /// Whether nodes take addresses from their own blocks only.
        "strictAffinity" strict_affinity: Option<bool> = "false";
        /// Most blocks that one node may have; 0 means any number.
        "maxBlocksPerHost" max_blocks_per_host: Option<i32> = "0" where [Limit::Range(0, 1_000_000)];
        /// Whether nodes take further blocks when theirs are full.
        "autoAllocateBlocks" auto_allocate_blocks: Option<bool> = "true";
        /// Whether addresses of KubeVirt's machines outlive their pods.
        "kubeVirtVMAddressPersistence" kube_virt_vm_address_persistence: Option<String>
            where [Limit::OneOf(&["Enabled", "Disabled"])];
        /// Seconds before an address that was released is handed out again.
        "ipCooldownSeconds" ip_cooldown_seconds: Option<i32> where [Limit::Range(0, 1200)];
    }
}
