//! The computed name of a workload endpoint: four segments joined by `-`, dashes inside a segment doubled.

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use super::WorkloadEndpointSpec;

/// The four segments of a workload endpoint's name, none of them empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct WorkloadEndpointName {
    /// Host.
    pub node: String,
    /// `k8s`, `cni`, `libnetwork`, `openstack` …
    pub orchestrator: String,
    /// Pod, container id or the orchestrator's own name for the workload.
    pub workload: String,
    /// Interface inside the workload.
    pub endpoint: String,
}

/// No workload endpoint can be called so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadEndpointNameError {
    /// The specification lacks a part of the name.
    #[error("the name of a workload endpoint needs spec.{field}")]
    Missing {
        /// Field of the specification.
        field: &'static str,
    },
    /// A part begins or ends with a dash, which could not be told from the separator.
    #[error("{segment:?} cannot be part of a workload endpoint's name: it begins or ends with '-'")]
    Dash {
        /// The part.
        segment: String,
    },
    /// Text that is not four segments.
    #[error(
        "{name:?} is not the name of a workload endpoint: expected NODE-ORCHESTRATOR-WORKLOAD-ENDPOINT with inner dashes doubled"
    )]
    Syntax {
        /// The text.
        name: String,
    },
}

impl WorkloadEndpointName {
    /// A name from its parts.
    ///
    /// # Errors
    /// When a part is empty, or begins or ends with a dash.
    pub fn new(
        node: &str,
        orchestrator: &str,
        workload: &str,
        endpoint: &str,
    ) -> Result<Self, WorkloadEndpointNameError> {
        Self::from_parts([
            ("node", node),
            ("orchestrator", orchestrator),
            ("workload", workload),
            ("endpoint", endpoint),
        ])
    }

    /// The name that a specification gives.
    ///
    /// # Errors
    /// When the specification lacks a part, or a part begins or ends with a dash.
    pub fn of(spec: &WorkloadEndpointSpec) -> Result<Self, WorkloadEndpointNameError> {
        let workload = match spec.orchestrator.as_str() {
            "k8s" => ("pod", spec.pod.as_str()),
            "cni" => ("containerID", spec.container_id.as_str()),
            "libnetwork" => ("workload", "libnetwork"),
            _ => ("workload", spec.workload.as_str()),
        };
        let [node, orchestrator, endpoint] = [
            ("node", spec.node.as_str()),
            ("orchestrator", spec.orchestrator.as_str()),
            ("endpoint", spec.endpoint.as_str()),
        ];
        Self::from_parts([node, orchestrator, workload, endpoint])
    }

    fn from_parts(parts: [(&'static str, &str); 4]) -> Result<Self, WorkloadEndpointNameError> {
        for (field, segment) in parts {
            if segment.is_empty() {
                return Err(WorkloadEndpointNameError::Missing { field });
            }
            if segment.starts_with('-') || segment.ends_with('-') {
                return Err(WorkloadEndpointNameError::Dash { segment: segment.to_string() });
            }
        }
        let [node, orchestrator, workload, endpoint] = parts.map(|(_, segment)| segment.to_string());
        Ok(Self { node, orchestrator, workload, endpoint })
    }
}

impl FromStr for WorkloadEndpointName {
    type Err = WorkloadEndpointNameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let error = || WorkloadEndpointNameError::Syntax { name: name.to_string() };
        let mut segments: [String; 4] = Default::default();
        let mut slots = segments.iter_mut();
        let mut segment = slots.next().ok_or_else(error)?;
        let mut characters = name.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '-' if characters.next_if_eq(&'-').is_some() => segment.push('-'),
                '-' => segment = slots.next().ok_or_else(error)?,
                other => segment.push(other),
            }
        }
        let [node, orchestrator, workload, endpoint] = &segments;
        Self::new(node, orchestrator, workload, endpoint).map_err(|_| error())
    }
}

impl fmt::Display for WorkloadEndpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, segment) in [&self.node, &self.orchestrator, &self.workload, &self.endpoint].into_iter().enumerate()
        {
            if index > 0 {
                f.write_str("-")?;
            }
            for (index, piece) in segment.split('-').enumerate() {
                if index > 0 {
                    f.write_str("--")?;
                }
                f.write_str(piece)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn upstreams_examples() {
        let name: WorkloadEndpointName = "node--1-k8s-pod--name-eth0".parse().unwrap();
        assert_eq!(name, WorkloadEndpointName::new("node-1", "k8s", "pod-name", "eth0").unwrap());
        for bad in ["", "a-b-c", "a-b-c-d-e", "a-b-c-", "-a-b-c", "a---b-c-d", "coredns-668d6bf9bc-bxhr6"] {
            assert!(bad.parse::<WorkloadEndpointName>().is_err(), "{bad}");
        }
        let libnetwork = WorkloadEndpointSpec {
            node: "node-1".into(),
            orchestrator: "libnetwork".into(),
            endpoint: "abc".into(),
            ..WorkloadEndpointSpec::default()
        };
        assert_eq!(WorkloadEndpointName::of(&libnetwork).unwrap().to_string(), "node--1-libnetwork-libnetwork-abc");
    }

    fn segment() -> impl Strategy<Value = String> {
        "[a-z0-9.]([-a-z0-9.]{0,6}[a-z0-9.])?"
    }

    proptest! {
        #[test]
        fn parsing_undoes_formatting(n in segment(), o in segment(), w in segment(), e in segment()) {
            let name = WorkloadEndpointName::new(&n, &o, &w, &e).unwrap();
            prop_assert_eq!(name.to_string().parse::<WorkloadEndpointName>().unwrap(), name);
        }

        #[test]
        fn formatting_undoes_parsing(text in "[a-c-]{0,16}") {
            if let Ok(name) = text.parse::<WorkloadEndpointName>() {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }
}
