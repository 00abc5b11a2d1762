//! The datastore of a network: a file, or an etcd that is started for it on the segment.

use std::ffi::OsString;
use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use calico_dataplane::netns::Netns;
use tokio::time::{Instant, sleep};

use crate::args::DatastoreKind;
use crate::error::{Context, LabError};
use crate::plan::{Plan, SEGMENT_ADDRESS};
use crate::progress::Progress;
use crate::state::StateDir;
use crate::topology;

/// Refuses a datastore that this program was built without.
pub(crate) fn require(kind: DatastoreKind) -> Result<(), LabError> {
    if kind == DatastoreKind::Etcd { require_etcd("demo --datastore etcd") } else { Ok(()) }
}

/// Refuses what needs etcd if this program was built without; `words` is what was meant.
pub(crate) fn require_etcd(words: &str) -> Result<(), LabError> {
    if cfg!(feature = "etcd") {
        return Ok(());
    }
    Err(LabError::Usage(format!(
        "this calico-lab was built without etcd. Install protoc (Debian: protobuf-compiler) and type\n  \
         cargo run --release --features calico-lab/etcd --bin calico-lab -- {words}"
    )))
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
    let child = spawn_etcd(&netns, endpoint(), &state.store())?;
    etcd_listens(&netns, endpoint(), &state.store()).await?;
    Ok(Some(child))
}

/// Starts an etcd in a namespace, its data and its log in a directory.
pub(crate) fn spawn_etcd(netns: &Netns, endpoint: SocketAddr, directory: &Path) -> Result<Child, LabError> {
    let log = File::create(directory.join(ETCD_LOG)).context(|| "cannot write etcd's log".into())?;
    let errors = log.try_clone().context(|| "cannot write etcd's log".into())?;
    let client = format!("http://{endpoint}");
    let peer = "http://127.0.0.1:2380";
    let mut command = Command::new("etcd");
    command
        .arg("--data-dir")
        .arg(directory.join("etcd"))
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer])
        .args(["--initial-cluster", &format!("default={peer}")])
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .process_group(0);
    let spawned = netns.run(|| command.spawn()).context(|| "cannot enter etcd's namespace".into())?;
    spawned.context(|| "cannot start etcd (Debian: etcd-server)".into())
}

/// Waits until an etcd listens that was started so.
pub(crate) async fn etcd_listens(netns: &Netns, endpoint: SocketAddr, directory: &Path) -> Result<(), LabError> {
    let deadline = Instant::now() + PATIENCE;
    let listens = || TcpStream::connect_timeout(&endpoint, Duration::from_millis(500)).is_ok();
    while !netns.run(listens).context(|| "cannot enter etcd's namespace".into())? {
        if Instant::now() > deadline {
            return Err(LabError::new(format!("etcd does not listen: see {}", directory.join(ETCD_LOG).display())));
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

const ETCD_LOG: &str = "etcd.log";
const PATIENCE: Duration = Duration::from_secs(30);
