//! A member that hangs on demand, for tests: everything between a client and a real server goes through it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(super) struct Relay {
    url: String,
    lost: Arc<Lost>,
    task: JoinHandle<()>,
}

/// Which directions lose what they are to carry.
#[derive(Default)]
struct Lost {
    requests: AtomicBool,
    answers: AtomicBool,
}

impl Relay {
    /// Listens in front of a server.
    pub(super) async fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = server.strip_prefix("http://").unwrap().to_owned();
        let lost = Arc::new(Lost::default());
        let task = tokio::spawn(accept(listener, server, Arc::clone(&lost)));
        Self { url, lost, task }
    }

    pub(super) fn url(&self) -> String {
        self.url.clone()
    }

    /// From now on the server hears and is not heard.
    pub(super) fn lose_answers(&self) {
        self.lost.answers.store(true, Ordering::Relaxed);
    }

    /// From now on connections are taken and nothing comes through.
    pub(super) fn hang(&self) {
        self.lose_answers();
        self.lost.requests.store(true, Ordering::Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, server: String, lost: Arc<Lost>) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let (server, lost) = (TcpStream::connect(&server).await.unwrap(), Arc::clone(&lost));
        tokio::spawn(async move {
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            tokio::join!(
                carry(&mut from_client, &mut to_server, &lost.requests),
                carry(&mut from_server, &mut to_client, &lost.answers)
            );
        });
    }
}

/// Until either end hangs up.
async fn carry(from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin), lost: &AtomicBool) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if !lost.load(Ordering::Relaxed) && to.write_all(&buffer[..length]).await.is_err() {
            break;
        }
    }
    let _gone = to.shutdown().await;
}
