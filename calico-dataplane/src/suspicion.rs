//! A look at those objects of our tables that others touched, and at no others.
//!
//! The kernel makes a transaction visible before it has told all of it. So first whoever is in between is waited for, then what was told
//! is taken in, and only then are the objects read that it names; if somebody wrote meanwhile, all that again. What is found is thus one
//! state, of which everything that differs from what is believed is named.

use std::sync::Arc;

use crate::netlink::monitor::Monitor;
use crate::nftables::Ruleset;
use crate::{DataplaneError, HostChange, ObservedObjects};

/// How often a look starts over because somebody wrote meanwhile.
const ATTEMPTS: usize = 10;

/// What the touched objects are now. Where that cannot be said, all that is ours is to be looked at; none where the monitor knows more.
pub(crate) fn look(ruleset: &mut Ruleset, monitor: &mut Monitor) -> Option<HostChange> {
    for _ in 0..ATTEMPTS {
        match look_once(ruleset, monitor) {
            Ok(Outcome::Overtaken) => {}
            Ok(Outcome::Superseded) => return None,
            Ok(Outcome::Beyond) => break,
            Ok(Outcome::Seen(objects)) => {
                monitor.forget_touched();
                return Some(HostChange::Objects(Arc::new(objects)));
            }
            Err(_) => break,
        }
    }
    // Whoever looks at everything meets the same error, and says so.
    monitor.forget_touched();
    Some(HostChange::Ruleset)
}

enum Outcome {
    /// Somebody wrote meanwhile.
    Overtaken,
    /// The monitor knows that all that is ours is to be looked at.
    Superseded,
    /// More than was named may have been touched.
    Beyond,
    Seen(ObservedObjects),
}

fn look_once(ruleset: &mut Ruleset, monitor: &mut Monitor) -> Result<Outcome, DataplaneError> {
    let generation = ruleset.announced_generation()?;
    let touched = monitor.touched().map_err(|source| DataplaneError::Kernel {
        operation: "read",
        object: "notifications of nf_tables".into(),
        source,
    })?;
    if touched.is_empty() {
        return Ok(Outcome::Superseded);
    }
    let seen = ruleset.look_at(touched);
    if ruleset.generation()? != generation {
        return Ok(Outcome::Overtaken);
    }
    Ok(seen?.map_or(Outcome::Beyond, Outcome::Seen))
}
