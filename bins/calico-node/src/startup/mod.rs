//! Who this host is, where it is, and that the cluster knows: found out once when the agent starts, and made known for as long as it
//! runs.

pub mod address;
pub(crate) mod alone;
pub(crate) mod capability;
pub mod identity;
pub mod register;
pub(crate) mod registrar;
