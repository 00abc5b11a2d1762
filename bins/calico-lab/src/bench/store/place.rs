//! Where a benchmark of the datastore happens: a namespace with nothing but a loopback, a directory, and there perhaps an etcd.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use calico_core::net::InterfaceName;
use calico_dataplane::netns::{Netns, Request, RouteSocket};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::runtime::Handle;

use super::super::finding::Benchmark;
use crate::error::{Context, LabError};
use crate::process::{self, ProcessId};
use crate::server;

const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 2379);

/// How long etcd may take to write down what it holds.
const PATIENCE: Duration = Duration::from_secs(10);

/// A place. What runs there ends with it.
pub(in crate::bench) struct Place {
    netns: Netns,
    directory: TempDir,
    etcd: Option<Child>,
}

impl Place {
    /// One for an embedded datastore.
    pub(in crate::bench) fn with_sqlite() -> Result<Self, LabError> {
        let failed = || "cannot make a namespace for the benchmark".to_owned();
        let netns = Netns::anonymous().context(failed)?;
        let mut routes = RouteSocket::open_in(&netns).context(failed)?;
        let lo: InterfaceName = "lo".parse().context(failed)?;
        let lo = routes.link(lo).context(failed)?.ok_or("no loopback").context(failed)?;
        routes.carry_out(&[Request::up(lo.index)]).context(failed)?;
        let directory = tempfile::tempdir().context(|| "cannot make a directory".into())?;
        Ok(Self { netns, directory, etcd: None })
    }

    /// One where an etcd runs.
    pub(super) async fn with_etcd(benchmark: &Benchmark) -> Result<Self, LabError> {
        server::require_etcd(&format!("bench {}", benchmark.id))?;
        let mut place = Self::with_sqlite()?;
        place.etcd = Some(server::spawn_etcd(&place.netns, ADDRESS, place.directory.path())?);
        server::etcd_listens(&place.netns, ADDRESS, place.directory.path()).await?;
        Ok(place)
    }

    /// How programs of Calico find the datastore.
    pub(super) fn environment(&self) -> [(&'static str, OsString); 2] {
        match self.etcd {
            Some(_) => [("DATASTORE_TYPE", "etcdv3".into()), ("ETCD_ENDPOINTS", endpoint().into())],
            None => [("DATASTORE_TYPE", "sqlite".into()), (calico_cmd::store::PATH_ENV, self.sqlite().into())],
        }
    }

    /// Starts a program there, with nothing of this process's environment but the search path.
    pub(in crate::bench) fn spawn(&self, command: &mut Command) -> Result<tokio::process::Child, LabError> {
        let program = command.as_std().get_program().to_owned();
        let runtime = Handle::current();
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/sbin:/usr/bin:/sbin:/bin".into());
        command.env_clear().env("PATH", path).envs(self.environment()).kill_on_drop(true);
        let spawned = self.netns.run(|| {
            // A child inherits the namespaces of the thread that starts it.
            let _inside = runtime.enter();
            command.spawn()
        });
        spawned
            .context(|| "cannot enter the benchmark's namespace".into())?
            .context(|| format!("cannot run {}", program.display()))
    }

    /// `etcdctl`, told where etcd is.
    pub(super) fn etcdctl(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("etcdctl");
        command.args(["--endpoints", &endpoint(), "--command-timeout=600s"]).args(arguments).stdin(Stdio::null());
        command
    }

    /// The process of etcd.
    pub(super) fn etcd(&self) -> Option<ProcessId> {
        self.etcd.as_ref().and_then(|etcd| ProcessId::of(i32::try_from(etcd.id()).ok()?))
    }

    fn sqlite(&self) -> PathBuf {
        self.directory.path().join("calico.db")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(id) = self.etcd() else { return };
        process::end(&[id], PATIENCE);
        if let Some(etcd) = &mut self.etcd {
            // It is dead: this only takes its entry out of the kernel's table.
            let _ = etcd.try_wait();
        }
    }
}

fn endpoint() -> String {
    format!("http://{ADDRESS}")
}
