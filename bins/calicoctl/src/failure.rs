//! What is said when something fails: first upstream's line, then what we know beyond it.

use std::fmt;

use calico_cmd::exit::Exit;
use calico_cmd::manifest::Place;
use calico_core::Few;
use calico_core::resource::{Fault, FaultSort, Kind};

/// A command that did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Wrong usage that the parser could not see.
    Usage(String),
    /// Files that cannot be used; nothing was done.
    Input(Few<InputFault>),
    /// Files that cannot be used, of a verb that changes nothing anyway.
    Question(Few<InputFault>),
    /// Something else, in upstream's words.
    Message(String),
    /// `diff` found differences, and has printed them.
    Differs,
    /// Nobody reads what is printed any more, as of `calicoctl get … | head`.
    Unread,
    /// `diff` could not do its work.
    Trouble(Box<Self>),
}

/// One fault of the input.
#[derive(Debug)]
pub(crate) enum InputFault {
    /// A file cannot be read or holds nothing.
    File(String),
    /// Text that is no YAML.
    Syntax(Box<calico_cmd::manifest::SyntaxError>),
    /// A document of a kind that does not exist.
    Kind { message: String, place: Box<Place> },
    /// A document of an older version that cannot be converted.
    Older { fault: Fault, place: Box<Place> },
    /// A resource that cannot be written as things are.
    Refused { verb: &'static str, kind: Kind, message: String, place: Box<Place> },
    /// A resource that was not looked at, for the store does not answer.
    Store { verb: &'static str, kind: Kind, message: String },
    /// A document that breaks the rules of its kind.
    Fault { verb: &'static str, kind: Kind, fault: Fault, place: Box<Place> },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) => write!(f, "error: {message}\n\nFor more information, try 'calicoctl --help'."),
            Self::Message(message) => f.write_str(message),
            Self::Differs | Self::Unread => Ok(()),
            Self::Trouble(failure) => failure.fmt(f),
            Self::Question(faults) => listed(faults, f),
            Self::Input(faults) => {
                listed(faults, f)?;
                write!(f, "\nNothing was changed.")
            }
        }
    }
}

fn listed(faults: &Few<InputFault>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, fault) in faults.kept().iter().enumerate() {
        if index > 0 {
            writeln!(f)?;
        }
        write!(f, "{fault}")?;
    }
    if faults.more() > 0 { write!(f, "\n… and {} more", faults.more()) } else { Ok(()) }
}

impl fmt::Display for InputFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(message) => write!(f, "failed to execute command: {message}"),
            Self::Syntax(error) => {
                let (source, position) = (&error.source_name, error.position);
                write!(f, "failed to execute command: error parsing {source}: {}", error.reason)?;
                let place = format_args!(
                    "{source}, document {}, line {}, column {}",
                    error.document, position.line, position.column
                );
                write!(f, "\n  at {place}\n{}", error.excerpt)
            }
            Self::Kind { message, place } => {
                write!(f, "failed to execute command: {message}\n  at {place}\n{}", place.excerpt())
            }
            Self::Older { fault, place } => {
                write!(f, "Failed to convert resource: {fault}\n  at {place}\n{}", place.excerpt())
            }
            Self::Refused { verb, kind, message, place } => {
                let (first, further) = divided(message);
                write!(f, "failed to {verb} '{kind}' resource: [{first}]\n  at {place}\n{}{further}", place.excerpt())
            }
            Self::Store { verb, kind, message } => write!(f, "failed to {verb} '{kind}' resource: [{message}]"),
            Self::Fault { verb, kind, fault, place } => {
                match fault.sort {
                    FaultSort::UnknownField => write!(f, "failed to execute command: {fault}")?,
                    _ => write!(f, "failed to {verb} '{kind}' resource: [{fault}]")?,
                }
                write!(f, "\n  at {place}\n{}", place.excerpt())
            }
        }
    }
}

impl Failure {
    /// How the program ends.
    pub(crate) const fn exit(&self) -> Exit {
        match self {
            // As diff(1): one means differences, and two that it is not known whether there are any.
            Self::Usage(_) | Self::Trouble(_) => Exit::Usage,
            Self::Input(_) | Self::Question(_) | Self::Message(_) | Self::Differs | Self::Unread => Exit::Failure,
        }
    }

    /// The same of a verb that changes nothing: that needs not be said.
    pub(crate) fn of_question(self) -> Self {
        match self {
            Self::Input(faults) => Self::Question(faults),
            Self::Trouble(failure) => Self::Trouble(Box::new(failure.of_question())),
            other => other,
        }
    }

    /// A failure in upstream's words.
    pub(crate) fn message(message: impl fmt::Display) -> Self {
        Self::Message(message.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::Unread;
        }
        Self::message(format_args!("failed to write output: {error}"))
    }
}

/// Upstream's line of a message, and what we know beyond it, from the end of that line on.
pub(crate) fn divided(message: &str) -> (&str, &str) {
    message.split_at(message.find('\n').unwrap_or(message.len()))
}
