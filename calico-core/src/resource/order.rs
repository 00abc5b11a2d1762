//! The number form of an order: Go writes whole floating-point numbers without a fraction.

use serde::{Deserialize, Serialize, Serializer};

/// Largest magnitude below which every whole number is exact in an `f64`.
const EXACT: f64 = 9_007_199_254_740_992.0;

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
pub(super) fn serialize<S: Serializer>(order: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match order {
        Some(order) if order.abs() < EXACT => {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "bounded above; a fraction is caught by the comparison"
            )]
            let whole = *order as i64;
            #[expect(clippy::cast_precision_loss, reason = "bounded above")]
            let is_whole = whole as f64 == *order;
            if is_whole { serializer.serialize_i64(whole) } else { serializer.serialize_f64(*order) }
        }
        order => order.serialize(serializer),
    }
}

/// The number of a document, in the form in which it is written.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Order(#[serde(serialize_with = "serialize")] Option<f64>);
