//! When to try again, and what failed last.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use calico_core::net::InterfaceName;
use calico_core::table::{ChainName, Key, RouteKey, SetName};

/// How long to wait after failures: from `first`, twice as long each time, up to `longest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct RetryPolicy {
    /// After the first failure.
    pub first: Duration,
    /// At most.
    pub longest: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { first: Duration::from_millis(100), longest: Duration::from_secs(30) }
    }
}

/// Settings of the reconciler.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals and `..Default::default()`")]
pub struct ReconcileConfig {
    /// How long to wait after failures.
    pub retry: RetryPolicy,
    /// How names of workload interfaces start. No gateway lies behind them.
    pub workload_prefixes: Vec<InterfaceName>,
}

impl Default for ReconcileConfig {
    fn default() -> Self {
        Self { retry: RetryPolicy::default(), workload_prefixes: vec![InterfaceName::CALI] }
    }
}

/// Something that can fail on its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Object {
    /// Looking at the host.
    Look,
    /// The nf_tables transaction as a whole: no single object is to blame.
    Ruleset,
    /// A set, with its elements.
    Set(SetName),
    /// A chain.
    Chain(ChainName),
    /// What an interface leads to in a verdict map, or another single element of one.
    Entry(SetName, Key),
    /// A route.
    Route(RouteKey),
    /// A neighbour.
    Neighbor(InterfaceName, IpAddr),
    /// An interface setting.
    Setting(InterfaceName, &'static str),
    /// A limit on bandwidth, by the device that enforces it.
    Shaper(InterfaceName),
    /// Ending the connections of addresses that left their workload.
    Connections,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Look => f.write_str("reading the host's state"),
            Self::Ruleset => f.write_str("the nf_tables transaction"),
            Self::Set(name) => write!(f, "{}set {name}", name.table().prefix()),
            Self::Chain(name) => write!(f, "{}chain {name}", name.table().prefix()),
            Self::Entry(map, key) => {
                f.write_str("element ")?;
                for (place, datum) in key.iter().enumerate() {
                    write!(f, "{}{datum}", if place > 0 { " . " } else { "" })?;
                }
                write!(f, " of {}map {map}", map.table().prefix())
            }
            Self::Route(key) => write!(f, "route {} (metric {}, table {})", key.dest, key.metric, key.table.value()),
            Self::Neighbor(interface, address) => write!(f, "neighbour {address} on {interface}"),
            Self::Shaper(device) => write!(f, "limit on bandwidth at {device}"),
            Self::Connections => f.write_str("ending connections of addresses that left their workload"),
            Self::Setting(interface, path) => write!(f, "setting {}", path.replace("{}", interface.as_str())),
        }
    }
}

/// What failed and waits for its next try.
#[derive(Debug, Default)]
pub(super) struct Retries {
    policy: RetryPolicy,
    waiting: BTreeMap<Object, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    until: Duration,
    failures: u32,
    error: String,
}

impl Retries {
    pub(super) fn new(policy: RetryPolicy) -> Self {
        Self { policy, waiting: BTreeMap::new() }
    }

    pub(super) fn failed(&mut self, object: Object, error: String, now: Duration) {
        let failures = self.waiting.get(&object).map_or(0, |waiting| waiting.failures).saturating_add(1);
        let factor = 1_u32.checked_shl(failures - 1).unwrap_or(u32::MAX);
        let pause = self.policy.first.saturating_mul(factor).min(self.policy.longest);
        self.waiting.insert(object, Waiting { until: now + pause, failures, error });
    }

    /// It worked, or it is another thing now.
    pub(super) fn forget(&mut self, object: &Object) {
        if !self.waiting.is_empty() {
            self.waiting.remove(object);
        }
    }

    /// Lets these be tried at once: what made them fail may be over.
    pub(super) fn expedite(&mut self, mut condition: impl FnMut(&Object) -> bool) {
        for (object, waiting) in &mut self.waiting {
            if condition(object) {
                waiting.until = Duration::ZERO;
            }
        }
    }

    pub(super) fn may_try(&self, object: &Object, now: Duration) -> bool {
        self.waiting.get(object).is_none_or(|waiting| waiting.until <= now)
    }

    /// What is due already is tried by the next poll; if that has nothing to give, it waits for something other than time.
    pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
        self.waiting.values().map(|waiting| waiting.until).filter(|until| *until > now).min()
    }

    pub(super) fn forget_if(&mut self, mut condition: impl FnMut(&Object) -> bool) {
        self.waiting.retain(|object, _| !condition(object));
    }

    pub(super) fn any_of_ruleset(&self) -> bool {
        let of_ruleset = |object: &Object| matches!(object, Object::Set(_) | Object::Chain(_) | Object::Entry(..));
        self.objects().any(of_ruleset)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = &Object> {
        self.waiting.keys()
    }

    pub(super) fn error(&self, object: &Object) -> Option<&str> {
        self.waiting.get(object).map(|waiting| waiting.error.as_str())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Object, &str)> {
        self.waiting.iter().map(|(object, waiting)| (object, waiting.error.as_str()))
    }
}
