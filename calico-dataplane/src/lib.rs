//! calico-dataplane.
