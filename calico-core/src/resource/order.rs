//! Numbers with a fraction, such as an order: how Go, which wrote most of what is stored, writes them.

use alloc::format;
use alloc::string::String;

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

/// A number as Go's JSON has it: the fewest digits that mean it, whole numbers without a fraction, an exponent only below a millionth and
/// from 10²¹ on.
pub fn json_number(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) { scientific(number, 1) } else { format!("{number}") }
}

/// A number as Go prints it for people, which is what upstream's tables show: with an exponent below a ten-thousandth, and from a
/// million on.
pub fn shown_number(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-4..1e6).contains(&magnitude) { scientific(number, 2) } else { format!("{number}") }
}

/// With an exponent of at least so many digits; what has none, in Go's words.
fn scientific(number: f64, digits: usize) -> String {
    if !number.is_finite() {
        let word = if number.is_nan() { "NaN" } else { "Inf" };
        let sign = if number.is_nan() {
            ""
        } else if number > 0.0 {
            "+"
        } else {
            "-"
        };
        return format!("{sign}{word}");
    }
    let text = format!("{number:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{mantissa}e{sign}{exponent:0>digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Go's `encoding/json` and `text/template` print of the same numbers.
    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (number, json, shown) in [
            (0.0, "0", "0"),
            (-0.0, "-0", "-0"),
            (20.5, "20.5", "20.5"),
            (100_000.0, "100000", "100000"),
            (123_456.75, "123456.75", "123456.75"),
            (1_000_000.0, "1000000", "1e+06"),
            (9_007_199_254_740_993.0, "9007199254740992", "9.007199254740992e+15"),
            (1e20, "100000000000000000000", "1e+20"),
            (1e21, "1e+21", "1e+21"),
            (123_456_789_012_345_678_901_234_567_890.0, "1.2345678901234568e+29", "1.2345678901234568e+29"),
            (1e308, "1e+308", "1e+308"),
            (0.000_001, "0.000001", "1e-06"),
            (0.000_000_1, "1e-7", "1e-07"),
            (-1.5e-9, "-1.5e-9", "-1.5e-09"),
            (0.123_456_789_012_345_68, "0.12345678901234568", "0.12345678901234568"),
        ] {
            assert_eq!((json_number(number).as_str(), shown_number(number).as_str()), (json, shown));
            assert_eq!(json_number(number).parse(), Ok(number));
        }
    }

    #[test]
    fn what_is_no_number_has_a_word() {
        for (number, word) in [(f64::NEG_INFINITY, "-Inf"), (f64::INFINITY, "+Inf"), (f64::NAN, "NaN")] {
            assert_eq!((json_number(number).as_str(), shown_number(number).as_str()), (word, word));
        }
    }
}
