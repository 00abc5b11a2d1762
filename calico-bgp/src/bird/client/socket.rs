//! The control socket itself: one command after another, each within a bound.

use core::time::Duration;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::reply::{Replies, Reply, ReplyError};
use super::status::version_of_greeting;

/// Bytes read at once.
const CHUNK: usize = 1 << 16;

/// Why BIRD cannot be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The socket is not there, or breaks.
    #[error("{path}: {source}: is BIRD running?")]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// No answer came in time.
    #[error("{path}: BIRD does not answer within {within:?}")]
    Silent {
        /// The socket.
        path: PathBuf,
        /// How long it had.
        within: Duration,
    },
    /// What came is no answer.
    #[error("{path}: {source}")]
    Reply {
        /// The socket.
        path: PathBuf,
        /// What it is.
        #[source]
        source: ReplyError,
    },
}

/// A connection. After an error, or an `ask` that was given up, it must not be used any more: what comes next belongs to another command.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    stream: UnixStream,
    replies: Replies,
    within: Duration,
    version: Option<String>,
}

impl Client {
    /// Connects and hears the greeting. `within` bounds this and each command.
    pub async fn connect(path: &Path, within: Duration) -> Result<Self, ClientError> {
        let connecting = async {
            let stream = UnixStream::connect(path).await;
            let stream = stream.map_err(|source| ClientError::Socket { path: path.into(), source })?;
            let mut client = Self { path: path.into(), stream, replies: Replies::default(), within, version: None };
            client.version = version_of_greeting(&client.reply().await?);
            Ok(client)
        };
        let timed = tokio::time::timeout(within, connecting).await;
        timed.map_err(|_| ClientError::Silent { path: path.into(), within })?
    }

    /// From now on, each command has so long.
    pub const fn set_patience(&mut self, within: Duration) {
        self.within = within;
    }

    /// BIRD's version, as it greeted.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Sends a command and waits for all of its reply.
    pub async fn ask(&mut self, command: &str) -> Result<Reply, ClientError> {
        let within = self.within;
        let asking = async {
            let line = format!("{command}\n");
            let sent = self.stream.write_all(line.as_bytes()).await;
            sent.map_err(|source| ClientError::Socket { path: self.path.clone(), source })?;
            self.reply().await
        };
        match tokio::time::timeout(within, asking).await {
            Ok(reply) => reply,
            Err(_) => Err(ClientError::Silent { path: self.path.clone(), within }),
        }
    }

    async fn reply(&mut self) -> Result<Reply, ClientError> {
        let mut chunk = vec![0; CHUNK];
        loop {
            let next = self.replies.next_reply();
            if let Some(reply) = next.map_err(|source| ClientError::Reply { path: self.path.clone(), source })? {
                return Ok(reply);
            }
            let read = self.stream.read(&mut chunk).await;
            let read = read.map_err(|source| ClientError::Socket { path: self.path.clone(), source })?;
            if read == 0 {
                let source = std::io::ErrorKind::UnexpectedEof.into();
                return Err(ClientError::Socket { path: self.path.clone(), source });
            }
            self.replies.push(chunk.get(..read).unwrap_or_default());
        }
    }
}
