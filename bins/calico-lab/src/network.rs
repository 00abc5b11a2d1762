//! The verbs on one network: `up`, `down`, `status`, `restart`.

use std::process::ExitCode;

use crate::args::{NameArgs, RestartArgs, SizeArgs, StatusArgs, UpArgs};
use crate::error::LabError;
use crate::exec::Place;
use crate::interrupt::interruptible;
use crate::lab::{self, Lab, tear_down_after};
use crate::plan::Plan;
use crate::progress::Progress;
use crate::report;
use crate::server;
use crate::state::StateDir;
use crate::status::Status;

pub(crate) async fn up(arguments: &UpArgs) -> Result<ExitCode, LabError> {
    let progress = Progress::start();
    let mut lab = claim(&arguments.which, arguments.size, &progress)?;
    match interruptible(lab.build(&progress)).await {
        Ok(()) => {
            let state = lab.state.clone();
            let record = lab.leave_running()?;
            let status = Status::look(&state, &record).await;
            drop(progress);
            status.print(arguments.json)?;
            if !arguments.json {
                let (look, end) = (state.hint("exec h1 -- calicoctl get nodes"), state.hint("down"));
                report::print(&format!("try {look}; {end} removes everything\n"))?;
            }
            Ok(status.exit_code())
        }
        Err(error) => tear_down_after(lab, Err(error), &progress, Ok),
    }
}

fn claim(which: &NameArgs, size: SizeArgs, progress: &Progress) -> Result<Lab, LabError> {
    server::require(size.datastore)?;
    let state = StateDir::new(&which.state, &which.name)?;
    Lab::claim(state, Plan::new(&which.name, size), progress)
}

pub(crate) fn down(which: &NameArgs) -> Result<ExitCode, LabError> {
    let progress = Progress::start();
    let state = StateDir::new(&which.state, &which.name)?;
    let text = if lab::down(&state, &progress)? { "network removed" } else { "no network there: nothing to do" };
    progress.done(text);
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn restart(arguments: &RestartArgs) -> Result<ExitCode, LabError> {
    let progress = Progress::start();
    let mut lab = Lab::find(StateDir::new(&arguments.which.state, &arguments.which.name)?)?;
    let Place::Host(host) = Place::parse(&arguments.host, &lab.record.plan)? else {
        return Err(LabError::Usage(format!("{} is no host: pods have no agent", arguments.host)));
    };
    lab.restart(host, arguments.kill, &progress).await?;
    progress.done(format!("calico-node on {host} is anew in sync"));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn show(arguments: &StatusArgs) -> Result<ExitCode, LabError> {
    let state = StateDir::new(&arguments.which.state, &arguments.which.name)?;
    let record = state.running()?;
    let status = Status::look(&state, &record).await;
    status.print(arguments.json)?;
    Ok(status.exit_code())
}
