//! What each verb does.

pub(crate) mod bgp;
pub(crate) mod change;
pub(crate) mod convert;
pub(crate) mod datastore;
pub(crate) mod diff;
pub(crate) mod edit;
pub(crate) mod get;
pub(crate) mod node;
pub(crate) mod policy;
mod report;
pub(crate) mod version;
