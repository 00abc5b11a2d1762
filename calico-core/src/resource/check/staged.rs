//! Policies that are tried out.

use super::Checker;
use crate::net::Cidr;
use crate::resource::path::Path;
use crate::resource::{
    GlobalNetworkPolicySpec, KubernetesPolicyPeer, KubernetesPolicyPort, LabelSelector, NetworkPolicySpec,
    StagedAction, StagedGlobalNetworkPolicySpec, StagedKubernetesNetworkPolicySpec, StagedNetworkPolicySpec,
};

const ONLY_THE_TIER: &str = "a policy that is to be deleted has nothing but its tier";

impl Checker {
    pub(super) fn staged_network_policy(&mut self, staged: &StagedNetworkPolicySpec, spec: &Path<'_>) {
        let StagedNetworkPolicySpec { staged_action, policy } = staged;
        if *staged_action != Some(StagedAction::Delete) {
            return self.network_policy(policy, spec);
        }
        let rest = NetworkPolicySpec { tier: policy.tier.clone(), ..NetworkPolicySpec::default() };
        if self.is_manifest() && *policy != rest {
            self.refuse_field(*spec, ONLY_THE_TIER);
        }
    }

    pub(super) fn staged_global_network_policy(&mut self, staged: &StagedGlobalNetworkPolicySpec, spec: &Path<'_>) {
        let StagedGlobalNetworkPolicySpec { staged_action, policy } = staged;
        if *staged_action != Some(StagedAction::Delete) {
            return self.global_network_policy(policy, spec);
        }
        let rest = GlobalNetworkPolicySpec { tier: policy.tier.clone(), ..GlobalNetworkPolicySpec::default() };
        if self.is_manifest() && *policy != rest {
            self.refuse_field(*spec, ONLY_THE_TIER);
        }
    }

    pub(super) fn staged_kubernetes_policy(&mut self, staged: &StagedKubernetesNetworkPolicySpec, spec: &Path<'_>) {
        if staged.staged_action == Some(StagedAction::Delete) {
            let rest = StagedKubernetesNetworkPolicySpec { staged_action: staged.staged_action, ..Default::default() };
            if *staged != rest {
                self.refuse_field(*spec, "a policy that is to be deleted has no specification");
            }
            return;
        }
        self.label_selector(&staged.pod_selector, &spec.field("podSelector"));
        let (ingress, egress) = (spec.field("ingress"), spec.field("egress"));
        for (index, rule) in staged.ingress.iter().enumerate() {
            self.kubernetes_rule(&rule.ports, ("from", &rule.from), &ingress.index(index));
        }
        for (index, rule) in staged.egress.iter().enumerate() {
            self.kubernetes_rule(&rule.ports, ("to", &rule.to), &egress.index(index));
        }
    }

    fn kubernetes_rule(
        &mut self,
        ports: &[KubernetesPolicyPort],
        (field, peers): (&str, &[KubernetesPolicyPeer]),
        rule: &Path<'_>,
    ) {
        let path = rule.field("ports");
        for (index, port) in ports.iter().enumerate() {
            self.kubernetes_port(port, &path.index(index));
        }
        let path = rule.field(field);
        for (index, peer) in peers.iter().enumerate() {
            self.kubernetes_peer(peer, &path.index(index));
        }
    }

    fn kubernetes_port(&mut self, port: &KubernetesPolicyPort, path: &Path<'_>) {
        let number = port.port.as_ref().and_then(serde_json::Value::as_i64);
        match &port.port {
            Some(value) if number.is_some_and(|number| !(1..=65_535).contains(&number)) => {
                self.refuse(path.field("port"), value, "a port is 1 to 65535");
            }
            Some(value) if number.is_none() && !value.is_string() => {
                self.refuse(path.field("port"), value, "give a number or a name");
            }
            _ => {}
        }
        if let Some(end) = port.end_port {
            match number {
                None => self.refuse(path.field("endPort"), end, "needs a port by number"),
                Some(first) if i64::from(end) < first => self.refuse(path.field("endPort"), end, "is less than port"),
                Some(_) => {}
            }
        }
    }

    fn kubernetes_peer(&mut self, peer: &KubernetesPolicyPeer, path: &Path<'_>) {
        let selectors = [("podSelector", &peer.pod_selector), ("namespaceSelector", &peer.namespace_selector)];
        for (field, selector) in selectors {
            if let Some(selector) = selector {
                self.label_selector(selector, &path.field(field));
            }
        }
        let has_selector = peer.pod_selector.is_some() || peer.namespace_selector.is_some();
        match &peer.ip_block {
            None if !has_selector => self.refuse_field(*path, "give podSelector, namespaceSelector or ipBlock"),
            Some(_) if has_selector => {
                self.refuse_field(path.field("ipBlock"), "cannot be given together with selectors");
            }
            Some(block) => {
                let whole = block.cidr.parse::<Cidr>().ok();
                let block_path = path.field("ipBlock");
                let except = block_path.field("except");
                for (index, part) in block.except.iter().enumerate() {
                    let lies_inside = whole
                        .zip(part.parse::<Cidr>().ok())
                        .is_none_or(|(whole, part)| whole.covers(&part) && whole != part);
                    if !lies_inside {
                        self.refuse(except.index(index), part, format_args!("does not lie inside {}", block.cidr));
                    }
                }
            }
            None => {}
        }
    }

    fn label_selector(&mut self, selector: &LabelSelector, path: &Path<'_>) {
        for (key, value) in &selector.match_labels {
            self.label(key, value, &path.field("matchLabels"));
        }
        let expressions = path.field("matchExpressions");
        for (index, requirement) in selector.match_expressions.iter().enumerate() {
            let path = expressions.index(index);
            let takes_values = matches!(requirement.operator.as_str(), "In" | "NotIn");
            if takes_values && requirement.values.is_empty() {
                self.missing(path.field("values"));
            }
            if !takes_values && !requirement.values.is_empty() {
                self.refuse_field(path.field("values"), format_args!("{} takes no values", requirement.operator));
            }
        }
    }
}
