//! What is wrong with a document, by field.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Write as _};

use crate::few::Few;

/// One fault of a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct Fault {
    /// Where, from the root of the document: `spec.ingress[0].source.selector`. Empty for the document itself.
    pub path: String,
    /// The offending value, if it is short text or a number.
    pub value: Option<String>,
    /// Why it is refused, and what to write instead.
    pub reason: String,
    /// Byte offset of the fault inside the value, for languages that have positions (selectors).
    pub offset: Option<usize>,
    /// What sort of fault it is.
    pub sort: FaultSort,
}

/// What sort of fault a [`Fault`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultSort {
    /// A value that is refused.
    Value,
    /// A mandatory field that is absent.
    Missing,
    /// A field that the kind does not have.
    UnknownField,
}

impl Fault {
    /// A value that is refused.
    pub fn value(path: impl fmt::Display, value: Option<String>, reason: impl fmt::Display) -> Self {
        Self {
            path: clipped(path.to_string(), MAX_PATH),
            value: value.map(|value| clipped(value, MAX_VALUE)),
            reason: clipped(reason.to_string(), MAX_REASON),
            offset: None,
            sort: FaultSort::Value,
        }
    }

    /// A mandatory field that is absent.
    pub fn missing(path: impl fmt::Display) -> Self {
        let reason = "the field is required".into();
        Self { path: path.to_string(), value: None, reason, offset: None, sort: FaultSort::Missing }
    }

    /// A field that the kind does not have; `known` are the names that it does have at this place.
    pub fn unknown_field<'a>(
        path: impl fmt::Display,
        name: &str,
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> Self {
        let reason = nearest(name, known.clone()).map_or_else(
            || {
                let names: Vec<&str> = known.collect();
                alloc::format!("known here: {}", names.join(", "))
            },
            |near| alloc::format!("did you mean {near}?"),
        );
        let path = clipped(path.to_string(), MAX_PATH);
        Self { path, value: None, reason, offset: None, sort: FaultSort::UnknownField }
    }

    /// What stands for faults that are not listed.
    fn more(count: usize) -> Self {
        Self::value("", None, format_args!("and {count} more"))
    }

    /// The first few of the faults of one object or part, and one that says how many there are beyond.
    pub fn few(faults: impl IntoIterator<Item = Self>) -> Vec<Self> {
        faults.into_iter().collect::<Few<_>>().list()
    }

    /// Adds the position inside the value.
    #[must_use]
    pub fn at_offset(mut self, offset: usize) -> Self {
        self.offset = Some(offset);
        self
    }
}

/// Upstream's wording (`ErrorValidation`, and calicoctl's text for unknown fields), with the reason appended to the latter.
/// Keys and values of others, which must not break the line that quotes them.
pub(crate) struct OneLine<'a>(pub(crate) &'a str);

/// Whether a character ends a line, moves what a terminal shows, or reorders it.
pub(crate) fn breaks_line(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| f.write_char(if breaks_line(c) { char::REPLACEMENT_CHARACTER } else { c }))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, value, reason, sort, .. } = self;
        let (path, value) = (OneLine(path), value.as_deref().map(OneLine));
        match (sort, value) {
            (FaultSort::UnknownField, _) => {
                write!(f, "field in document is not recognized or is in the wrong location: {path} ({reason})")
            }
            (_, Some(value)) => write!(f, "error with field {path} = '{value}' ({reason})"),
            (_, None) if path.0.is_empty() => f.write_str(reason),
            (_, None) => write!(f, "error with field {path} ({reason})"),
        }
    }
}

impl Few<Fault> {
    /// As [`Fault::few`].
    pub(super) fn list(self) -> Vec<Fault> {
        self.finish(Fault::more)
    }
}

/// Most characters of a value that a message shows.
pub(super) const MAX_VALUE: usize = 200;
/// Longer than any path that the API has; label keys may be part of it.
pub(super) const MAX_PATH: usize = 1000;
/// Reasons may quote the value.
const MAX_REASON: usize = 1000;

/// Text whose end is cut off if there is more than `limit` characters of it.
pub fn clipped(mut text: String, limit: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(limit) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The known name that was most likely meant: same letters in another case, or few edits away.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    let limit = (name.len() / 3).clamp(1, 3);
    known
        .map(|candidate| (edits(&name, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance, cut off for names too long to be a field of ours.
fn edits(left: &str, right: &str) -> usize {
    if left.len().abs_diff(right.len()) > 3 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.bytes().enumerate() {
        let mut next = Vec::with_capacity(row.len());
        next.push(i + 1);
        for ((above, above_right), b) in row.iter().zip(row.iter().skip(1)).zip(right.bytes()) {
            let previous = next.last().copied().unwrap_or_default();
            next.push((above + usize::from(a != b)).min(above_right + 1).min(previous + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_stays_on_one_line() {
        let fault =
            Fault::value("spec.a\n".to_string(), Some("x\u{1b}[2J\nKernel: fine".to_string()), "bad".to_string());
        assert_eq!(fault.to_string(), "error with field spec.a\u{fffd} = 'x\u{fffd}[2J\u{fffd}Kernel: fine' (bad)");
    }

    #[test]
    fn suggests_the_nearest_name_or_lists_them() {
        let known = ["selector", "types", "order"];
        let near = Fault::unknown_field("spec.selectr", "selectr", known.into_iter());
        assert_eq!(
            near.to_string(),
            "field in document is not recognized or is in the wrong location: spec.selectr (did you mean selector?)"
        );
        let far = Fault::unknown_field("spec.wibble", "wibble", known.into_iter());
        assert!(far.reason.contains("selector, types, order"));
        assert!(Fault::unknown_field("x", "Selector", known.into_iter()).reason.contains("did you mean selector?"));
    }

    #[test]
    fn of_many_faults_the_first_are_listed() {
        let faults = |count: usize| Fault::few((0..count).map(Fault::missing));
        assert_eq!(faults(20).last().map(|fault| &*fault.path), Some("19"));
        let many = faults(5000);
        assert_eq!((many.len(), many[20].to_string()), (21, "and 4980 more".into()));
    }

    #[test]
    fn long_text_is_cut() {
        let long = "é".repeat(200_000);
        let fault = Fault::value(&long, Some(long.clone()), &long);
        assert!(fault.to_string().chars().count() < 2300);
        assert_eq!(fault.value.as_deref(), Some(&*("é".repeat(200) + "…")));
        assert!(Fault::unknown_field(&long, &long, ["a"].into_iter()).to_string().len() < 2300);
        let whole = "é".repeat(200);
        assert_eq!(Fault::value("x", Some(whole.clone()), "").value, Some(whole));
    }

    #[test]
    fn speaks_as_upstream() {
        let fault = Fault::value("spec.cidr", Some("10".into()), "no CIDR");
        assert_eq!(fault.to_string(), "error with field spec.cidr = '10' (no CIDR)");
        assert_eq!(Fault::missing("spec.cidr").to_string(), "error with field spec.cidr (the field is required)");
    }
}
