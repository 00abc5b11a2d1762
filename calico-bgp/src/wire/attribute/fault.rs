//! What was wrong with an attribute, and what RFC 7606 makes of it.

/// One malformed attribute that did not end the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "which, why, and the consequence")]
pub struct AttributeFault {
    /// Type code; zero when the list itself is cut short.
    pub code: u8,
    /// What was wrong.
    pub reason: FaultReason,
    /// What followed.
    pub treatment: Treatment,
}

impl core::fmt::Display for AttributeFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let consequence = match self.treatment {
            Treatment::Discard => "the attribute was discarded",
            Treatment::Withdraw => "its prefixes were treated as withdrawn",
        };
        write!(f, "attribute {}: {}; {consequence}", self.code, self.reason)
    }
}

/// Why an attribute is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultReason {
    /// Optional or transitive bit contradicts the type.
    #[error("wrong flags")]
    Flags,
    /// Impossible length or content.
    #[error("malformed value")]
    Value,
    /// A second one of the same type.
    #[error("duplicate")]
    Duplicate,
    /// The list ends within an attribute.
    #[error("the attribute list is cut short")]
    Truncated,
    /// A mandatory attribute is not there.
    #[error("missing although mandatory")]
    Missing,
    /// More systems in a path than is believed.
    #[error("the path is too long")]
    PathTooLong,
    /// More to pass on without understanding it than is kept.
    #[error("too large to be passed on")]
    TooLarge,
    /// Only internal sessions may carry it.
    #[error("not allowed on an external session")]
    NotAllowed,
}

/// Treatments of RFC 7606 short of a session reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "the treatments of RFC 7606 section 2 that leave the session up")]
pub enum Treatment {
    /// Attribute discard.
    Discard,
    /// Treat-as-withdraw.
    Withdraw,
}
