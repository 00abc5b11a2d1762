//! What happens once when the agent starts: who this host is, where it is, and that the cluster knows.

pub mod address;
pub(crate) mod alone;
pub(crate) mod capability;
pub mod identity;
pub mod register;
