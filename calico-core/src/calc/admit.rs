//! The gate of the graph: what an update means, and what of it is unusable.
//!
//! An object that cannot be used becomes absent, with one problem that says why. Nothing behind this gate sees the datastore's
//! shapes of policies again, except their rules.

use alloc::sync::Arc;

use super::diagnostic::Problem;
use super::scope::{self, NAMESPACE_PREFIX, SERVICE_ACCOUNT, SERVICE_ACCOUNT_PREFIX};
use crate::net::AsNumber;
use crate::resource::{
    DEFAULT_TIER, Kind, NAMESPACE_LABEL, NetworkSetSpec, Object, PolicyType, ProfileSpec, Resource, ResourceKey, Rule,
    TierSpec, WorkloadEndpointSpec, implied_types,
};
use crate::selector::Selector;
use crate::text::Text;
use crate::update::Update;

/// An update by what it concerns; `None` inside means absent.
#[derive(Debug)]
pub(super) enum Admitted {
    Endpoint(Option<Endpoint>),
    NetworkSet(Option<NetworkSet>),
    /// A host, of which the graph only says what is wrong.
    Node,
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
    /// A network set of either kind.
    NetworkSet, Resource::NetworkSet(object) | Resource::GlobalNetworkSet(object) => object, NetworkSetSpec
);
view!(
    /// A profile.
    Profile, Resource::Profile(object) => object, ProfileSpec
);

/// A policy that applies to workloads, of either kind. Tens of thousands are inactive, so it is only a view.
#[derive(Debug, Clone)]
pub(super) struct Policy(Arc<Resource>);

impl Policy {
    pub(super) fn tier(&self) -> &str {
        self.0.tier().unwrap_or(DEFAULT_TIER)
    }

    pub(super) fn order(&self) -> Option<f64> {
        match &*self.0 {
            Resource::NetworkPolicy(object) => object.spec.order,
            Resource::GlobalNetworkPolicy(object) => object.spec.order,
            _ => None,
        }
    }

    pub(super) fn governs(&self, direction: PolicyType) -> bool {
        let types = match &*self.0 {
            Resource::NetworkPolicy(object) => &object.spec.types,
            Resource::GlobalNetworkPolicy(object) => &object.spec.types,
            _ => return false,
        };
        if types.is_empty() {
            let rules = |direction| self.all_rules(direction);
            return implied_types(rules(PolicyType::Ingress), rules(PolicyType::Egress)).contains(&direction);
        }
        types.contains(&direction)
    }

    /// Rules of a direction; none when it does not govern that direction.
    pub(super) fn rules(&self, direction: PolicyType) -> &[Rule] {
        if self.governs(direction) { self.all_rules(direction) } else { &[] }
    }

    fn all_rules(&self, direction: PolicyType) -> &[Rule] {
        let (ingress, egress) = match &*self.0 {
            Resource::NetworkPolicy(object) => (&object.spec.ingress, &object.spec.egress),
            Resource::GlobalNetworkPolicy(object) => (&object.spec.ingress, &object.spec.egress),
            _ => return &[],
        };
        match direction {
            PolicyType::Ingress => ingress,
            PolicyType::Egress => egress,
        }
    }

    /// Whether it takes the same place in an endpoint's stacks as another version of itself.
    pub(super) fn stands_like(&self, other: &Self) -> bool {
        let directions = |policy: &Self| [PolicyType::Ingress, PolicyType::Egress].map(|one| policy.governs(one));
        self.tier() == other.tier() && self.order() == other.order() && directions(self) == directions(other)
    }

    /// Whether it selects the same endpoints as another version of itself, as written.
    pub(super) fn selects_like(&self, other: &Self) -> bool {
        match (&*self.0, &*other.0) {
            (Resource::NetworkPolicy(one), Resource::NetworkPolicy(other)) => {
                one.spec.selector == other.spec.selector
                    && one.spec.service_account_selector == other.spec.service_account_selector
            }
            (Resource::GlobalNetworkPolicy(one), Resource::GlobalNetworkPolicy(other)) => {
                one.spec.selector == other.spec.selector
                    && one.spec.service_account_selector == other.spec.service_account_selector
                    && one.spec.namespace_selector == other.spec.namespace_selector
            }
            _ => false,
        }
    }
}

/// Sorts an update, and says what is wrong with its object.
pub(super) fn admit(update: &Update) -> (Admitted, Option<Problem>) {
    let (admitted, problem) = sort(update);
    let unread = || update.value.as_ref()?.metadata()?.unread.first().cloned();
    (admitted, problem.or_else(|| unread().map(Problem::Metadata)))
}

fn sort(update: &Update) -> (Admitted, Option<Problem>) {
    let value = update.value.as_ref();
    let wrong = |found: bool| (value.is_some() && !found).then_some(Problem::WrongKind);
    match update.key.kind() {
        Kind::WorkloadEndpoint => {
            let endpoint = value.and_then(Endpoint::new);
            let problem = wrong(endpoint.is_some());
            match endpoint.as_ref().and_then(Endpoint::missing_part) {
                Some(missing) => (Admitted::Endpoint(None), Some(missing)),
                None => (Admitted::Endpoint(endpoint), problem),
            }
        }
        Kind::NetworkSet | Kind::GlobalNetworkSet => {
            let set = value.and_then(NetworkSet::new);
            let unread = set.as_ref().and_then(|set| set.object()?.spec.unread.as_ref()?.all().next());
            let problem = wrong(set.is_some()).or_else(|| unread.cloned().map(Problem::Net));
            (Admitted::NetworkSet(set), problem)
        }
        Kind::Profile => {
            let profile = value.and_then(Profile::new);
            let problem = wrong(profile.is_some());
            (Admitted::Profile(profile), problem)
        }
        Kind::Node => match value.map(|value| &**value) {
            Some(Resource::Node(node)) => {
                let number = node.spec.bgp.as_ref().and_then(|bgp| bgp.as_number);
                (Admitted::Node, number.is_some_and(AsNumber::is_nobodys).then_some(Problem::NobodysAs))
            }
            _ => (Admitted::Node, wrong(false)),
        },
        Kind::Tier => match value.map(|value| &**value) {
            Some(Resource::Tier(object)) => (Admitted::Tier(Some(object.spec.clone())), None),
            _ => (Admitted::Tier(None), wrong(false)),
        },
        Kind::NetworkPolicy | Kind::GlobalNetworkPolicy => match value.map(|value| policy(&update.key, value)) {
            Some(Ok(policy)) => (Admitted::Policy(policy), None),
            Some(Err(problem)) => (Admitted::Policy(None), Some(problem)),
            None => (Admitted::Policy(None), None),
        },
        _ => (Admitted::Irrelevant, None),
    }
}

/// `Ok(None)`: it is in order but never applies to workloads.
fn policy(key: &ResourceKey, source: &Arc<Resource>) -> Result<Option<(Policy, Selector)>, Problem> {
    let unusable = |(field, error)| Problem::Selector { field, error };
    let policy = Policy(source.clone());
    match (&**source, key.namespace()) {
        (Resource::NetworkPolicy(object), Some(namespace)) => {
            let selector = scope::network_policy(namespace, &object.spec).map_err(unusable)?;
            Ok(Some((policy, selector)))
        }
        (Resource::GlobalNetworkPolicy(object), None) => {
            let selector = scope::global_network_policy(&object.spec).map_err(unusable)?;
            let only_for_hosts = object.spec.do_not_track || object.spec.pre_dnat;
            Ok((!only_for_hosts).then_some((policy, selector)))
        }
        _ => Err(Problem::WrongKind),
    }
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

impl Profile {
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
