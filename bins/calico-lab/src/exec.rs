//! Running a command inside a host or pod of a running network.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use calico_dataplane::netns::Netns;

use crate::agent;
use crate::args::ExecArgs;
use crate::error::{Context, LabError};
use crate::plan::{HostId, Plan, PodId};
use crate::server;
use crate::state::StateDir;
use crate::topology;

/// Runs the command and exits with its code.
pub(crate) fn run(arguments: &ExecArgs) -> Result<ExitCode, LabError> {
    let state = StateDir::new(&arguments.which.state, &arguments.which.name)?;
    let plan = state.running()?.plan;
    let place = Place::parse(&arguments.place, &plan)?;
    let shell = [std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())];
    let words: &[OsString] = if arguments.command.is_empty() { &shell } else { &arguments.command };
    let (program, rest) = words.split_first().ok_or_else(|| LabError::Usage("no command".into()))?;
    let mut command = Command::new(program);
    command.args(rest).envs(place.environment(&state, &plan));
    let status = place.open(&plan)?.run(|| command.status()).context(|| format!("cannot enter {}", arguments.place))?;
    let status = status.map_err(|source| LabError::NotRun { program: program.display().to_string(), source })?;
    // As a shell does: killed by signal N is 128 + N.
    let signal =
        || std::os::unix::process::ExitStatusExt::signal(&status).map_or(1, |signal| signal.saturating_add(128));
    let code = status.code().unwrap_or_else(signal);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Somewhere a command can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A host.
    Host(HostId),
    /// A pod.
    Pod(PodId),
    /// The Ethernet segment.
    Segment,
}

impl Place {
    pub(crate) fn parse(text: &str, plan: &Plan) -> Result<Self, LabError> {
        let host = plan.hosts().find(|host| host.to_string() == text).map(Self::Host);
        let pod = || plan.pods().find(|pod| pod.to_string() == text).map(Self::Pod);
        let segment = || (text == "net").then_some(Self::Segment);
        host.or_else(pod).or_else(segment).ok_or_else(|| {
            LabError::Usage(format!(
                "no host or pod {text:?}: there are h1 to h{}, each with pods p1 to p{} (such as h1-p1), and net",
                plan.hosts, plan.pods
            ))
        })
    }

    fn open(self, plan: &Plan) -> Result<Netns, LabError> {
        topology::open(&match self {
            Self::Host(host) => plan.host_netns(host),
            Self::Pod(pod) => plan.pod_netns(pod),
            Self::Segment => plan.segment_netns(),
        })
    }

    fn environment(self, state: &StateDir, plan: &Plan) -> Vec<(&'static str, OsString)> {
        match self {
            Self::Host(host) => agent::environment(state, plan, host),
            Self::Pod(pod) => agent::environment(state, plan, pod.host),
            Self::Segment => server::environment(state, plan),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::DatastoreKind;

    #[test]
    fn places_have_names() {
        let plan = Plan { name: "t".into(), hosts: 2, pods: 1, datastore: DatastoreKind::Sqlite };
        assert_eq!(Place::parse("h2", &plan).unwrap(), Place::Host(HostId(2)));
        assert_eq!(Place::parse("h2-p1", &plan).unwrap(), Place::Pod(PodId { host: HostId(2), number: 1 }));
        assert_eq!(Place::parse("net", &plan).unwrap(), Place::Segment);
        for bad in ["h3", "h1-p2", "", "h0", "H1"] {
            assert!(matches!(Place::parse(bad, &plan), Err(LabError::Usage(_))), "{bad:?}");
        }
    }
}
