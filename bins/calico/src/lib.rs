//! The CNI plugin: attaches a container's interface to the network.
