//! A network's life: built from nothing or from what a killed run left, running, removed.

use std::process::Child;
use std::time::Duration;

use calico_cmd::output;
use calico_dataplane::netns::{Netns, named};

use crate::agent;
use crate::cni;
use crate::error::{Context, LabError};
use crate::labels;
use crate::ownership;
use crate::plan::{HostId, Plan, PodId};
use crate::process::{self, ProcessId};
use crate::programs::{self, Source};
use crate::progress::Progress;
use crate::record::{Agent, Record};
use crate::server;
use crate::state::{Lock, StateDir};
use crate::topology;

/// A network that this process made, or found running.
#[derive(Debug)]
pub(crate) struct Lab {
    /// Where its state is.
    pub(crate) state: StateDir,
    /// What it is.
    pub(crate) record: Record,
    /// Agents and servers that this process started, to be reaped.
    children: Vec<Child>,
    _lock: Lock,
}

impl Lab {
    /// Claims the network's name. A running network is an error; the remains of one are removed; what others made under one of its
    /// names is an error too, and stays.
    pub(crate) fn claim(state: StateDir, plan: Plan, progress: &Progress) -> Result<Self, LabError> {
        let lock = state.lock()?;
        if let Some(old) = state.read()? {
            if old.complete && old.is_of_this_boot() {
                let advice = format!("network {:?} is up: {} removes it", old.plan.name, state.hint("down"));
                return Err(LabError::new(advice));
            }
            progress.step("removing what an earlier run left");
            remove(&state, &old, &mut [])?;
            progress.done("removed what an earlier run left");
        }
        ownership::require_free(&plan)?;
        let record = Record::new(plan);
        state.create(&record)?;
        Ok(Self { state, record, children: Vec::new(), _lock: lock })
    }

    /// Takes over a network that `up` left running.
    pub(crate) fn find(state: StateDir) -> Result<Self, LabError> {
        let lock = state.lock()?;
        let record = state.running()?;
        Ok(Self { state, record, children: Vec::new(), _lock: lock })
    }

    /// Machines, agents, pods: everything, until each agent has its BGP sessions and each pod its address and labels.
    pub(crate) async fn build(&mut self, progress: &Progress) -> Result<(), LabError> {
        self.build_hosts(Source::Own, progress).await?;
        self.attach_pods(progress).await?;
        progress.step("labelling the pods' endpoints");
        labels::apply(&self.state, &self.record).await?;
        agent::wait_until_ready(&self.state, &self.record, progress).await
    }

    /// Machines and agents.
    pub(crate) async fn build_hosts(&mut self, source: Source, progress: &Progress) -> Result<(), LabError> {
        let plan = self.record.plan.clone();
        programs::link_all(&self.state, source)?;
        progress.step(format!("building {} hosts on one segment", plan.hosts));
        topology::build(&plan, &mut |name| self.make(name))?;
        if let Some(child) = server::start(&self.state, &plan, progress).await? {
            self.record.servers.push(started(&child)?);
            self.adopt(child)?;
        }
        progress.step("starting calico-node in each host");
        for host in plan.hosts() {
            let child = agent::spawn(&self.state, &plan, host)?;
            self.record.agents.push(Agent { host, process: started(&child)? });
            self.adopt(child)?;
        }
        agent::wait_until_ready(&self.state, &self.record, progress).await?;
        agent::wait_for_pool(&self.state, &plan).await?;
        progress.done(format!("{} hosts, each with calico-node; BGP sessions established", plan.hosts));
        Ok(())
    }

    async fn attach_pods(&mut self, progress: &Progress) -> Result<(), LabError> {
        let plan = self.record.plan.clone();
        for pod in plan.pods() {
            progress.step(format!("attaching pod {pod}"));
            self.build_pod(pod)?;
            let attached = cni::add(&self.state, &plan, pod).await?;
            self.record.pods.push(attached);
            self.state.write(&self.record)?;
        }
        progress.done(format!("{} pods attached by CNI", self.record.pods.len()));
        Ok(())
    }

    /// Makes an empty pod.
    pub(crate) fn build_pod(&mut self, pod: PodId) -> Result<(), LabError> {
        let plan = self.record.plan.clone();
        topology::build_pod(&plan, pod, &mut |name| self.make(name))
    }

    /// Makes a namespace, which is in the record before anybody can see it.
    fn make(&mut self, name: &str) -> Result<Netns, LabError> {
        let failed = || format!("cannot make network namespace {name}");
        let netns = Netns::anonymous().context(failed)?;
        self.record.namespaces.insert(name.into(), netns.identity().context(failed)?);
        self.state.write(&self.record)?;
        named::publish(&netns, name).context(failed)?;
        Ok(netns)
    }

    /// Ends the agent of a host and starts another, until that one is ready.
    pub(crate) async fn restart(&mut self, host: HostId, kill: bool, progress: &Progress) -> Result<(), LabError> {
        let place = self.record.agents.iter_mut().find(|agent| agent.host == host);
        let agent = place.ok_or_else(|| LabError::new(format!("host {host} has no agent")))?;
        progress.step(format!("restarting calico-node on {host}"));
        let gone =
            if kill { process::kill_now(agent.process) } else { process::end(&[agent.process], PATIENCE).is_empty() };
        if !gone {
            return Err(LabError::new(format!("process {} does not end", agent.process.pid)));
        }
        let child = agent::spawn(&self.state, &self.record.plan, host)?;
        agent.process = started(&child)?;
        self.adopt(child)?;
        agent::wait_until_ready(&self.state, &self.record, progress).await
    }

    fn adopt(&mut self, child: Child) -> Result<(), LabError> {
        self.children.push(child);
        self.state.write(&self.record)
    }

    /// Leaves the network running after this process.
    pub(crate) fn leave_running(mut self) -> Result<Record, LabError> {
        self.record.complete = true;
        self.state.write(&self.record)?;
        Ok(self.record)
    }

    /// Removes everything.
    pub(crate) fn tear_down(mut self, progress: &Progress) -> Result<(), LabError> {
        progress.step("removing the network");
        remove(&self.state, &self.record, &mut self.children)?;
        progress.done("network removed");
        Ok(())
    }
}

/// Removes everything after `outcome`, and then lets `tell` say what was found. An earlier error is the one to tell: that the removal
/// failed too is said beside it, and what was found is told although the removal failed.
pub(crate) fn tear_down_after<T, R>(
    lab: Lab,
    outcome: Result<T, LabError>,
    progress: &Progress,
    tell: impl FnOnce(T) -> Result<R, LabError>,
) -> Result<R, LabError> {
    let removed = lab.tear_down(progress);
    let told = outcome.and_then(tell);
    match (told, removed) {
        (Err(error), Err(second)) => {
            progress.done(format!("the network could not be removed: {}", output::chain(&second)));
            Err(error)
        }
        (told, removed) => removed.and(told),
    }
}

/// Removes a network that is up, or the remains of one. Nothing there is success, and told by `false`.
pub(crate) fn down(state: &StateDir, progress: &Progress) -> Result<bool, LabError> {
    let _lock = state.lock()?;
    let Some(record) = state.read()? else { return Ok(false) };
    progress.step("removing the network");
    remove(state, &record, &mut [])?;
    Ok(true)
}

/// Processes first, so that nobody works on the namespaces any more; the record last, so that a removal that was itself killed
/// can be done again.
fn remove(state: &StateDir, record: &Record, children: &mut [Child]) -> Result<(), LabError> {
    if !record.is_of_this_boot() {
        return state.remove();
    }
    let namespaces = ownership::own(record)?;
    let mut processes: Vec<ProcessId> = record.agents.iter().map(|agent| agent.process).collect();
    processes.extend(&record.servers);
    // Also whatever was started there and not yet recorded when its starter was killed.
    processes.extend(process::inhabitants(&namespaces).context(|| "cannot list processes".into())?);
    let left = process::end(&processes, PATIENCE);
    for child in children.iter_mut() {
        // Reaps it; it has ended already, or is among those left.
        let _ = child.try_wait();
    }
    if let Some(process) = left.first() {
        return Err(LabError::new(format!("process {} does not end", process.pid)));
    }
    drop(namespaces);
    ownership::remove(record)?;
    state.remove()
}

fn started(child: &Child) -> Result<ProcessId, LabError> {
    let pid = i32::try_from(child.id()).context(|| "odd process id".into())?;
    // It is our child and not reaped, so the id is still its own.
    ProcessId::of(pid).ok_or_else(|| LabError::new(format!("process {pid} cannot be looked at")))
}

/// How long an agent may take to stop when asked.
const PATIENCE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::args::DatastoreKind;

    fn plan(name: &str) -> Plan {
        let name = format!("{name}{}", std::process::id());
        Plan { name, hosts: 1, pods: 1, datastore: DatastoreKind::Sqlite }
    }

    /// What a run leaves that was killed: namespaces, and in one of them a process of which nobody wrote down anything.
    #[test]
    fn the_remains_of_a_killed_run_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let plan = plan("killed");
        let state = StateDir::new(base.path(), &plan.name).unwrap();
        let progress = Progress::start();
        let mut lab = Lab::claim(state.clone(), plan.clone(), &progress).unwrap();
        topology::build(&plan, &mut |name| lab.make(name)).unwrap();
        let host = named::open(&plan.segment_netns()).unwrap();
        let mut child = host.run(|| Command::new("sleep").arg("1000").spawn()).unwrap().unwrap();
        let process = started(&child).unwrap();
        drop(lab);

        let again = Lab::claim(state.clone(), plan.clone(), &progress).unwrap();
        child.wait().unwrap();
        assert!(!process.is_alive());
        let left = named::list().unwrap();
        assert!(plan.all_netns().iter().all(|name| !left.contains(name)));
        again.tear_down(&progress).unwrap();
        assert!(!state.path().exists());
        assert!(!down(&state, &progress).unwrap(), "there is nothing left to remove");
    }

    /// A namespace of somebody else with a process in it.
    struct Stranger {
        name: String,
        child: Child,
    }

    impl Stranger {
        fn new(name: String) -> Self {
            let netns = named::create(&name).unwrap();
            let child = netns.run(|| Command::new("sleep").arg("1000").spawn()).unwrap().unwrap();
            Self { name, child }
        }

        fn is_unharmed(&mut self) -> bool {
            self.child.try_wait().unwrap().is_none() && named::open(&self.name).is_ok()
        }
    }

    impl Drop for Stranger {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
            let _ = named::delete(&self.name);
        }
    }

    #[test]
    fn a_name_that_somebody_else_has_is_refused_and_left_alone() {
        let base = tempfile::tempdir().unwrap();
        let plan = plan("taken");
        let state = StateDir::new(base.path(), &plan.name).unwrap();
        let progress = Progress::start();
        let mut stranger = Stranger::new(plan.host_netns(HostId(1)));
        let error = Lab::claim(state.clone(), plan, &progress).unwrap_err().to_string();
        assert!(error.contains(&stranger.name) && error.contains("not this lab's"), "{error}");
        assert!(!state.path().exists());
        assert!(!down(&state, &progress).unwrap());
        assert!(stranger.is_unharmed());
    }

    /// The name is taken after the claim, or after the network was made: what is removed is what was made, not what has its name.
    #[test]
    fn removal_spares_what_somebody_else_made_under_our_names() {
        let base = tempfile::tempdir().unwrap();
        let plan = plan("replaced");
        let state = StateDir::new(base.path(), &plan.name).unwrap();
        let progress = Progress::start();
        let mut lab = Lab::claim(state.clone(), plan.clone(), &progress).unwrap();
        let mut host = Stranger::new(plan.host_netns(HostId(1)));
        let failed = topology::build(&plan, &mut |name| lab.make(name));
        let error = tear_down_after(lab, failed, &progress, Ok).unwrap_err();
        assert!(output::chain(&error).contains(&host.name));
        assert!(host.is_unharmed());
        drop(host);

        let mut lab = Lab::claim(state.clone(), plan.clone(), &progress).unwrap();
        topology::build(&plan, &mut |name| lab.make(name)).unwrap();
        lab.leave_running().unwrap();
        named::delete(&plan.segment_netns()).unwrap();
        let mut segment = Stranger::new(plan.segment_netns());
        let error = Lab::find(state.clone()).unwrap_err().to_string();
        assert!(error.contains(&segment.name), "{error}");
        assert!(down(&state, &progress).unwrap());
        assert!(segment.is_unharmed());
        assert!(!named::list().unwrap().contains(&plan.host_netns(HostId(1))));
        assert!(!state.path().exists());
    }

    #[test]
    fn a_network_that_is_up_is_not_taken_for_remains() {
        let base = tempfile::tempdir().unwrap();
        let plan = plan("kept");
        let state = StateDir::new(base.path(), &plan.name).unwrap();
        let progress = Progress::start();
        assert!(Lab::find(state.clone()).is_err());
        Lab::claim(state.clone(), plan.clone(), &progress).unwrap().leave_running().unwrap();
        let error = Lab::claim(state.clone(), plan, &progress).unwrap_err();
        assert!(error.to_string().contains("calico-lab down --name kept"), "{error}");
        assert!(Lab::find(state.clone()).is_ok());
        assert!(down(&state, &progress).unwrap());
    }
}
