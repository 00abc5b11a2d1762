//! What a speaker calls itself, for people to read: name (draft-walton-bgp-hostname-capability) and software
//! (draft-abraitis-bgp-version-capability). Kept as received; made safe where it is shown.

use crate::wire::reader::Reader;
use crate::wire::text::sanitised;

/// Host and domain name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fqdn {
    host: Vec<u8>,
    domain: Vec<u8>,
}

/// Name and version of the software.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoftwareVersion(Vec<u8>);

impl Fqdn {
    /// Our own; what does not fit is cut.
    pub fn new(host: &str, domain: &str) -> Self {
        // 255 octets hold both names and their lengths.
        let host = cut(host, 126);
        Self { host, domain: cut(domain, 126) }
    }

    /// Host name, safe to show.
    pub fn host(&self) -> String {
        sanitised(&self.host)
    }

    /// Domain name, safe to show; often empty.
    pub fn domain(&self) -> String {
        sanitised(&self.domain)
    }

    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(value);
        let mut name = || reader.u8().and_then(|length| reader.take(usize::from(length))).map(<[u8]>::to_vec);
        let (host, domain) = (name()?, name()?);
        reader.is_empty().then_some(Self { host, domain })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        [counted(&self.host), counted(&self.domain)].concat()
    }
}

impl SoftwareVersion {
    /// Our own; what does not fit is cut.
    pub fn new(version: &str) -> Self {
        Self(cut(version, 64))
    }

    /// Safe to show.
    pub fn text(&self) -> String {
        sanitised(&self.0)
    }

    /// An empty text says nothing, so it is none.
    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(value);
        let version = reader.u8().filter(|length| *length > 0).and_then(|length| reader.take(usize::from(length)))?;
        reader.is_empty().then(|| Self(version.to_vec()))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        counted(&self.0)
    }
}

/// The longest start of a text that has at most `most` octets and ends with a character.
fn cut(text: &str, most: usize) -> Vec<u8> {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default().as_bytes().to_vec()
}

fn counted(text: &[u8]) -> Vec<u8> {
    let mut value = vec![u8::try_from(text.len()).unwrap_or(u8::MAX)];
    value.extend_from_slice(text);
    value
}
