//! calico-datastore.
