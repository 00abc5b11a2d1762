//! How the names of workloads' interfaces begin.

use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::str::FromStr;

use super::{CniError, ErrorCode};
use crate::net::InterfaceName;

/// One setting of a host, for all of its programs: the plugin names interfaces by it, and the agent polices what is named so. A program
/// that had another value than the rest would make interfaces that nobody polices, so all read [`Self::VARIABLE`], upstream's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadPrefixes {
    first: InterfaceName,
    others: Vec<InterfaceName>,
}

impl WorkloadPrefixes {
    /// The variable of the environment that sets it, comma-separated.
    pub const VARIABLE: &'static str = "FELIX_INTERFACEPREFIX";

    /// The one by which new interfaces are named.
    pub const fn first(&self) -> InterfaceName {
        self.first
    }

    /// All that are policed.
    pub fn to_vec(&self) -> Vec<InterfaceName> {
        let mut all = vec![self.first];
        all.extend(&self.others);
        all
    }
}

impl Default for WorkloadPrefixes {
    fn default() -> Self {
        Self { first: InterfaceName::CALI, others: Vec::new() }
    }
}

impl FromStr for WorkloadPrefixes {
    type Err = CniError;

    fn from_str(text: &str) -> Result<Self, CniError> {
        let mut names = text.split(',').map(|name| name.trim().parse::<InterfaceName>());
        let bad = |details| {
            let message =
                format!("{text:?} is no list of interface prefixes: give cali, or several with commas between");
            CniError::new(ErrorCode::InvalidConfig, message).with_details(details)
        };
        let first = names.next().unwrap_or_else(|| "".parse()).map_err(|error| bad(error.to_string()))?;
        let others = names.collect::<Result<_, _>>().map_err(|error| bad(error.to_string()))?;
        Ok(Self { first, others })
    }
}
