//! What should become of each probe: the specification evaluator, asked about the very resources of this cluster.

use std::net::IpAddr;

use calico_cmd::manifest;
use calico_core::flow::{Decision, Flow};
use calico_core::net::Cidr;
use calico_core::resource::{Kind, Resource, ResourceKey};
use calico_core::spec::{Cluster, Party};

use crate::ctl;
use crate::error::{Context, LabError};
use crate::plan::{Plan, PodId};
use crate::probe::{Kind as ProbeKind, Probe, Question};
use crate::record::AttachedPod;
use crate::state::StateDir;

/// Resources of a cluster, and who its pods are.
#[derive(Debug)]
pub(crate) struct Oracle {
    cluster: Cluster,
    pods: Vec<Known>,
}

#[derive(Debug)]
struct Known {
    pod: PodId,
    address: IpAddr,
    key: ResourceKey,
}

impl Oracle {
    /// Learns `resources`. Every attached pod must have an endpoint among them.
    pub(crate) fn new(resources: &[Resource], attached: &[AttachedPod]) -> Result<Self, LabError> {
        let known = |attached: &AttachedPod| {
            let key = key_of(resources, attached.address);
            let key = key.ok_or_else(|| LabError::new(format!("pod {} has no WorkloadEndpoint", attached.pod)))?;
            Ok(Known { pod: attached.pod, address: attached.address, key })
        };
        let pods = attached.iter().map(known).collect::<Result<_, LabError>>()?;
        Ok(Self { cluster: Cluster::new(resources), pods })
    }

    /// Puts the right answer beside every probe.
    pub(crate) fn questions(&self, probes: &[Probe]) -> Result<Vec<Question>, LabError> {
        let question = |probe: &Probe| Ok(Question { probe: *probe, expected: self.decide(*probe)? });
        probes.iter().map(question).collect()
    }

    fn decide(&self, probe: Probe) -> Result<Decision, LabError> {
        let (from, to) = (self.known(probe.from)?, self.known(probe.to)?);
        let (protocol, icmp) = match probe.kind {
            ProbeKind::Tcp(_) => (6, None),
            ProbeKind::Udp(_) => (17, None),
            ProbeKind::Ping => (1, Some((8, 0))),
        };
        let port = probe.kind.port();
        let flow = Flow {
            source: from.address,
            destination: to.address,
            protocol,
            // Any: clients take a free one, and no policy here looks at it.
            source_port: port.map_or(0, |_| 40_000),
            destination_port: port.unwrap_or(0),
            icmp,
        };
        Ok(self.cluster.decide(Party::Workload(&from.key), Party::Workload(&to.key), &flow))
    }

    fn known(&self, pod: PodId) -> Result<&Known, LabError> {
        let found = self.pods.iter().find(|known| known.pod == pod);
        found.ok_or_else(|| LabError::new(format!("pod {pod} is not attached")))
    }
}

fn key_of(resources: &[Resource], address: IpAddr) -> Option<ResourceKey> {
    let has = |resource: &&Resource| match resource {
        Resource::WorkloadEndpoint(endpoint) => endpoint.spec.ip_networks.contains(&Cidr::host(address)),
        _ => false,
    };
    resources.iter().find(has).and_then(Resource::key)
}

/// Everything of the cluster that decides about traffic, as the datastore has it now.
pub(crate) async fn stored(state: &StateDir, plan: &Plan) -> Result<Vec<Resource>, LabError> {
    let mut resources = Vec::new();
    for kind in DECIDING {
        let mut arguments = vec!["get", kind.plural(), "-o", "json"];
        if kind.scope() == calico_core::resource::Scope::Namespaced {
            arguments.push("--all-namespaces");
        }
        let printed = ctl::run(state, plan, arguments).await?;
        resources.extend(read(&format!("`calicoctl get {}`", kind.plural()), &String::from_utf8_lossy(&printed))?);
    }
    Ok(resources)
}

/// Reads YAML or JSON documents.
pub(crate) fn read(source: &str, text: &str) -> Result<Vec<Resource>, LabError> {
    let documents = manifest::read(source, text).context(|| "cannot read resources".into())?;
    let mut resources = Vec::new();
    for document in documents {
        let kind = document.kind().and_then(Kind::from_name);
        let kind = kind.ok_or_else(|| LabError::new(format!("{source}: a document of unknown kind")))?;
        let mut resource = Resource::decode(kind, &document.value).map_err(|faults| {
            let first = faults.first().map(ToString::to_string).unwrap_or_default();
            LabError::new(format!("{source}: {kind} is not usable: {first}"))
        })?;
        resource.fill_defaults().map_err(|fault| LabError::new(format!("{source}: {kind} is not usable: {fault}")))?;
        resources.push(resource);
    }
    Ok(resources)
}

/// Kinds that decide about traffic.
const DECIDING: [Kind; 7] = [
    Kind::WorkloadEndpoint,
    Kind::Profile,
    Kind::Tier,
    Kind::NetworkPolicy,
    Kind::GlobalNetworkPolicy,
    Kind::NetworkSet,
    Kind::GlobalNetworkSet,
];
