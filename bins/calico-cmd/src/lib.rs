//! What every Calico program shares: logging, exit codes, choice of datastore, reading manifests.

pub mod control;
pub mod exit;
pub mod manifest;
pub mod store;
pub mod telemetry;
