//! Asks many questions at once, and goes on asking until the answers are right.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use calico_core::flow::Decision;
use calico_dataplane::netns::Netns;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesOrdered;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{Kind, Observed, Probe, Servers, Sockets, TCP_PORTS, UDP_PORTS, send};
use crate::error::{Context, LabError};
use crate::plan::{Plan, PodId};
use crate::record::AttachedPod;
use crate::topology;

/// A probe and the verdict that it should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Question {
    /// What is sent.
    pub(crate) probe: Probe,
    /// What should become of it.
    pub(crate) expected: Decision,
}

/// Pods with their servers, ready to be asked.
#[derive(Debug)]
pub(crate) struct Prober {
    pods: BTreeMap<PodId, Pod>,
}

#[derive(Debug)]
struct Pod {
    netns: Netns,
    address: IpAddr,
    _servers: Servers,
}

impl Question {
    /// Whether this is the right answer.
    pub(crate) fn is_answered_by(&self, observed: &Observed) -> bool {
        *observed == Observed::Verdict(self.expected)
    }
}

impl Prober {
    /// Starts the servers of all pods.
    pub(crate) fn start(plan: &Plan, attached: &[AttachedPod]) -> Result<Self, LabError> {
        let mut pods = BTreeMap::new();
        for AttachedPod { pod, address, .. } in attached {
            let netns = topology::open(&plan.pod_netns(*pod))?;
            let servers = Servers::start(*pod, &netns, *address)?;
            pods.insert(*pod, Pod { netns, address: *address, _servers: servers });
        }
        Ok(Self { pods })
    }

    /// Every probe between two different pods, in a fixed order.
    pub(crate) fn all_probes(&self) -> Vec<Probe> {
        let pods = || self.pods.keys().copied();
        pods()
            .flat_map(|from| pods().filter(move |to| *to != from).map(move |to| (from, to)))
            .flat_map(|(from, to)| Kind::all().map(move |kind| Probe { from, to, kind }))
            .collect()
    }

    /// Asks every question once, patiently: an answer that should come has long to come.
    pub(crate) async fn ask_all(&self, questions: &[Question]) -> Result<Vec<Observed>, LabError> {
        let mut observed = Vec::with_capacity(questions.len());
        for chunk in questions.chunks(CHUNK) {
            observed.extend(self.round(chunk, &PATIENT).await?);
        }
        Ok(observed)
    }

    /// Asks `questions` again and again until all answers of one round are right; returns when that round began. `None` when there
    /// was no such round before `deadline`.
    ///
    /// Rounds overlap: a denial takes long to see, yet tells about the moment when the probe was sent. When half of the time has gone by in
    /// vain, rounds are given more time each: the machine may be too busy for hasty ones.
    pub(crate) async fn converge(
        &self,
        questions: &[Question],
        deadline: Instant,
    ) -> Result<Option<Instant>, LabError> {
        let questions = sample(questions);
        let mut rounds = FuturesOrdered::new();
        let mut next = interval(ROUND);
        next.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let half = Instant::now() + deadline.saturating_duration_since(Instant::now()) / 2;
        loop {
            tokio::select! {
                _ = next.tick(), if rounds.len() < ROUNDS => {
                    let begun = Instant::now();
                    if begun > deadline && rounds.is_empty() {
                        return Ok(None);
                    }
                    if begun <= deadline {
                        let questions = &questions;
                        let patience = if begun < half { &HASTY } else { &UNHURRIED };
                        rounds.push_back(async move { (begun, self.round(questions, patience).await) });
                    }
                }
                Some((begun, observed)) = rounds.next() => {
                    if questions.iter().zip(&observed?).all(|(question, answer)| question.is_answered_by(answer)) {
                        return Ok(Some(begun));
                    }
                }
            }
        }
    }

    /// Asks all of these at the same time.
    async fn round(&self, questions: &[Question], patience: &Patience) -> Result<Vec<Observed>, LabError> {
        let mut by_client: BTreeMap<PodId, Vec<usize>> = BTreeMap::new();
        for (index, question) in questions.iter().enumerate() {
            by_client.entry(question.probe.from).or_default().push(index);
        }
        let mut under_way = Vec::with_capacity(questions.len());
        for (client, indices) in by_client {
            let client = self.pod(client)?;
            let asked: Vec<Question> = indices.iter().filter_map(|index| questions.get(*index)).copied().collect();
            let targets = asked.iter().map(|question| self.target(question.probe)).collect::<Result<Vec<_>, _>>()?;
            let sockets = Sockets::open(&client.netns, &targets)?;
            let begun = Instant::now();
            for (((socket, index), question), (_, target)) in sockets.into_iter().zip(indices).zip(asked).zip(targets) {
                let deadline = begun + patience.with(question.expected);
                let nonce = u32::try_from(index).unwrap_or(u32::MAX);
                under_way
                    .push(async move { (index, send(question.probe, socket, target.ip(), nonce, deadline).await) });
            }
        }
        let mut observed = join_all(under_way).await;
        observed.sort_unstable_by_key(|(index, _)| *index);
        Ok(observed.into_iter().map(|(_, observed)| observed).collect())
    }

    fn target(&self, probe: Probe) -> Result<(Kind, SocketAddr), LabError> {
        Ok((probe.kind, probe.kind.target(self.pod(probe.to)?.address)))
    }

    fn pod(&self, pod: PodId) -> Result<&Pod, LabError> {
        self.pods.get(&pod).ok_or("it is not attached").context(|| format!("cannot probe pod {pod}"))
    }
}

/// Evenly chosen, so that a large network is not flooded by its own measurement.
fn sample(questions: &[Question]) -> Vec<Question> {
    let step = questions.len().div_ceil(SAMPLE).max(1);
    questions.iter().step_by(step).copied().collect()
}

/// How long an answer is waited for: whether one is expected decides.
struct Patience {
    allowed: Duration,
    denied: Duration,
}

impl Patience {
    const fn with(&self, expected: Decision) -> Duration {
        match expected {
            Decision::Allow => self.allowed,
            Decision::Deny => self.denied,
        }
    }
}

/// Between neighbouring namespaces an answer takes 0.1 ms; a busy machine may delay it a hundred-thousandfold.
const PATIENT: Patience = Patience { allowed: Duration::from_secs(10), denied: Duration::from_millis(400) };
/// A round that fails only because it was hasty is followed by others.
const HASTY: Patience = Patience { allowed: Duration::from_millis(250), denied: Duration::from_millis(250) };
/// For when those that followed were too hasty as well.
const UNHURRIED: Patience = Patience { allowed: Duration::from_secs(3), denied: Duration::from_millis(400) };
/// Resolution of the time that is measured.
const ROUND: Duration = Duration::from_millis(15);
/// Rounds under way at once: as many as begin while a hasty one waits.
const ROUNDS: usize = 18;
/// Questions of a hasty round, of which many are in flight.
const SAMPLE: usize = 24;
/// Questions of a patient round.
const CHUNK: usize = 400;

/// How many open files probing takes: a namespace and its servers for each pod, and for each question in flight the client's socket
/// and the server's end of it.
pub(crate) fn descriptors(pods: usize) -> u64 {
    let questions = pods * pods.saturating_sub(1) * Kind::all().count();
    let in_flight = questions.min(CHUNK).max(questions.min(SAMPLE) * ROUNDS);
    let servers = 1 + TCP_PORTS.len() + UDP_PORTS.len();
    u64::try_from(pods * servers + 2 * in_flight).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::HostId;

    #[test]
    fn samples_are_bounded_and_reach_over_everything() {
        let pod = PodId { host: HostId(1), number: 1 };
        let question =
            |port| Question { probe: Probe { from: pod, to: pod, kind: Kind::Tcp(port) }, expected: Decision::Allow };
        let many: Vec<Question> = (0..1000).map(question).collect();
        let some = sample(&many);
        assert!(some.len() <= SAMPLE);
        assert!(many[900..].contains(some.last().unwrap()));
        assert_eq!(sample(&many[..3]), many[..3]);
        assert!(sample(&[]).is_empty());
    }
}
