//! Fuzz body of the selector language.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};

use crate::selector::Selector;

/// Parses arbitrary bytes; of what parses, checks that the canonical form parses too, means the same and is stable.
///
/// # Panics
///
/// When one of these does not hold: that is the finding.
pub fn fuzz_selector(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    let selector = match Selector::parse(text) {
        Ok(selector) => selector,
        Err(error) => {
            assert!(error.position() <= text.len(), "{error} lies beyond the end of {text:?}");
            return;
        }
    };
    let again = match Selector::parse(selector.canonical()) {
        Ok(again) => again,
        // The canonical form writes out blanks and parentheses, so it may be too long where the text was not.
        Err(_) if selector.canonical().len() > text.len() => return,
        Err(error) => unreachable!("canonical form {:?} does not parse: {error}", selector.canonical()),
    };
    // Upstream prints `!(!a)` as `!!a`, which parses as `a`: only there is the canonical form no fixed point.
    if !selector.canonical().contains("!!") {
        assert_eq!(again, selector, "from {text:?}");
    }
    let mut labels = BTreeMap::new();
    for _ in 0..4 {
        assert_eq!(again.matches(&labels), selector.matches(&labels), "{text:?} over {labels:?}");
        grow(&selector, &mut labels);
    }
    let unsatisfiable = selector.restrictions().values().any(crate::selector::Restriction::is_unsatisfiable);
    assert!(!(unsatisfiable && selector.matches(&labels)), "{text:?} matches against its own restrictions");
}

/// Sets one more label of those the selector speaks of.
fn grow(selector: &Selector, labels: &mut BTreeMap<String, String>) {
    let mut missing = None;
    selector.root().for_each_label(&mut |label| {
        if missing.is_none() && !labels.contains_key(&**label) {
            missing = Some(label.to_string());
        }
    });
    labels.extend(missing.map(|label| (label, "a".to_string())));
}
