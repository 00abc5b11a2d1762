//! The decisions of Calico, without any I/O.
//!
//! Everything here is a pure function or a synchronous machine: no sockets, files, environment, clock, randomness, threads
//! or async runtime. Adapters (`calico-datastore`, `calico-dataplane`, `calico-bgp`) fetch, carry out and converse; they
//! speak the vocabulary that is defined here and never each other's.
//!
//! | Module | Decides |
//! |---|---|
//! | [`label`] | which selectors match which labelled items, incrementally |
//! | [`net`] | value types: CIDR, MAC, interface name, port, protocol, AS number |
//! | [`resource`] | the v3 resource model: kinds, keys, metadata, JSON shape |
//! | [`selector`] | the label selector language |
//! | [`update`] | what the datastore tells the graph |
//! | [`calc`] | which policies, sets and endpoints are active on this host |
//! | [`service`] | which addresses and ports stand behind a Kubernetes service |
//! | [`kubernetes`] | which resources follow from documents of Kubernetes |
//! | [`flow`] | one flow: the common question of every evaluator |
//! | [`render`] | what a host should hold, in table words, for what is active on it |
//! | [`spec`] | what happens to a flow, slowly and straight from the resources: the oracle |
//! | [`connection`] | which tracked connections policy denies now |
//! | [`delta`] | what to write: desired against observed |
//! | [`table`] | the abstract dataplane language: chains, rules, sets, routes, neighbours |
//! | [`ipam`] | which addresses are handed out, and to whom |
//! | [`cni`] | what a CNI plugin was asked, and how it answers |
//! | [`text`] | text that many objects have in common |
//! | [`time`] | points in time, handed in by whoever has a clock |
//! | [`verdict`] | what the calculated state does to one flow |
//! | [`bgp`] | which sessions and prefixes a node should have |
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod bgp;
pub mod calc;
pub mod cni;
pub mod connection;
pub mod delta;
mod few;
pub mod flow;
pub mod ipam;
pub mod kubernetes;
pub mod label;
mod member;
pub mod net;
pub mod render;
pub mod resource;
pub mod selector;
pub mod service;
pub mod spec;
pub mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
pub mod time;
pub mod update;
pub mod verdict;

pub use few::Few;
