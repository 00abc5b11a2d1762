//! The annotation that gives sessions BFD: upstream has no field for it, and drops fields of others.

use alloc::format;
use alloc::string::String;
use core::time::Duration;

use serde_json::Value;

use crate::bgp::Bfd;
use crate::resource::{GoDuration, Metadata};

/// On a BGPPeer for its sessions, on the BGPConfiguration `default` for the mesh's.
const ANNOTATION: &str = "bfd.projectcalico.org/config";

/// What the annotation asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BfdConfig {
    transmit: Duration,
    receive: Duration,
    multiplier: u8,
    /// Where it is not said, it follows from the peer's address.
    multihop: Option<bool>,
}

impl BfdConfig {
    /// Reads the annotation, if it is there and enables anything.
    pub(super) fn read(metadata: &Metadata) -> Result<Option<Self>, String> {
        let Some(text) = metadata.annotations.get(ANNOTATION) else { return Ok(None) };
        let document: Value = serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
        let Value::Object(fields) = document else { return Err("it is no mapping".into()) };
        let pause = Duration::from_millis(300);
        let mut config = Self { transmit: pause, receive: pause, multiplier: 3, multihop: None };
        let mut enabled = true;
        for (name, value) in &fields {
            let refused = || format!("{name} cannot be {value}");
            match name.as_str() {
                "enabled" => enabled = value.as_bool().ok_or_else(refused)?,
                "transmitInterval" => config.transmit = interval(value).ok_or_else(refused)?,
                "receiveInterval" => config.receive = interval(value).ok_or_else(refused)?,
                "multiplier" => {
                    let number = value.as_u64().and_then(|number| u8::try_from(number).ok());
                    config.multiplier = number.filter(|number| *number > 0).ok_or_else(refused)?;
                }
                "multihop" => config.multihop = Some(value.as_bool().ok_or_else(refused)?),
                _ => {
                    return Err(format!(
                        "{name} is not known: give enabled, transmitInterval, receiveInterval, multiplier and multihop"
                    ));
                }
            }
        }
        Ok(Some(config).filter(|_| enabled))
    }

    /// For a peer that is on link, or not.
    pub(super) fn session(self, on_link: bool) -> Bfd {
        let Self { transmit, receive, multiplier, multihop } = self;
        Bfd { transmit, receive, multiplier, multihop: multihop.unwrap_or(!on_link) }
    }
}

/// From a millisecond to a minute, as Go writes durations.
fn interval(value: &Value) -> Option<Duration> {
    let duration = value.as_str()?.parse::<GoDuration>().ok()?.duration()?;
    (Duration::from_millis(1)..=Duration::from_secs(60)).contains(&duration).then_some(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<BfdConfig>, String> {
        BfdConfig::read(&Metadata { annotations: [(ANNOTATION.into(), text.into())].into(), ..Metadata::default() })
    }

    #[test]
    fn what_the_annotation_says() {
        assert_eq!(BfdConfig::read(&Metadata::default()), Ok(None));
        assert_eq!(read(r#"{"enabled": false, "multiplier": 5}"#), Ok(None));
        let text = r#"{"enabled": true, "transmitInterval": "50ms", "receiveInterval": "1s", "multiplier": 5}"#;
        let config = read(text).unwrap().unwrap();
        let ms = Duration::from_millis;
        let expected = Bfd { transmit: ms(50), receive: ms(1000), multiplier: 5, multihop: true };
        assert_eq!(config.session(false), expected);
        assert_eq!(config.session(true), Bfd { multihop: false, ..expected });
        let always = read(r#"{"multihop": true}"#).unwrap().unwrap();
        assert_eq!(always.session(true), Bfd { transmit: ms(300), receive: ms(300), multiplier: 3, multihop: true });
        for bad in [
            "",
            "[]",
            r#"{"multiplier": 0}"#,
            r#"{"multiplier": 256}"#,
            r#"{"transmitInterval": 50}"#,
            r#"{"receiveInterval": "0s"}"#,
            r#"{"transmitInterval": "2m"}"#,
            r#"{"enabled": "yes"}"#,
            r#"{"detect": 3}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
