//! The CNI IPAM plugin: assigns addresses from Calico's pools.
