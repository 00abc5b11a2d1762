//! The calculation graph: which policies, sets and endpoints are active on one host.

pub mod event;
