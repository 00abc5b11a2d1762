//! `ClusterInformation`: who the cluster is, and whether its data may be acted upon.

use alloc::string::String;

use super::model::model;

model! {
    /// Specification of a `ClusterInformation`; the only one is called `default`.
    pub struct ClusterInformationSpec: specification {
        /// Identity of the cluster: 32 hexadecimal digits.
        "clusterGUID" cluster_guid: String;
        /// What the cluster is made of: words separated by commas.
        "clusterType" cluster_type: String;
        /// Version that the cluster runs.
        "calicoVersion" calico_version: String;
        /// False while the datastore is locked: what it says is not acted upon.
        "datastoreReady" datastore_ready: Option<bool>;
        /// Edition.
        "variant" variant: String;
    }
}
