//! The forms of answers that are no resources.

use clap::ValueEnum;

/// How answers are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For people
    #[value(alias = "ps")]
    Table,
    /// For programs
    Json,
    /// For programs
    #[value(alias = "yml")]
    Yaml,
}
