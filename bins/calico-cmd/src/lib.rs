//! What every Calico program shares: logging, output, exit codes, directories, choice of datastore, reading manifests.

pub mod control;
pub mod directory;
pub mod exit;
pub mod manifest;
pub mod output;
pub mod store;
pub mod telemetry;
