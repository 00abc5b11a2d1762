//! The serving side of the control socket.
//!
//! Each connection is a task that reads one line at a time and hands the request to the agent over a channel; the agent answers when it
//! can, so a `wait-endpoint` holds its own connection and nobody else's. Lines are bounded in length and time, and so are connections:
//! one that asks nothing for a minute is closed, and the longest idle is when all places are taken and somebody comes. A peer that is
//! neither root nor the agent's own user is told so and dropped.

mod guests;

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use calico_cmd::control::{Answer, DEFAULT_SOCKET, ErrorCode, Failure, Reply, Request, SOCKET_ENV, VERSION, Verb};
use calico_cmd::directory::{self, DirectoryError};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{debug, warn};

use guests::{Guests, Idle};

/// Connections served at once; a host starts far fewer pods at a time. When all of them wait for an answer, more wait in the listen
/// queue.
const MAX_CONNECTIONS: usize = 256;

/// How long a connection may ask nothing.
const IDLE: Duration = Duration::from_secs(60);

/// How long the rest of a line may take once it has begun, and how long an answer may find nobody who reads it.
const LINE: Duration = Duration::from_secs(5);

/// Longest request, in bytes. All requests are names and numbers; only answers may be long.
const MAX_REQUEST: u64 = 64 << 10;

/// A request on its way to the agent.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "made here, taken apart by the agent")]
pub struct Call {
    /// What is asked.
    pub verb: Verb,
    /// Where the answer goes. Dropping it means that the agent stops.
    pub answer: oneshot::Sender<Answer>,
}

/// Why the socket cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Another agent answers there.
    #[error("{path} is in use: another calico-node runs on this host")]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something else has its name.
    #[error(
        "{path} is there and is no socket, so it is not replaced: name another path ({SOCKET_ENV}), or move it away"
    )]
    NoSocket {
        /// What is there.
        path: PathBuf,
    },
    /// Its directory is missing.
    #[error("the control socket cannot be made")]
    Directory(#[from] DirectoryError),
    /// The socket cannot be made.
    #[error("cannot listen on {path}")]
    Listen {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// The listening socket. Its file goes when this is dropped.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    /// The file system and the number of its file, which may have made way for another by the end.
    file: (u64, u64),
    accept: JoinHandle<()>,
}

impl Server {
    /// Listens, and hands calls to `agent` from now on.
    pub fn start(path: &Path, agent: mpsc::Sender<Call>) -> Result<Self, ServeError> {
        Self::start_with(path, agent, MAX_CONNECTIONS)
    }

    fn start_with(path: &Path, agent: mpsc::Sender<Call>, places: usize) -> Result<Self, ServeError> {
        let (listener, file) = bind(path)?;
        Ok(Self { path: path.to_owned(), file, accept: tokio::spawn(accept(listener, agent, Guests::new(places))) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accept.abort();
        if file_at(&self.path).is_ok_and(|file| file == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A socket that nobody listens on is left over from a killed agent and is replaced; one that somebody listens on, and whatever is no
/// socket, is not.
fn bind(path: &Path) -> Result<(UnixListener, (u64, u64)), ServeError> {
    let fail = |source| ServeError::Listen { path: path.to_owned(), source };
    directory::ready(path, Path::new(DEFAULT_SOCKET))?;
    if std::fs::symlink_metadata(path).is_ok_and(|found| !found.file_type().is_socket()) {
        return Err(ServeError::NoSocket { path: path.to_owned() });
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => return Err(ServeError::InUse { path: path.to_owned() }),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {}
        Err(error) => return Err(fail(error)),
    }
    // Bound under another name and moved into place once its mode is right: nobody can connect in between.
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    // Left over from a killed agent with this process id, as every agent in a container has.
    if std::fs::symlink_metadata(&fresh).is_ok_and(|found| found.file_type().is_socket()) {
        let _ = std::fs::remove_file(&fresh);
    }
    let listener = UnixListener::bind(&fresh).map_err(fail)?;
    std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o600)).map_err(fail)?;
    std::fs::rename(&fresh, path).map_err(fail)?;
    let file = file_at(path).map_err(fail)?;
    Ok((listener, file))
}

fn file_at(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

async fn accept(listener: UnixListener, agent: mpsc::Sender<Call>, guests: Guests) {
    let guests = Arc::new(guests);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let Some(place) = guests.admit().await else { return };
                let (agent, guests) = (agent.clone(), Arc::clone(&guests));
                tokio::spawn(async move {
                    if let Err(error) = serve(stream, agent, &guests).await {
                        debug!(%error, "control connection ended");
                    }
                    drop(place);
                });
            }
            Err(error) => {
                // Out of descriptors, most likely: those who hold them will let go.
                warn!(%error, "cannot accept on the control socket");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(stream: UnixStream, agent: mpsc::Sender<Call>, guests: &Guests) -> io::Result<()> {
    let peer = stream.peer_cred()?.uid();
    let (reading, mut writing) = stream.into_split();
    let mut reading = BufReader::new(reading);
    let mut line = Vec::new();
    let trusted = peer == 0 || peer == nix::unistd::getuid().as_raw();
    loop {
        let whole = match next_line(&mut reading, &mut line, guests.idle()).await? {
            Next::Nothing => return Ok(()),
            Next::Part => false,
            Next::Whole => true,
        };
        let (id, answer) = match (trusted, whole) {
            (false, _) => (0, failure(ErrorCode::Forbidden, "only root and the agent's own user may ask")),
            (true, true) => answer(&line, &agent).await,
            (true, false) => {
                let seconds = LINE.as_secs();
                let text = format!("a request is one line of at most {MAX_REQUEST} bytes, written within {seconds} s");
                (0, failure(ErrorCode::BadRequest, &text))
            }
        };
        let mut reply = serde_json::to_vec(&Reply { v: VERSION, id, answer })?;
        reply.push(b'\n');
        timeout(LINE, writing.write_all(&reply)).await??;
        if !(trusted && whole) {
            return Ok(());
        }
    }
}

/// What came on a connection.
enum Next {
    /// Nothing: the other side has left, or must leave.
    Nothing,
    /// The beginning of a line.
    Part,
    /// A line.
    Whole,
}

/// Reads the next line, as long as the connection may be idle and nobody else needs its place.
async fn next_line(reading: &mut BufReader<OwnedReadHalf>, line: &mut Vec<u8>, mut idle: Idle<'_>) -> io::Result<Next> {
    line.clear();
    let read = async {
        match timeout(IDLE, reading.fill_buf()).await {
            Ok(begun) => drop(begun?),
            Err(_) => return Ok(()),
        }
        // A line that is not whole in time is answered like one that is too long.
        timeout(LINE, reading.take(MAX_REQUEST).read_until(b'\n', line)).await.map_or(Ok(()), |read| read.map(drop))
    };
    tokio::select! {
        biased;
        read = read => read?,
        () = idle.sent_away() => return Ok(Next::Nothing),
    }
    Ok(match line.last() {
        None => Next::Nothing,
        Some(b'\n') => Next::Whole,
        Some(_) => Next::Part,
    })
}

async fn answer(line: &[u8], agent: &mpsc::Sender<Call>) -> (u64, Answer) {
    let request: Request = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(error) => {
            let id = serde_json::from_slice::<serde_json::Value>(line).ok();
            let id = id.and_then(|value| value.get("id")?.as_u64()).unwrap_or_default();
            return (
                id,
                failure(ErrorCode::BadRequest, &format!("not a request of protocol version {VERSION}: {error}")),
            );
        }
    };
    if request.v != VERSION {
        let text = format!("protocol version {} is not spoken here, only {VERSION}", request.v);
        return (request.id, failure(ErrorCode::BadRequest, &text));
    }
    let stopping = || failure(ErrorCode::Stopping, "the agent is stopping");
    let (sender, receiver) = oneshot::channel();
    if agent.send(Call { verb: request.verb, answer: sender }).await.is_err() {
        return (request.id, stopping());
    }
    (request.id, receiver.await.unwrap_or_else(|_| stopping()))
}

/// A failed answer.
pub(crate) fn failure(code: ErrorCode, message: &str) -> Answer {
    Answer::Error(Failure { code, message: message.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use calico_cmd::control::{Client, ControlError, Success};

    /// A server whose agent answers every wait with `Enforced`.
    async fn with_server(test: impl FnOnce(PathBuf) + Send + 'static) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let (sender, mut calls) = mpsc::channel(4);
        let _server = Server::start(&path, sender).unwrap();
        tokio::spawn(async move {
            while let Some(Call { answer, .. }) = calls.recv().await {
                let _ = answer.send(Answer::Ok(Success::Enforced));
            }
        });
        tokio::task::spawn_blocking(move || test(path)).await.unwrap();
    }

    #[tokio::test]
    async fn serves_calls_with_mode_0600() {
        with_server(|path| {
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            let mut client = Client::connect(&path).unwrap();
            for _ in 0..3 {
                client.wait_endpoint("a", "b", None, Duration::from_secs(30)).unwrap();
            }
        })
        .await;
    }

    #[tokio::test]
    async fn nonsense_gets_an_answer_and_does_not_end_the_connection() {
        with_server(|path| {
            use std::io::{BufRead, Write};
            let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
            stream
                .write_all(b"nonsense\n{\"v\":2,\"id\":5,\"verb\":\"status\"}\n{\"v\":1,\"id\":6,\"verb\":\"dance\"}\n")
                .unwrap();
            let mut lines = io::BufReader::new(stream).lines();
            for id in [0, 5, 6] {
                let reply: Reply = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
                assert_eq!(reply.id, id);
                assert!(matches!(reply.answer, Answer::Error(Failure { code: ErrorCode::BadRequest, .. })));
            }
        })
        .await;
    }

    #[tokio::test]
    async fn a_request_without_end_is_refused() {
        with_server(|path| {
            use std::io::{Read, Write};
            let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
            stream.write_all(&vec![b'x'; usize::try_from(MAX_REQUEST).unwrap()]).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            let reply: Reply = serde_json::from_str(&answer).unwrap();
            assert!(matches!(reply.answer, Answer::Error(Failure { code: ErrorCode::BadRequest, .. })), "{answer}");
        })
        .await;
    }

    #[tokio::test]
    async fn a_second_agent_is_refused_and_a_dead_ones_socket_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let (sender, _calls) = mpsc::channel(1);
        let server = Server::start(&path, sender.clone()).unwrap();
        let error = Server::start(&path, sender).unwrap_err();
        assert!(matches!(error, ServeError::InUse { .. }), "{error}");
        drop(server);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn what_is_no_socket_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (sender, _calls) = mpsc::channel(1);
        let [file, link, socket] = ["file", "link", "socket"].map(|name| folder.path().join(name));
        std::fs::write(&file, "important").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for path in [&file, &link] {
            let error = Server::start(path, sender.clone()).unwrap_err();
            assert!(matches!(error, ServeError::NoSocket { .. }), "{error}");
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
        // Put in the place of the socket while it was served.
        let server = Server::start(&socket, sender).unwrap();
        std::fs::remove_file(&socket).unwrap();
        std::fs::write(&socket, "important").unwrap();
        drop(server);
        for path in [file, link, socket] {
            assert_eq!(std::fs::read_to_string(path).unwrap(), "important");
        }
    }

    #[tokio::test]
    async fn a_directory_that_is_missing_is_named_and_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let (sender, _calls) = mpsc::channel(1);
        let error = Server::start(&folder.path().join("mistyped/s"), sender).unwrap_err();
        assert!(matches!(error, ServeError::Directory(DirectoryError::Absent { .. })), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_stopping_agent_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let (sender, calls) = mpsc::channel(1);
        let _server = Server::start(&path, sender).unwrap();
        drop(calls);
        let error =
            tokio::task::spawn_blocking(move || Client::connect(&path).unwrap().status().unwrap_err()).await.unwrap();
        assert!(matches!(error, ControlError::Failed(Failure { code: ErrorCode::Stopping, .. })), "{error}");
    }

    /// A socket with so many places, whose agent answers nothing by itself.
    struct Scene {
        _folder: tempfile::TempDir,
        path: PathBuf,
        _server: Server,
        calls: mpsc::Receiver<Call>,
    }

    impl Scene {
        fn with_places(places: usize) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("s");
            let (sender, calls) = mpsc::channel(4);
            let server = Server::start_with(&path, sender, places).unwrap();
            Self { _folder: folder, path, _server: server, calls }
        }

        async fn connect(&self) -> BufReader<UnixStream> {
            BufReader::new(UnixStream::connect(&self.path).await.unwrap())
        }

        /// Asks, and returns once the agent has the request.
        async fn ask(&mut self, guest: &mut BufReader<UnixStream>) -> Call {
            guest.write_all(b"{\"v\":1,\"id\":1,\"verb\":\"status\"}\n").await.unwrap();
            self.calls.recv().await.unwrap()
        }

        /// Asks and is answered: the connection is served, and idle from now on.
        async fn converse(&mut self, guest: &mut BufReader<UnixStream>) {
            let call = self.ask(guest).await;
            call.answer.send(Answer::Ok(Success::Gone)).unwrap();
            assert!(heard(guest).await.contains("gone"));
        }
    }

    /// The next line; nothing at the end.
    async fn heard(guest: &mut BufReader<UnixStream>) -> String {
        let mut line = String::new();
        guest.read_line(&mut line).await.unwrap();
        line
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_closed_and_one_that_waits_for_its_answer_is_not() {
        let mut scene = Scene::with_places(4);
        let (mut idle, mut waits) = (scene.connect().await, scene.connect().await);
        scene.converse(&mut idle).await;
        let call = scene.ask(&mut waits).await;
        // Virtual time: nobody sleeps.
        assert_eq!(timeout(IDLE * 10, heard(&mut idle)).await.unwrap(), "");
        tokio::time::sleep(IDLE * 10).await;
        call.answer.send(Answer::Ok(Success::Gone)).unwrap();
        assert!(heard(&mut waits).await.contains("gone"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_that_does_not_end_in_time_is_refused() {
        let scene = Scene::with_places(4);
        let mut slow = scene.connect().await;
        slow.write_all(b"{\"v\":1,").await.unwrap();
        let begun = tokio::time::Instant::now();
        let answer = heard(&mut slow).await;
        assert!(answer.contains("bad-request") && answer.contains("within 5 s"), "{answer}");
        assert!(begun.elapsed() < IDLE);
        assert_eq!(heard(&mut slow).await, "");
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_makes_room_for_a_newcomer() {
        let mut scene = Scene::with_places(2);
        let (mut first, mut second) = (scene.connect().await, scene.connect().await);
        scene.converse(&mut first).await;
        scene.converse(&mut second).await;
        scene.converse(&mut first).await;
        let begun = tokio::time::Instant::now();
        let mut newcomer = scene.connect().await;
        scene.converse(&mut newcomer).await;
        assert_eq!(heard(&mut second).await, "", "the second has been idle for longer than the first");
        scene.converse(&mut first).await;
        assert!(begun.elapsed() < LINE, "nobody waited for a time-out");
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_an_answer_keeps_its_place_until_it_has_it() {
        let mut scene = Scene::with_places(1);
        let mut first = scene.connect().await;
        let call = scene.ask(&mut first).await;
        let mut newcomer = scene.connect().await;
        newcomer.write_all(b"{\"v\":1,\"id\":1,\"verb\":\"status\"}\n").await.unwrap();
        assert!(timeout(IDLE * 2, scene.calls.recv()).await.is_err(), "there is no place for it");
        call.answer.send(Answer::Ok(Success::Gone)).unwrap();
        assert!(heard(&mut first).await.contains("gone"));
        let call = timeout(LINE, scene.calls.recv()).await.unwrap().unwrap();
        call.answer.send(Answer::Ok(Success::Gone)).unwrap();
        assert!(heard(&mut newcomer).await.contains("gone"));
        assert_eq!(heard(&mut first).await, "");
    }
}
