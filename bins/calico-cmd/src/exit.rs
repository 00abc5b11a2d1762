//! How programs end: 0 success, 1 failure, 2 wrong usage.

use std::process::ExitCode;

/// Outcome of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the three codes are promised to callers")]
pub enum Exit {
    /// All was done.
    Success,
    /// Something failed; the message said what.
    Failure,
    /// The command line, the environment or a configuration file is wrong.
    Usage,
}

impl Exit {
    /// The process's exit code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
