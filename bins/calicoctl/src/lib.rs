//! What operators type: apply, create, get and delete resources.
//!
//! The program is a function of its arguments and an [`Io`]: environment, standard streams and a way to open the datastore. The thin
//! `main` passes the process's own; tests and other programs pass theirs.

mod args;
mod cli;
mod command;
mod context;
mod failure;
mod input;
mod order;
mod output;
mod patch;
mod protected;
mod rehearse;
mod spoilt;
mod warning;
mod write;

use std::ffi::OsString;
use std::io::{IsTerminal, Read, Write};
use std::sync::Arc;

use calico_cmd::exit::Exit;
use calico_cmd::store::{OpenError, Sources};
use calico_cmd::telemetry;
use calico_datastore::{Clock, Datastore, IdSource, SystemClock, SystemIds};
use clap::Parser;

use crate::cli::Cli;
use crate::context::Context;
use crate::failure::Failure;

/// Where the configuration file lies unless told otherwise.
pub const DEFAULT_CONFIG: &str = "/etc/calico/calicoctl.cfg";

/// What the program needs from outside.
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct Io<'a> {
    /// Environment, and whether there is a kubeconfig in the home directory; its file is set from the command line.
    pub sources: Sources<'static>,
    /// Standard input.
    pub stdin: &'a mut dyn Read,
    /// Standard output.
    pub stdout: &'a mut dyn Write,
    /// Standard error.
    pub stderr: &'a mut dyn Write,
    /// Whether a person reads standard output: colours are for terminals.
    pub is_terminal: bool,
    /// Whether a person reads standard error: so does how far long work is.
    pub is_watched: bool,
    /// The datastore to use; none means the one that the configuration chooses.
    pub store: Option<Arc<dyn Datastore>>,
    /// For times of creation.
    pub clock: Arc<dyn Clock>,
    /// For identities.
    pub ids: Arc<dyn IdSource>,
}

/// Runs the program. `args` begins with the program's name.
pub fn run(args: impl IntoIterator<Item = OsString>, io: Io<'_>) -> Exit {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            let text = error.render();
            if error.use_stderr() {
                let _closed = write!(io.stderr, "{text}");
                if let Some(hint) = cli::hint(&error) {
                    let _closed = writeln!(io.stderr, "{hint}");
                }
                return Exit::Usage;
            }
            let written = write!(io.stdout, "{text}").and_then(|()| io.stdout.flush());
            return ended(written.map_err(Failure::from), io.stderr);
        }
    };
    telemetry::init(cli.log_level, None);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _closed = writeln!(io.stderr, "Failed to start: {error}");
            return Exit::Failure;
        }
    };
    let Io { sources, stdin, stdout, stderr, is_terminal, is_watched, store, clock, ids } = io;
    let mut context =
        Context { sources, stdin, stdout, stderr, is_terminal, is_watched, store, clock, ids, absent: None };
    let outcome = runtime.block_on(cli::run(cli, &mut context));
    // What comes behind the last line's end is still in the stream's buffer.
    let flushed = context.stdout.flush().map_err(Failure::from);
    ended(outcome.and(flushed), context.stderr)
}

/// How the program ends, after a failure is told.
fn ended(outcome: Result<(), Failure>, stderr: &mut dyn Write) -> Exit {
    match outcome {
        Ok(()) => Exit::Success,
        Err(failure) => {
            for line in failure.to_string().lines() {
                let _closed = writeln!(stderr, "{}", calico_cmd::output::printable(line));
            }
            failure.exit()
        }
    }
}

/// Runs the program with the process's environment and streams.
pub fn run_process(args: impl IntoIterator<Item = OsString>) -> Exit {
    let ids = match SystemIds::open() {
        Ok(ids) => ids,
        Err(error) => {
            let _closed = writeln!(std::io::stderr(), "/dev/urandom: {error}");
            return Exit::Failure;
        }
    };
    let io = Io {
        sources: Sources::of_process(None),
        stdin: &mut std::io::stdin(),
        stdout: &mut std::io::stdout(),
        stderr: &mut std::io::stderr(),
        is_terminal: std::io::stdout().is_terminal(),
        is_watched: std::io::stderr().is_terminal(),
        store: None,
        clock: Arc::new(SystemClock),
        ids: Arc::new(ids),
    };
    run(args, io)
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        Self::message(format_args!("Failed to create Calico API client: {}", calico_cmd::output::chain(&error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes everything, as a buffer does, and has no room for it.
    struct Full;

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Err(std::io::Error::other("no space left"))
        }
    }

    /// Whoever read it has gone.
    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// How it ends, and what it complains of.
    fn printed_to(stdout: &mut dyn Write, words: &str) -> (Exit, String) {
        let mut stderr = Vec::new();
        let io = Io {
            sources: Sources::default(),
            stdin: &mut std::io::empty(),
            stdout,
            stderr: &mut stderr,
            is_terminal: false,
            is_watched: false,
            store: Some(Arc::new(calico_datastore::memory::MemoryStore::new())),
            clock: Arc::new(SystemClock),
            ids: Arc::new(SystemIds::open().unwrap()),
        };
        let arguments = std::iter::once("calicoctl").chain(words.split(' ')).map(OsString::from);
        (run(arguments, io), String::from_utf8(stderr).unwrap())
    }

    #[test]
    fn nobody_is_told_that_nobody_reads() {
        for words in ["get profiles -o yaml", "--help", "completion bash", "version"] {
            assert_eq!(printed_to(&mut Closed, words), (Exit::Failure, String::new()), "{words}");
        }
    }

    #[test]
    fn output_that_stays_in_the_buffer_is_a_failure() {
        for words in
            ["get profile projectcalico-default-allow -o jsonpath={.metadata.name}", "--help", "completion bash"]
        {
            let told = "failed to write output: no space left\n".to_owned();
            assert_eq!(printed_to(&mut Full, words), (Exit::Failure, told), "{words}");
        }
    }
}
