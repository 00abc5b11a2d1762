//! calico-bgp.
