//! Differentiated services code points, by number or by name.

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Names and values (RFC 2474, RFC 2597, RFC 3246).
const NAMES: [(&str, u8); 21] = [
    ("DF", 0),
    ("EF", 46),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("CS0", 0),
    ("CS1", 8),
    ("CS2", 16),
    ("CS3", 24),
    ("CS4", 32),
    ("CS5", 40),
    ("CS6", 48),
];

/// A code point. A name keeps being a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dscp {
    value: u8,
    name: Option<&'static str>,
}

/// Text or a number that is no code point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a DSCP value: give a number from 0 to 63, DF, EF, AF11 to AF43 or CS0 to CS6")]
pub struct DscpError(String);

impl Dscp {
    /// A code point by number, 0 to 63.
    pub fn new(value: u8) -> Option<Self> {
        (value <= 63).then_some(Self { value, name: None })
    }

    /// The six bits.
    pub const fn value(self) -> u8 {
        self.value
    }
}

impl FromStr for Dscp {
    type Err = DscpError;

    /// Names in any case.
    fn from_str(text: &str) -> Result<Self, DscpError> {
        if let Some((name, value)) = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text.trim())) {
            return Ok(Self { value: *value, name: Some(name) });
        }
        let number = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        number.and_then(Self::new).ok_or_else(|| DscpError(crate::resource::clipped(text.into(), 60)))
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) => f.write_str(name),
            None => self.value.fmt(f),
        }
    }
}

impl Serialize for Dscp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.name {
            Some(name) => serializer.serialize_str(name),
            None => serializer.serialize_u8(self.value),
        }
    }
}

impl<'de> Deserialize<'de> for Dscp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Dscp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number from 0 to 63 or a name such as AF41")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Dscp, E> {
                let code = u8::try_from(value).ok().and_then(Dscp::new);
                code.ok_or_else(|| E::custom(DscpError(value.to_string())))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Dscp, E> {
                Err(E::custom(DscpError(value.to_string())))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Dscp, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_stay_numbers_and_names_stay_names() {
        for (given, written, value) in [
            (json!(0), json!(0), 0),
            (json!(63), json!(63), 63),
            (json!("46"), json!(46), 46),
            (json!("ef"), json!("EF"), 46),
            (json!("AF41"), json!("AF41"), 34),
            (json!("CS6"), json!("CS6"), 48),
        ] {
            let code = Dscp::deserialize(&given).unwrap();
            assert_eq!(code.value(), value);
            assert_eq!(serde_json::to_value(code).unwrap(), written);
        }
        for wrong in
            [json!(64), json!(-1), json!("AF44"), json!("CS7"), json!(""), json!("+5"), json!(1.5), json!(null)]
        {
            assert!(Dscp::deserialize(&wrong).is_err(), "{wrong}");
        }
    }
}
