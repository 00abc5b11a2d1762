//! Settings of the agent and of the controllers.

use alloc::collections::BTreeSet;

use super::Checker;
use crate::net::Port;
use crate::resource::path::Path;
use crate::resource::{FelixConfigurationSpec, KubeControllersConfigurationSpec};

/// Most routing tables that ranges may span together.
const MAX_TABLES: i64 = 65_535;

impl Checker {
    pub(super) fn felix_configuration(&mut self, name: &str, felix: &FelixConfigurationSpec, spec: &Path<'_>) {
        let is_scoped = name != "default" && !name.starts_with("node.");
        if !is_scoped && felix.node_selector.is_some() {
            self.refuse_field(spec.field("nodeSelector"), format_args!("{name} is for the nodes that its name says"));
        }
        self.route_tables(felix, spec);
        let ports = spec.field("kubeNodePortRanges");
        for (index, port) in felix.kube_node_port_ranges.iter().flatten().enumerate() {
            if let Port::Named(name) = port {
                self.refuse(ports.index(index), name, "give a number or a range MIN:MAX");
            }
        }
        let overrides = spec.field("healthTimeoutOverrides");
        for (index, item) in felix.health_timeout_overrides.iter().enumerate() {
            if let Some(timeout) = item.timeout.filter(|timeout| timeout.nanos() < 0) {
                self.refuse(overrides.index(index).field("timeout"), timeout, "cannot be negative");
            }
        }
    }

    fn route_tables(&mut self, felix: &FelixConfigurationSpec, spec: &Path<'_>) {
        if felix.route_table_range.is_some() && felix.route_table_ranges.is_some() {
            self.refuse_field(spec.field("routeTableRange"), "cannot be given together with routeTableRanges");
        }
        let one = felix.route_table_range.iter().map(|range| (range.min, range.max));
        for (min, max) in one {
            if min > max {
                self.refuse_field(spec.field("routeTableRange"), "min is more than max");
            }
        }
        let path = spec.field("routeTableRanges");
        let mut total: i64 = 0;
        for (index, range) in felix.route_table_ranges.iter().flatten().enumerate() {
            let (Some(min), Some(max)) = (range.min, range.max) else { continue };
            if min > max {
                self.refuse_field(path.index(index), "min is more than max");
            }
            total = total.saturating_add(max.saturating_sub(min).saturating_add(1));
        }
        if total > MAX_TABLES {
            self.refuse_field(path, format_args!("{total} tables altogether; the limit is {MAX_TABLES}"));
        }
    }

    pub(super) fn kube_controllers(&mut self, settings: &KubeControllersConfigurationSpec, spec: &Path<'_>) {
        let node = settings.controllers.as_ref().and_then(|controllers| controllers.node.as_ref());
        let Some(host_endpoint) = node.and_then(|node| node.host_endpoint.as_ref()) else { return };
        let controllers = spec.field("controllers");
        let node = controllers.field("node");
        let path = node.field("hostEndpoint");
        let templates = path.field("templates");
        let mut names = BTreeSet::new();
        for (index, template) in host_endpoint.templates.iter().enumerate() {
            let path = templates.index(index);
            if !names.insert(&template.generate_name) {
                self.refuse(path.field("generateName"), &template.generate_name, "another template has it");
            }
            if template.interface_cidrs.is_empty() && template.interface_pattern.is_empty() {
                self.refuse_field(path, "give interfaceCIDRs or interfacePattern: without them no interface matches");
            }
            for (key, value) in &template.labels {
                self.label(key, value, &path.field("labels"));
            }
        }
    }
}
