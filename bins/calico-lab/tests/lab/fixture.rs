//! Running the lab with a name and a state directory that no other test has.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use calico_dataplane::netns::named;

/// A network that exists, or not, below a directory of its own. It is removed when the test ends, however it ends.
pub(crate) struct Lab {
    pub(crate) name: String,
    directory: tempfile::TempDir,
}

impl Lab {
    pub(crate) fn new() -> Self {
        assert!(nix::unistd::geteuid().is_root(), "this test makes network namespaces and must run as root");
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        // Short, because sockets go below it.
        Self { name, directory: tempfile::Builder::new().prefix("lab").tempdir_in("/tmp").unwrap() }
    }

    /// A command line of the lab, about this network.
    pub(crate) fn command(&self, words: &str) -> Command {
        let mut words = words.split_whitespace();
        let mut command = Command::new(env!("CARGO_BIN_EXE_calico-lab"));
        command.arg(words.next().unwrap()).args(["--name", &self.name]).arg("--state").arg(self.directory.path());
        command.args(words).stdin(Stdio::null());
        command
    }

    /// The same under a limit that `ulimit` sets.
    pub(crate) fn limited(&self, limit: &str, words: &str) -> Output {
        let command = self.command(words);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("ulimit {limit} && exec \"$0\" \"$@\"")).arg(command.get_program());
        shell.args(command.get_args()).stdin(Stdio::null()).output().unwrap()
    }

    pub(crate) fn run(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs, and fails the test with everything that was said when that fails.
    pub(crate) fn succeed(&self, words: &str) -> String {
        let output = self.run(words);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "calico-lab {words}: {}\n{out}\n{err}", output.status);
        out
    }

    /// Starts, with standard error to be followed line by line.
    pub(crate) fn start(&self, words: &str) -> Running {
        Running::start(&mut self.command(words))
    }

    /// Names of this network's namespaces that exist.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        let prefix = format!("{}-", self.name);
        named::list().unwrap().into_iter().filter(|name| name.starts_with(&prefix)).collect()
    }

    /// Where the network's state is, or was.
    pub(crate) fn state(&self) -> PathBuf {
        self.directory.path().join(&self.name)
    }

    /// Asserts that nothing of the network is left.
    pub(crate) fn assert_gone(&self) {
        assert_eq!(self.namespaces(), Vec::<String>::new());
        let base = std::fs::read_dir(self.directory.path()).unwrap();
        assert_eq!(base.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>(), Vec::<std::ffi::OsString>::new());
        let ours = self.state().display().to_string();
        for entry in std::fs::read_dir("/proc").unwrap() {
            let path = entry.unwrap().path().join("exe");
            let Ok(file) = std::fs::read_link(&path) else { continue };
            assert!(!file.starts_with(&ours), "{} still runs {}", path.display(), file.display());
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.command("down").output();
    }
}

/// A lab at work.
pub(crate) struct Running {
    child: Child,
    lines: Option<BufReader<std::process::ChildStderr>>,
    said: String,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut running = Self { child, lines: None, said: String::new() };
        running.lines = running.child.stderr.take().map(BufReader::new);
        running
    }

    /// Returns once a line that contains `text` was said.
    pub(crate) fn wait_for(&mut self, text: &str) {
        let lines = self.lines.as_mut().unwrap();
        loop {
            let mut line = String::new();
            let length = lines.read_line(&mut line).unwrap();
            assert!(length > 0, "ended without saying {text:?}:\n{}", self.said);
            self.said.push_str(&line);
            if line.contains(text) {
                return;
            }
        }
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// Closes the reading ends of both streams.
    pub(crate) fn stop_listening(&mut self) {
        self.lines = None;
        self.child.stdout = None;
    }

    /// Waits for the end; the exit code.
    pub(crate) fn code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Waits for the end; exit code (none: killed), standard output, standard error.
    pub(crate) fn finish(mut self) -> (Option<i32>, String, String) {
        let mut lines = self.lines.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut rest = String::new();
            lines.read_to_string(&mut rest).unwrap();
            rest
        });
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.said.push_str(&reader.join().unwrap());
        (self.child.wait().unwrap().code(), out, std::mem::take(&mut self.said))
    }
}

/// A copy of the lab in another directory. Another process writes it: one that a parallel test starts just now would inherit it from this
/// one, open for writing, and the kernel does not execute such a file.
pub(crate) fn copy_to(directory: &Path) -> PathBuf {
    let program = directory.join("calico-lab");
    let status =
        Command::new("install").args(["-m", "755", env!("CARGO_BIN_EXE_calico-lab")]).arg(&program).status().unwrap();
    assert!(status.success());
    program
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
