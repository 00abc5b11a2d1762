//! What every Calico program shares: logging, exit codes, choice of datastore, reading manifests.

pub mod control;
