//! An endpoint of this host, of either kind: what policies select.

use super::admit::{Endpoint, HostEndpoint};
use crate::resource::ResourceKey;

/// An endpoint that is active here.
#[derive(Debug, Clone)]
pub(super) enum Local {
    Workload(Endpoint),
    Host(HostEndpoint),
}

impl Local {
    pub(super) fn labels<'a>(&'a self, key: &'a ResourceKey) -> impl Iterator<Item = (&'a str, &'a str)> + Clone {
        let (workload, host) = self.either();
        let of_workload = workload.into_iter().flat_map(move |endpoint| endpoint.labels(key));
        of_workload.chain(host.into_iter().flat_map(HostEndpoint::labels))
    }

    pub(super) fn profiles(&self) -> impl Iterator<Item = &str> + Clone {
        let (workload, host) = self.either();
        workload.into_iter().flat_map(Endpoint::profiles).chain(host.into_iter().flat_map(HostEndpoint::profiles))
    }

    pub(super) const fn is_workload(&self) -> bool {
        matches!(self, Self::Workload(_))
    }

    const fn either(&self) -> (Option<&Endpoint>, Option<&HostEndpoint>) {
        match self {
            Self::Workload(endpoint) => (Some(endpoint), None),
            Self::Host(endpoint) => (None, Some(endpoint)),
        }
    }
}
