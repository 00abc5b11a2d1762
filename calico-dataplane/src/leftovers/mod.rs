//! What a node of upstream in iptables mode left in the kernel, and its removal.
//!
//! Upstream's chains lie in the tables of iptables, among rules of others: `iptables-nft`'s are tables of nf_tables like ours, and are
//! cleaned over netlink, since `iptables-nft` refuses tables in which somebody used more than it knows. The older kind is touched
//! only where this network namespace has such tables: to ask for them would load their modules. Rules go first, then chains, then the IP sets
//! that they referred to; what is not recognisably upstream's stays (`felix.md` 3.16 of the notes; `felix/iptables` and
//! `felix/rules` of upstream).
//!
//! To be called once our own rules are in force: both sets of rules allow the same, so their intersection is safe.

mod ipset;
mod legacy;
mod tables;

use crate::DataplaneError;

/// How the names of upstream's chains begin, those of old releases too.
const CHAINS: [&str; 8] = ["cali-", "califw-", "calitw-", "califh-", "calith-", "calipi-", "calipo-", "felix-"];
/// How the comments of its rules begin.
const COMMENT: &str = "cali:";
/// How the names of its IP sets begin, with the family or without.
const SETS: [&str; 3] = ["cali4", "cali6", "felix-"];
/// The tables that it writes to.
const TABLES: [&str; 4] = ["raw", "mangle", "nat", "filter"];

/// What was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "plain counts")]
pub struct Removed {
    /// Rules in chains of others.
    pub rules: usize,
    /// Upstream's chains.
    pub chains: usize,
    /// Its IP sets.
    pub sets: usize,
}

impl Removed {
    /// Whether there was nothing.
    pub const fn is_nothing(&self) -> bool {
        self.rules == 0 && self.chains == 0 && self.sets == 0
    }
}

impl std::ops::AddAssign for Removed {
    fn add_assign(&mut self, other: Self) {
        self.rules += other.rules;
        self.chains += other.chains;
        self.sets += other.sets;
    }
}

/// Removes what upstream left in the calling thread's network namespace. Nothing there is success; to be called again after a failure.
///
/// # Errors
/// What the kernel refuses, or which program is missing for tables of the older kind. What was removed before stays removed.
pub fn remove() -> Result<Removed, DataplaneError> {
    let mut removed = tables::remove()?;
    removed += legacy::remove()?;
    removed.sets = ipset::remove()?;
    Ok(removed)
}

fn is_chain(name: &str) -> bool {
    CHAINS.iter().any(|prefix| name.starts_with(prefix))
}

fn kernel(operation: &'static str, object: &str) -> impl FnOnce(std::io::Error) -> DataplaneError {
    let object = object.to_owned();
    move |source| DataplaneError::Kernel { operation, object, source }
}
