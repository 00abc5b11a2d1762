//! The versions of the specification that the plugins speak.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use super::{CniError, ErrorCode};

/// A version of the specification. Matching is by exact text; there is no "at most".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "every answer must be written in each of them")]
pub enum Version {
    /// 0.1.0: one address per family.
    V0_1_0,
    /// 0.2.0: VERSION.
    V0_2_0,
    /// 0.3.0: lists of interfaces, addresses and routes.
    V0_3_0,
    /// 0.3.1: the same, with a name put right.
    V0_3_1,
    /// 0.4.0: CHECK.
    V0_4_0,
    /// 1.0.0: no `version` beside an address.
    V1_0_0,
    /// 1.1.0: STATUS and GC.
    V1_1_0,
}

impl Version {
    /// Every version, oldest first.
    pub const ALL: [Self; 7] =
        [Self::V0_1_0, Self::V0_2_0, Self::V0_3_0, Self::V0_3_1, Self::V0_4_0, Self::V1_0_0, Self::V1_1_0];

    /// The newest.
    pub const LATEST: Self = Self::V1_1_0;

    /// What a configuration without `cniVersion` means to upstream's plugin (to the reference library it is 0.1.0; the results
    /// are the same but for this field).
    pub const UNNAMED: Self = Self::V0_2_0;

    /// The text of it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V0_1_0 => "0.1.0",
            Self::V0_2_0 => "0.2.0",
            Self::V0_3_0 => "0.3.0",
            Self::V0_3_1 => "0.3.1",
            Self::V0_4_0 => "0.4.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }

    /// The answer to VERSION.
    pub fn answer() -> serde_json::Value {
        let supported = Self::ALL.map(Self::as_str);
        serde_json::json!({"cniVersion": Self::LATEST.as_str(), "supportedVersions": supported})
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Version {
    type Err = CniError;

    fn from_str(text: &str) -> Result<Self, CniError> {
        if text.is_empty() {
            return Ok(Self::UNNAMED);
        }
        Self::ALL.into_iter().find(|version| version.as_str() == text).ok_or_else(|| {
            let supported = Self::ALL.map(Self::as_str).join(", ");
            CniError::new(ErrorCode::IncompatibleVersion, "incompatible CNI versions")
                .with_details(format!("config is {text:?}, plugin supports {supported}"))
        })
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.as_str().into()
    }
}
