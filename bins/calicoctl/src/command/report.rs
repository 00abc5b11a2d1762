//! The wording of results, as upstream's.

use calico_core::resource::Kind;

use crate::failure::Failure;
use crate::write::Outcome;

/// Result lines of a command over several resources: text for standard output, and the failure if there was one.
pub(super) fn summary(verb: &str, past: &str, outcomes: &[(Kind, Outcome)]) -> (String, Option<Failure>) {
    let total = outcomes.len();
    if total == 0 {
        return ("No resources specified\n".into(), None);
    }
    let quoted = common_kind(outcomes).map(|kind| format!("'{kind}' "));
    let kind = quoted.as_deref().unwrap_or_default();
    let errors: Vec<&str> =
        outcomes.iter().filter_map(|(_, outcome)| outcome.as_ref().err().map(String::as_str)).collect();
    let failed = errors.len();
    let list = errors.join(", ");
    match (failed, total) {
        (0, _) => (format!("Successfully {past} {total} {kind}resource(s)\n"), None),
        (1, 1) => (String::new(), Some(Failure::message(format_args!("failed to {verb} {kind}resource: [{list}]")))),
        _ if failed == total => {
            (String::new(), Some(Failure::message(format_args!("failed to {verb} any {kind}resources: [{list}]"))))
        }
        _ => (
            format!("Partial success: {past} the first {} out of {total} {kind}resources:\n", total - failed),
            Some(Failure::message(format_args!("hit error: [{list}]"))),
        ),
    }
}

/// Result lines of what was only tried out.
pub(super) fn dry((text, failure): (String, Option<Failure>)) -> (String, Option<Failure>) {
    (text.lines().map(|line| format!("{line}{}\n", dry_mark(true))).collect(), failure)
}

/// The end of a result line.
pub(super) const fn dry_mark(dry_run: bool) -> &'static str {
    if dry_run { " (dry run)" } else { "" }
}

/// Result lines of `delete`, whose wording differs.
pub(super) fn deletions(outcomes: &[(Kind, Outcome)]) -> (String, Option<Failure>) {
    let total = outcomes.len();
    if total == 0 {
        return ("No resources specified\n".into(), None);
    }
    let done = outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).count();
    let kind = common_kind(outcomes).map(|kind| format!("'{kind}' ")).unwrap_or_default();
    let text = if done > 0 { format!("Successfully deleted {done} {kind}resource(s)\n") } else { String::new() };
    let line = |(kind, outcome): &(Kind, Outcome)| {
        outcome.as_ref().err().map(|error| format!("Failed to delete '{kind}' resource: {error}"))
    };
    let lines: Vec<String> = outcomes.iter().filter_map(line).collect();
    let failure = (!lines.is_empty()).then(|| Failure::Message(lines.join("\n")));
    (text, failure)
}

fn common_kind(outcomes: &[(Kind, Outcome)]) -> Option<Kind> {
    let (first, _) = outcomes.first()?;
    outcomes.iter().all(|(kind, _)| kind == first).then_some(*first)
}
