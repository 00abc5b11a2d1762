//! Keys with names as bytes, which differ for keys that differ.
//!
//! What the endpoints of one host have in common in their names is held once for all, as a frame: `HOST-ORCHESTRATOR-` before what is an endpoint's
//! own, and `-INTERFACE` behind it. A key is its kind, its namespace, the rest of its name, and the number of its frame: so in order
//! the pods of one deployment lie together, which share most of that, and not those of one host, which do not.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::packed::Packed as _;
use crate::label::store::{Content, Store, says};
use crate::resource::{Kind, ResourceKey};

/// The frames.
#[derive(Debug, Default)]
pub(super) struct Names(Store<Frame>);

/// The length of what comes before, that, and what comes behind.
#[derive(Debug)]
struct Frame {
    text: Box<[u8]>,
    references: u32,
}

says!(Frame, text: [u8]);

struct Parts<'a> {
    kind: Kind,
    namespace: Option<&'a str>,
    before: &'a str,
    own: &'a str,
    behind: &'a str,
}

impl Names {
    /// Writes a key of which nothing is known yet; says whether it has a name. Its frame is to be [released](Self::release).
    pub(super) fn acquire(&mut self, key: &ResourceKey, out: &mut Vec<u8>) -> bool {
        let Some(parts) = Parts::of(key) else { return false };
        let frame = parts.frame(out).then(|| {
            let (frame, _) = self.0.acquire(out, || Frame { text: out.as_slice().into(), references: 0 });
            frame
        });
        parts.write(frame, out);
        true
    }

    /// Writes a key; says whether anything can be known under it, or nothing if it has no name.
    pub(super) fn find(&self, key: &ResourceKey, out: &mut Vec<u8>) -> Option<bool> {
        let parts = Parts::of(key)?;
        let frame = if parts.frame(out) {
            let Some(frame) = self.0.find(out) else { return Some(false) };
            Some(frame)
        } else {
            None
        };
        parts.write(frame, out);
        Some(true)
    }

    /// Gives up the frame of a key.
    pub(super) fn release(&mut self, key: &[u8]) {
        if let Some(frame) = cut(key).and_then(|(_, frame)| frame) {
            self.0.release(frame);
        }
    }

    /// A key in full, with the namespace of the last one if that is the same.
    pub(super) fn whole(&self, key: &[u8], last: &mut Option<Arc<str>>) -> Option<ResourceKey> {
        let (mut rest, frame) = cut(key)?;
        let (kind, length) = (u8::read(&mut rest)?, u64::read(&mut rest)?);
        let kind = *Kind::ALL.get(usize::from(kind))?;
        let (namespace, own) = rest.split_at_checked(usize::try_from(length).ok()?.saturating_sub(1))?;
        let namespace = core::str::from_utf8(namespace).ok()?;
        if last.as_deref() != Some(namespace) {
            *last = Some(namespace.into());
        }
        let namespace = last.clone().filter(|_| length > 0);
        let (before, behind) = frame.map_or(Some((&[][..], &[][..])), |frame| {
            let mut text = &*self.0.get(frame)?.text;
            let length = u64::read(&mut text)?;
            text.split_at_checked(usize::try_from(length).ok()?)
        })?;
        let name = String::from_utf8([before, own, behind].concat()).ok()?;
        Some(ResourceKey::Named { kind, namespace, name: name.into() })
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.0.iter().count()
    }
}

impl<'a> Parts<'a> {
    fn of(key: &'a ResourceKey) -> Option<Self> {
        let ResourceKey::Named { kind, namespace, name } = key else { return None };
        let (before, own, behind) =
            if *kind == Kind::WorkloadEndpoint { split(name).unwrap_or(("", name, "")) } else { ("", &**name, "") };
        Some(Self { kind: *kind, namespace: namespace.as_deref(), before, own, behind })
    }

    /// Writes what is held once, if there is any.
    fn frame(&self, out: &mut Vec<u8>) -> bool {
        out.clear();
        (self.before.len() as u64).write(out);
        out.extend_from_slice(self.before.as_bytes());
        out.extend_from_slice(self.behind.as_bytes());
        out.len() > 1
    }

    /// Writes the key. Each part can be told from the next: lengths stand before text, and that of the frame's number stands last.
    fn write(&self, frame: Option<u32>, out: &mut Vec<u8>) {
        out.clear();
        out.push(self.kind as u8);
        self.namespace.map_or(0, |namespace| namespace.len() as u64 + 1).write(out);
        out.extend_from_slice(self.namespace.unwrap_or_default().as_bytes());
        out.extend_from_slice(self.own.as_bytes());
        let number = frame.map_or(0, |frame| u64::from(frame) + 1).to_be_bytes();
        let digits = number.iter().skip_while(|byte| **byte == 0);
        let count = digits.clone().count();
        out.extend(digits);
        out.push(count as u8);
    }
}

/// A written key without its frame, and that.
fn cut(key: &[u8]) -> Option<(&[u8], Option<u32>)> {
    let (count, rest) = key.split_last()?;
    let (rest, digits) = rest.split_at_checked(rest.len().checked_sub(usize::from(*count))?)?;
    let number = digits.iter().fold(0, |number: u64, digit| number << 8 | u64::from(*digit));
    Some((rest, number.checked_sub(1).and_then(|frame| u32::try_from(frame).ok())))
}

/// The parts of an endpoint's name: four segments end at dashes that are not doubled ([`super::super::WorkloadEndpointName`]). A name that is
/// none is right in any split.
fn split(name: &str) -> Option<(&str, &str, &str)> {
    let mut bytes = name.bytes().enumerate().peekable();
    let mut dashes = core::iter::from_fn(|| {
        loop {
            let (at, byte) = bytes.next()?;
            if byte == b'-' && bytes.next_if(|(_, next)| *next == b'-').is_none() {
                return Some(at);
            }
        }
    });
    let (_, second) = (dashes.next()?, dashes.next()?);
    let end = dashes.next().unwrap_or(name.len());
    let (rest, behind) = name.split_at_checked(end)?;
    let (before, own) = rest.split_at_checked(second + 1)?;
    Some((before, own, behind))
}
