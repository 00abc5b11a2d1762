//! Figures for Prometheus, under upstream's names where upstream has them (`felix_*`). The registry is a value, never global.

use calico_dataplane::reconcile::Object;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The agent's figures.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pub(crate) endpoints: Gauge,
    pub(crate) policies: Gauge,
    pub(crate) ip_sets: Gauge,
    pub(crate) bgp_routes: Gauge,
    pub(crate) bgp_established: Gauge,
    pub(crate) applies: Counter,
    pub(crate) apply_failures: Counter,
    pub(crate) connections_ended: Counter,
    drift: Family<DriftLabels, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            endpoints: Gauge::default(),
            policies: Gauge::default(),
            ip_sets: Gauge::default(),
            bgp_routes: Gauge::default(),
            bgp_established: Gauge::default(),
            applies: Counter::default(),
            apply_failures: Counter::default(),
            connections_ended: Counter::default(),
            drift: Family::default(),
        };
        let registry = &mut metrics.registry;
        let gauges = [
            ("felix_active_local_endpoints", "Workload endpoints of this host", &metrics.endpoints),
            ("felix_active_local_policies", "Policies and profiles in force on this host", &metrics.policies),
            ("felix_ipsets_calico", "IP sets in force on this host", &metrics.ip_sets),
            ("calico_bgp_routes", "Routes learned by BGP that are in use", &metrics.bgp_routes),
            ("calico_bgp_sessions_established", "BGP sessions in state Established", &metrics.bgp_established),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
        let counters = [
            ("calico_dataplane_applies", "Changes written to the kernel", &metrics.applies),
            (
                "calico_dataplane_apply_failures",
                "Changes that the kernel refused in part or whole",
                &metrics.apply_failures,
            ),
            (
                "calico_denied_connections_ended",
                "Connections ended because policy denies them now",
                &metrics.connections_ended,
            ),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        let help = "Objects of ours in the kernel that somebody else changed, and that were made right";
        registry.register("calico_dataplane_drift", help, metrics.drift.clone());
        metrics
    }
}

/// What of a kernel's objects.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DriftLabels {
    class: &'static str,
}

impl Metrics {
    /// Counts an object that somebody else changed.
    pub(crate) fn count_drift(&self, object: &Object) {
        let class = match object {
            Object::Chain(_) => "chain",
            Object::Set(_) | Object::Entry(..) => "set",
            Object::Route(_) => "route",
            Object::Neighbor(..) => "neighbor",
            Object::Shaper(_) => "bandwidth",
            _ => "other",
        };
        self.drift.get_or_create(&DriftLabels { class }).inc();
    }

    /// All figures in the text format of Prometheus.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_come_under_their_names() {
        let metrics = Metrics::default();
        metrics.endpoints.set(3);
        metrics.applies.inc();
        let text = metrics.text();
        assert!(text.contains("\nfelix_active_local_endpoints 3\n"), "{text}");
        assert!(text.contains("\ncalico_dataplane_applies_total 1\n"), "{text}");
        metrics.count_drift(&Object::Chain(calico_core::table::ChainName::new("a").unwrap()));
        let text = metrics.text();
        assert!(text.contains("\ncalico_dataplane_drift_total{class=\"chain\"} 1\n"), "{text}");
    }
}
