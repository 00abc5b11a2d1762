//! The gate of the graph: what an update means, and what of it is unusable.
//!
//! An object that cannot be used becomes absent, with one problem that says why. Nothing behind this gate sees the datastore's
//! shapes of policies again, except their rules.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::diagnostic::Problem;
use super::network;
use super::policy::{Admission, Policy};
use super::scope::{NAMESPACE_PREFIX, SERVICE_ACCOUNT, SERVICE_ACCOUNT_PREFIX};
use crate::resource::{
    FaultSort, HostEndpointSpec, Kind, NAMESPACE_LABEL, NetworkSetSpec, Object, ProfileSpec, Resource, ResourceKey,
    TierSpec, WorkloadEndpointSpec,
};
use crate::selector::Selector;
use crate::text::Text;
use crate::update::Update;

/// An update by what it concerns; `None` inside means absent.
#[derive(Debug)]
pub(super) enum Admitted {
    Endpoint(Option<Endpoint>),
    HostEndpoint(Option<HostEndpoint>),
    NetworkSet(Option<NetworkSet>),
    /// What hosts have in common: pools, nodes, settings of BGP.
    Network,
    Profile(Option<Profile>),
    Tier(Option<TierSpec>),
    /// With the endpoints that it applies to.
    Policy(Option<(Policy, Selector)>),
    /// Nothing that this graph calculates with.
    Irrelevant,
}

/// Declares a shared resource that is known to be of one kind.
macro_rules! view {
    ($(#[$meta:meta])* $name:ident, $variant:pat => $object:ident, $spec:ty) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        pub(super) struct $name(Arc<Resource>);

        impl $name {
            fn new(resource: &Arc<Resource>) -> Option<Self> {
                let view = Self(resource.clone());
                view.object().is_some().then_some(view)
            }

            pub(super) fn object(&self) -> Option<&Object<$spec>> {
                match &*self.0 {
                    $variant => Some($object),
                    _ => None,
                }
            }
        }
    };
}

view!(
    /// A workload endpoint with an interface and at least one address.
    Endpoint, Resource::WorkloadEndpoint(object) => object, WorkloadEndpointSpec
);
view!(
    /// A host endpoint.
    HostEndpoint, Resource::HostEndpoint(object) => object, HostEndpointSpec
);
view!(
    /// A network set of either kind.
    NetworkSet, Resource::NetworkSet(object) | Resource::GlobalNetworkSet(object) => object, NetworkSetSpec
);
view!(
    /// A profile.
    Profile, Resource::Profile(object) => object, ProfileSpec
);

/// Sorts an update, and says what is wrong with its object.
pub(super) fn admit(update: &Update) -> (Admitted, Vec<Problem>) {
    let value = update.value.as_ref().filter(|value| value.kind() == update.key.kind());
    let (admitted, mut problems) = sort(&update.key, value);
    if update.value.is_some() && value.is_none() {
        problems.push(Problem::WrongKind);
    }
    let unread = value.and_then(|value| value.metadata()).into_iter().flat_map(|metadata| &metadata.unread);
    problems.extend(unread.cloned().map(|fault| match fault.sort {
        FaultSort::UnknownField => Problem::UnknownField(fault),
        _ => Problem::Metadata(fault),
    }));
    (admitted, problems)
}

fn sort(key: &ResourceKey, value: Option<&Arc<Resource>>) -> (Admitted, Vec<Problem>) {
    let (admitted, problem) = match key.kind() {
        Kind::WorkloadEndpoint => {
            let endpoint = value.and_then(Endpoint::new);
            match endpoint.as_ref().and_then(Endpoint::missing_part) {
                Some(missing) => (Admitted::Endpoint(None), Some(missing)),
                None => (Admitted::Endpoint(endpoint), None),
            }
        }
        Kind::HostEndpoint => (Admitted::HostEndpoint(value.and_then(HostEndpoint::new)), None),
        Kind::NetworkSet | Kind::GlobalNetworkSet => {
            let set = value.and_then(NetworkSet::new);
            let unread = set.as_ref().and_then(|set| set.object()?.spec.unread.as_ref()?.all().next());
            let problem = unread.cloned().map(Problem::Net);
            (Admitted::NetworkSet(set), problem)
        }
        Kind::Profile => (Admitted::Profile(value.and_then(Profile::new)), None),
        Kind::Node => (Admitted::Network, value.and_then(|node| nobodys_as(node))),
        Kind::IpPool => (Admitted::Network, None),
        Kind::BgpConfiguration => {
            let problems = value.map(|value| network::service_problems(key, value)).unwrap_or_default();
            return (Admitted::Network, problems);
        }
        Kind::Tier => match value.map(|value| &**value) {
            Some(Resource::Tier(object)) => (Admitted::Tier(Some(object.spec.clone())), None),
            _ => (Admitted::Tier(None), None),
        },
        Kind::NetworkPolicy
        | Kind::GlobalNetworkPolicy
        | Kind::StagedNetworkPolicy
        | Kind::StagedGlobalNetworkPolicy
        | Kind::StagedKubernetesNetworkPolicy => {
            let (policy, problems) = value.map_or_else(Admission::default, |value| Policy::admit(key, value));
            return (Admitted::Policy(policy), problems);
        }
        _ => (Admitted::Irrelevant, None),
    };
    (admitted, problem.into_iter().collect())
}

fn nobodys_as(node: &Resource) -> Option<Problem> {
    let Resource::Node(node) = node else { return None };
    let number = node.spec.bgp.as_ref()?.as_number?;
    number.is_nobodys().then_some(Problem::NobodysAs)
}

impl Endpoint {
    fn missing_part(&self) -> Option<Problem> {
        let spec = &self.object()?.spec;
        match spec.interface_name {
            None => Some(Problem::NoInterface),
            Some(_) => spec.addresses().next().is_none().then_some(Problem::NoAddress),
        }
    }

    /// Own labels. What can be known from key and specification is taken from there, and labels that only profiles may hand
    /// down are not taken from the endpoint.
    pub(super) fn labels<'a>(&'a self, key: &'a ResourceKey) -> impl Iterator<Item = (&'a str, &'a str)> + Clone {
        let object = self.object();
        let account = object.map(|object| object.spec.service_account_name.as_str()).filter(|name| !name.is_empty());
        let namespace = key.namespace();
        let stored = object.into_iter().flat_map(|object| &object.metadata.labels);
        let stored = stored.map(|(name, value)| (name.as_str(), value.as_str())).filter(move |(name, _)| {
            let inherited = name.starts_with(NAMESPACE_PREFIX) || name.starts_with(SERVICE_ACCOUNT_PREFIX);
            let known =
                *name == NAMESPACE_LABEL && namespace.is_some() || *name == SERVICE_ACCOUNT && account.is_some();
            !inherited && !known
        });
        let known = [(NAMESPACE_LABEL, namespace), (SERVICE_ACCOUNT, account)];
        stored.chain(known.into_iter().filter_map(|(name, value)| Some((name, value?))))
    }

    pub(super) fn profiles(&self) -> impl Iterator<Item = &str> + Clone {
        self.object().into_iter().flat_map(|object| &object.spec.profiles).map(Text::as_str)
    }
}

impl HostEndpoint {
    /// Own labels, as they are written: whoever writes host endpoints rules the hosts.
    pub(super) fn labels(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        let stored = self.object().into_iter().flat_map(|object| &object.metadata.labels);
        stored.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(super) fn profiles(&self) -> impl Iterator<Item = &str> + Clone {
        self.object().into_iter().flat_map(|object| &object.spec.profiles).map(String::as_str)
    }
}

impl Profile {
    /// Labels that it hands down.
    pub(super) fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self.object().into_iter().flat_map(|object| &object.spec.labels_to_apply);
        labels.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The profile that exists without being stored.
    pub(super) fn default_allow() -> Option<Self> {
        Self::new(&Arc::new(Resource::default_allow_profile()))
    }
}

impl NetworkSet {
    /// Labels; a namespaced set has its namespace's name as one.
    pub(super) fn labels<'a>(&'a self, key: &'a ResourceKey) -> impl Iterator<Item = (&'a str, &'a str)> {
        let namespace = key.namespace();
        let stored = self.object().into_iter().flat_map(|object| &object.metadata.labels);
        let stored = stored.map(|(name, value)| (name.as_str(), value.as_str()));
        let stored = stored.filter(move |(name, _)| !(*name == NAMESPACE_LABEL && namespace.is_some()));
        stored.chain(namespace.map(|namespace| (NAMESPACE_LABEL, namespace)))
    }
}
