//! The wording of results, as upstream's. Of a store that failed under way, for which upstream has no words, it is said what is known.

use calico_core::Few;
use calico_core::resource::{Kind, ResourceKey};

use crate::failure::{Failure, divided};
use crate::input::Item;
use crate::write::Outcome;

/// What became of one resource.
#[derive(Debug)]
pub(super) struct Attempt {
    kind: Kind,
    name: String,
    pub(super) outcome: Outcome,
}

impl Attempt {
    pub(super) fn of_item(item: &Item, outcome: Outcome) -> Self {
        Self { kind: item.kind, name: item.name(), outcome }
    }

    pub(super) fn of_key(key: &ResourceKey, outcome: Outcome) -> Self {
        Self { kind: key.kind(), name: key.to_string(), outcome }
    }

    /// Why it is not done, if that was tried. Of several resources each is named.
    fn error(&self, is_alone: bool) -> Option<String> {
        let (Outcome::Failed(error) | Outcome::Stopped(error) | Outcome::Undecided(error)) = &self.outcome else {
            return None;
        };
        let is_named = is_alone || divided(error).0.contains(&self.name);
        Some(if is_named { error.clone() } else { format!("{}: {error}", self.name) })
    }
}

/// Whether it is of no use to try another.
pub(super) fn is_over(attempts: &[Attempt]) -> bool {
    attempts.last().is_some_and(|last| last.outcome.is_final())
}

/// Result lines of a command over several resources: text for standard output, and the failure if there was one.
pub(super) fn summary(verb: &str, past: &str, attempts: &[Attempt]) -> (String, Option<Failure>) {
    let total = attempts.len();
    if total == 0 {
        return ("No resources specified\n".into(), None);
    }
    let quoted = common_kind(attempts).map(|kind| format!("'{kind}' "));
    let kind = quoted.as_deref().unwrap_or_default();
    let done = attempts.iter().filter(|attempt| matches!(attempt.outcome, Outcome::Done)).count();
    let errors: Vec<String> = attempts.iter().filter_map(|attempt| attempt.error(total == 1)).collect();
    if errors.is_empty() {
        return (format!("Successfully {past} {total} {kind}resource(s)\n"), None);
    }
    let (first, further): (Vec<_>, Vec<_>) = errors.iter().map(|error| divided(error)).unzip();
    let list = first.join(", ");
    let is_undecided = attempts.iter().any(|attempt| matches!(attempt.outcome, Outcome::Undecided(_)));
    let line = match (done, total) {
        // To say that it failed would be a guess.
        _ if is_undecided || done > 0 => format!("hit error: [{list}]"),
        (_, 1) => format!("failed to {verb} {kind}resource: [{list}]"),
        _ => format!("failed to {verb} any {kind}resources: [{list}]"),
    };
    let text = match done {
        0 => String::new(),
        _ => format!("Partial success: {past} the first {done} out of {total} {kind}resources:\n"),
    };
    (text, Some(Failure::Message(line + &further.concat() + &unknown(past, attempts))))
}

/// Lines that name the resources of which it is not known whether they are done, and those that nobody tried.
fn unknown(past: &str, attempts: &[Attempt]) -> String {
    let named = |wanted: fn(&Outcome) -> bool| {
        let mut names = Few::default();
        attempts
            .iter()
            .filter(|attempt| wanted(&attempt.outcome))
            .for_each(|attempt| names.add(|| attempt.name.clone()));
        names.finish(|more| format!("and {more} more")).join(", ")
    };
    let undecided = named(|outcome| matches!(outcome, Outcome::Undecided(_)));
    let untried = named(|outcome| matches!(outcome, Outcome::Untried));
    let mut lines = String::new();
    if !undecided.is_empty() {
        lines += &format!("\n  not known whether {past}: {undecided}");
    }
    if !untried.is_empty() {
        lines += &format!("\n  not tried any more: {untried}");
    }
    lines
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
pub(super) fn deletions(attempts: &[Attempt]) -> (String, Option<Failure>) {
    let total = attempts.len();
    if total == 0 {
        return ("No resources specified\n".into(), None);
    }
    let done = attempts.iter().filter(|attempt| matches!(attempt.outcome, Outcome::Done)).count();
    let kind = common_kind(attempts).map(|kind| format!("'{kind}' ")).unwrap_or_default();
    let text = if done > 0 { format!("Successfully deleted {done} {kind}resource(s)\n") } else { String::new() };
    let line = |attempt: &Attempt| {
        let error = attempt.error(total == 1)?;
        Some(match attempt.outcome {
            Outcome::Undecided(_) => format!("hit error: {error}"),
            _ => format!("Failed to delete '{}' resource: {error}", attempt.kind),
        })
    };
    let lines: Vec<String> = attempts.iter().filter_map(line).collect();
    let failure = (!lines.is_empty()).then(|| Failure::Message(lines.join("\n") + &unknown("deleted", attempts)));
    (text, failure)
}

fn common_kind(attempts: &[Attempt]) -> Option<Kind> {
    let first = attempts.first()?.kind;
    attempts.iter().all(|attempt| attempt.kind == first).then_some(first)
}
