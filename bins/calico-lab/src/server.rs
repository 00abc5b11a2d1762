//! The datastore of a network: a file, or an etcd that is started for it on the segment.

use std::ffi::OsString;
use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::cli::DatastoreKind;
use crate::error::{Context, LabError};
use crate::plan::{Plan, SEGMENT_ADDRESS};
use crate::progress::Progress;
use crate::state::StateDir;
use crate::topology;

/// Refuses a datastore that this program was built without.
pub(crate) fn require(kind: DatastoreKind) -> Result<(), LabError> {
    if kind == DatastoreKind::Etcd && !cfg!(feature = "etcd") {
        return Err(LabError::Usage(
            "this calico-lab was built without etcd. Install protoc (Debian: protobuf-compiler) and type\n  \
             cargo run --release --features calico-lab/etcd --bin calico-lab -- demo --datastore etcd"
                .into(),
        ));
    }
    Ok(())
}

/// How every program finds the datastore.
pub(crate) fn environment(state: &StateDir, plan: &Plan) -> Vec<(&'static str, OsString)> {
    let mut variables = vec![("PATH", path(state))];
    match plan.datastore {
        DatastoreKind::Sqlite => variables.extend([
            ("DATASTORE_TYPE", "sqlite".into()),
            (calico_cmd::store::PATH_ENV, state.store().join("calico.db").into()),
        ]),
        DatastoreKind::Etcd => variables
            .extend([("DATASTORE_TYPE", "etcdv3".into()), ("ETCD_ENDPOINTS", format!("http://{}", endpoint()).into())]),
    }
    variables
}

/// Calico's programs come first.
fn path(state: &StateDir) -> OsString {
    let mut path = state.programs().into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_else(|| "/usr/sbin:/usr/bin:/sbin:/bin".into()));
    path
}

const fn endpoint() -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(SEGMENT_ADDRESS), 2379)
}

/// Starts the server, if the plan needs one, and waits until it listens.
pub(crate) async fn start(state: &StateDir, plan: &Plan, progress: &Progress) -> Result<Option<Child>, LabError> {
    if plan.datastore != DatastoreKind::Etcd {
        return Ok(None);
    }
    progress.step("starting etcd");
    let netns = topology::open(&plan.segment_netns())?;
    let log = File::create(state.store().join("etcd.log")).context(|| "cannot write etcd's log".into())?;
    let errors = log.try_clone().context(|| "cannot write etcd's log".into())?;
    let client = format!("http://{}", endpoint());
    let peer = "http://127.0.0.1:2380";
    let mut command = Command::new("etcd");
    command
        .arg("--data-dir")
        .arg(state.store().join("etcd"))
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer])
        .args(["--initial-cluster", &format!("default={peer}")])
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .process_group(0);
    let spawned = netns.run(|| command.spawn()).context(|| "cannot enter the segment".into())?;
    let child = spawned.context(|| "cannot start etcd (Debian: etcd-server)".into())?;
    let deadline = Instant::now() + PATIENCE;
    let listens = || TcpStream::connect_timeout(&endpoint(), Duration::from_millis(500)).is_ok();
    while !netns.run(listens).context(|| "cannot enter the segment".into())? {
        if Instant::now() > deadline {
            return Err(LabError::new(format!(
                "etcd does not listen: see {}",
                state.store().join("etcd.log").display()
            )));
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(Some(child))
}

const PATIENCE: Duration = Duration::from_secs(30);
