//! Open files: probing holds some for each pod, all in this one process.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::error::{Context, LabError};
use crate::plan::Plan;
use crate::probe;

/// Standard streams, the runtime, pipes and sockets to agents and programs.
const REST: u64 = 100;

/// Makes sure that this process may open as many files as probing the network takes, as far as the hard limit allows.
pub(crate) fn reserve(plan: &Plan) -> Result<(), LabError> {
    let pods = plan.pods().count();
    let needed = probe::descriptors(pods) + REST;
    let (soft, hard) =
        getrlimit(Resource::RLIMIT_NOFILE).context(|| "cannot ask for the limit of open files".into())?;
    if hard < needed {
        return Err(LabError::Usage(format!(
            "probing {pods} pods takes {needed} open files and the limit is {hard}: raise it with `ulimit -n {needed}`, or give fewer \
             hosts or pods"
        )));
    }
    if soft < needed {
        setrlimit(Resource::RLIMIT_NOFILE, needed, hard).context(|| format!("cannot allow {needed} open files"))?;
    }
    Ok(())
}
