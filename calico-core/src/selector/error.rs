//! What can be wrong with a selector's text.

use alloc::string::String;
use core::fmt;

/// Text that is no selector, and where it stops being one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at byte {position}: {problem}")]
pub struct SelectorError {
    position: usize,
    problem: Problem,
}

impl SelectorError {
    pub(super) const fn new(position: usize, problem: Problem) -> Self {
        Self { position, problem }
    }

    pub(super) fn syntax(position: usize, expected: &'static str, found: impl Into<String>) -> Self {
        Self::new(position, Problem::Syntax { expected, found: found.into() })
    }

    /// Offset in bytes of the first part of the text that does not fit; the text's length when it ends too early.
    pub const fn position(&self) -> usize {
        self.position
    }

    /// What does not fit there.
    pub const fn problem(&self) -> &Problem {
        &self.problem
    }
}

/// The kinds of fault.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// Something else was needed at this place.
    Syntax {
        /// What would have fitted.
        expected: &'static str,
        /// What stands there, shortened.
        found: String,
    },
    /// The label name is longer than the limit.
    LabelTooLong {
        /// Most bytes that a label name may have.
        limit: usize,
    },
    /// The whole text is longer than the limit.
    TooLong {
        /// Most bytes that a selector may have.
        limit: usize,
    },
    /// Parentheses or operators are nested deeper than the limit.
    TooDeep {
        /// Deepest nesting.
        limit: usize,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { expected, found } => write!(f, "expected {expected}, found {found}"),
            Self::LabelTooLong { limit } => write!(f, "the label name is longer than {limit} bytes"),
            Self::TooLong { limit } => write!(f, "the selector is longer than {limit} bytes"),
            Self::TooDeep { limit } => write!(f, "the selector is nested more than {limit} levels deep"),
        }
    }
}
