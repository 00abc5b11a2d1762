//! What a rule does once it matches: verdicts, counters, logs.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::RenderConfig;
use super::names::Direction;
use super::owner::{Layer, Owner};
use super::set::Sets;
use super::words::mark;
use crate::resource::Action;
use crate::table::{Match, RateLimit, Rule, Statement, Verdict};

/// Whose rules are rendered, and where they will run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) config: &'a RenderConfig,
    /// Which parts of IP sets exist.
    pub(super) sets: &'a Sets,
    pub(super) owner: &'a Owner,
    /// Of a policy.
    pub(super) tier: Option<&'a str>,
    pub(super) direction: Direction,
    pub(super) layer: Layer,
}

impl Context<'_> {
    /// The kernel rule for the rule at a position.
    pub(super) fn act(&self, position: usize, action: Action, matches: Vec<Match>) -> Rule {
        let mut statements = Vec::new();
        if self.config.counters || self.owner.is_staged() {
            statements.push(Statement::Counter);
        }
        if self.owner.is_staged() {
            // What it would have decided is counted, and the packet goes its way.
            let verdict = (action != Action::Log).then_some(Verdict::Return);
            return Rule { matches, statements, verdict, comment: None };
        }
        statements.extend(self.flow_log(position, action));
        let verdict = match action {
            Action::Allow => Some(Verdict::Accept),
            Action::Deny => Some(self.layer.deny(self.config)),
            Action::Pass => {
                statements.push(mark(self.config.mark_mask.pass(), true));
                Some(Verdict::Return)
            }
            Action::Log => {
                statements.extend(self.config.log_rate.map(|limit| {
                    let (rate, seconds, burst) = (limit.rate, limit.seconds, limit.burst);
                    Statement::Limit(RateLimit { rate, seconds, burst, over: false })
                }));
                statements.push(Statement::Log { prefix: self.log_prefix() });
                None
            }
        };
        Rule { matches, statements, verdict, comment: None }
    }

    fn log_prefix(&self) -> String {
        let mut prefix = String::new();
        let mut rest = self.config.log_prefix.chars().peekable();
        while let Some(letter) = rest.next() {
            let replaced = match rest.peek().filter(|_| letter == '%') {
                Some('t') => Some(self.tier.unwrap_or_default().to_string()),
                Some('k') => Some(self.owner.kind().to_string()),
                Some('n') => Some(self.owner.name().to_string()),
                Some('p') => Some(self.owner.full_name()),
                _ => None,
            };
            match replaced {
                Some(text) => {
                    rest.next();
                    prefix.push_str(&text);
                }
                None => prefix.push(letter),
            }
        }
        // The kernel takes 127 octets.
        let end = (0..=LONGEST_LOG - 2).rev().find(|end| prefix.is_char_boundary(*end)).unwrap_or_default();
        prefix.truncate(end);
        prefix + ": "
    }

    fn flow_log(&self, position: usize, action: Action) -> Option<Statement> {
        let letter = match action {
            Action::Allow => 'A',
            Action::Deny => 'D',
            Action::Pass => 'P',
            Action::Log => return None,
        };
        let (owner, id) = match self.owner {
            Owner::Policy(_) => ('P', format!("{}/{}", self.owner.kind(), self.owner.full_name())),
            Owner::Profile(_) => ('R', self.owner.name().to_string()),
        };
        let prefix = format!("{letter}{owner}{}{position}|{id}", self.direction.letter());
        flow_log(prefix, self.direction, self.layer, self.config)
    }
}

/// Where a stack ends: `DPI|tier` or `DRE`, with upstream's letters.
pub(super) fn end_of_stack(
    start: &str,
    tier: Option<&str>,
    direction: Direction,
    layer: Layer,
    config: &RenderConfig,
) -> Option<Statement> {
    let tier = tier.map(|tier| format!("|{tier}")).unwrap_or_default();
    flow_log(format!("{start}{}{tier}", direction.letter()), direction, layer, config)
}

fn flow_log(prefix: String, direction: Direction, layer: Layer, config: &RenderConfig) -> Option<Statement> {
    layer.logs_flows(config).then(|| {
        let group = match direction {
            Direction::Ingress => 1,
            Direction::Egress => 2,
        };
        Statement::LogGroup { group, prefix: shortened(prefix), snaplen: 80 }
    })
}

/// Upstream's way to keep to 63 octets: both ends stay, and a digest stands between.
fn shortened(prefix: String) -> String {
    if prefix.len() < LONGEST_FLOW_LOG {
        return prefix;
    }
    let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(prefix.as_bytes()));
    let cut = |text: &str, at: usize| (at..).find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    let start = prefix.get(..10).unwrap_or_default();
    let end = prefix.get(cut(&prefix, prefix.len() - 10)..).unwrap_or_default();
    format!("{start}_{}_{end}", digest.get(..41).unwrap_or_default())
}

const LONGEST_LOG: usize = 127;
const LONGEST_FLOW_LOG: usize = 63;
