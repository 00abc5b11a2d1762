//! The `nft` program carries an export out, or says whether the kernel would take it.
//!
//! For dry runs, and for embedders that may start a program but open no netlink socket. It writes the nf_tables part of a delta only, in one
//! transaction, and costs what `nft` costs: with each change it reads what is there. What it writes has no marks by which the Linux backend
//! knows its own chains again, so that one replaces them.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use calico_core::table::Delta;

use super::{ExportError, to_nft_json};

/// The program. The calling thread's network namespace is the one that it works in; calls wait for it.
#[derive(Debug, Clone)]
pub struct NftProgram {
    path: PathBuf,
}

/// `nft`, wherever `PATH` has it.
impl Default for NftProgram {
    fn default() -> Self {
        Self::new("nft")
    }
}

/// Why the program did not carry a delta out. Nothing of it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The delta cannot be said in its words.
    #[error("the change has no form for nft")]
    Export(#[from] ExportError),
    /// It cannot be run.
    #[error("cannot run {} (Debian: nftables)", program.display())]
    Run {
        /// Where it should be.
        program: PathBuf,
        /// What is wrong.
        #[source]
        source: std::io::Error,
    },
    /// It, or the kernel, refused.
    #[error("nft refuses the change: {message}")]
    Refused {
        /// What it says of it.
        message: String,
    },
}

impl NftProgram {
    /// The program at a path, or of a name below `PATH`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Asks whether the kernel would take a delta. Changes nothing.
    ///
    /// # Errors
    /// It would not, or nobody could be asked.
    pub fn check(&self, delta: &Delta) -> Result<(), ProgramError> {
        self.read(&["--check"], delta)
    }

    /// Carries the nf_tables part of a delta out: all or nothing. `nft` forgives no absence: what is removed must be there.
    ///
    /// # Errors
    /// Nothing was carried out.
    pub fn apply(&self, delta: &Delta) -> Result<(), ProgramError> {
        self.read(&[], delta)
    }

    fn read(&self, options: &[&str], delta: &Delta) -> Result<(), ProgramError> {
        let commands = to_nft_json(delta)?.to_string();
        let output =
            self.run(options, &commands).map_err(|source| ProgramError::Run { program: self.path.clone(), source })?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(ProgramError::Refused { message })
    }

    fn run(&self, options: &[&str], commands: &str) -> std::io::Result<Output> {
        let mut command = Command::new(&self.path);
        command.args(options).args(["--json", "--file", "-"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        // It reads all before it says anything. Where it ends without having read all, it says why.
        let written = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(commands.as_bytes()));
        let output = child.wait_with_output()?;
        if output.status.success() { written.map(|()| output) } else { Ok(output) }
    }
}
