//! BIRD's control socket: what it says, typed. A machine without sockets ([`Replies`]), and parsers of what it yields.
//!
//! Commands are lines of text; [`Replies`] takes bytes and yields whole [`Reply`]s, of which parsers make [`DaemonStatus`], [`Protocol`]s,
//! [`BirdRoute`]s and [`Configured`]. Both dialects are read, and what is not understood is passed over: tables grow from version to version. What
//! must stay true: memory is bounded whatever the daemon sends, and no answer makes a parser fail as a whole.

mod protocols;
mod reply;
mod routes;
#[cfg(feature = "tokio")]
mod socket;
mod status;

pub use protocols::{Protocol, protocols};
pub use reply::{Line, Replies, Reply, ReplyError};
pub use routes::{BirdRoute, routes};
#[cfg(feature = "tokio")]
pub use socket::{Client, ClientError};
pub use status::{Configured, DaemonStatus, configured, status, version_of_greeting};

#[cfg(test)]
mod tests {
    #[test]
    fn the_corpus_is_survived() {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/bird");
        let entries = std::fs::read_dir(directory).unwrap();
        let read = entries.map(|entry| crate::testing::fuzz_bird(&std::fs::read(entry.unwrap().path()).unwrap()));
        assert!(read.count() > 10, "the corpus is there");
    }
}
