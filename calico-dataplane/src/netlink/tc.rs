//! Traffic control on the wire: token buckets, the place where received packets can be taken, and what leads them elsewhere.
//!
//! The layouts are those of `linux/rtnetlink.h`, `pkt_sched.h`, `pkt_cls.h` and `tc_act/tc_mirred.h`; numbers are in host order where
//! nothing else is said.

use super::wire::{Writer, attributes, find, read_text};
use crate::{PeakBucket, TokenBucket};

/// `RTM_NEWQDISC`.
pub(crate) const NEW_QDISC: u16 = 36;
/// `RTM_DELQDISC`.
pub(crate) const DELETE_QDISC: u16 = 37;
/// `RTM_GETQDISC`.
pub(crate) const GET_QDISC: u16 = 38;
/// `RTM_NEWTFILTER`.
pub(crate) const NEW_FILTER: u16 = 44;
/// `RTM_DELTFILTER`.
pub(crate) const DELETE_FILTER: u16 = 45;
/// `RTM_GETTFILTER`.
pub(crate) const GET_FILTER: u16 = 46;

/// Parent of what holds back all that a device sends (`TC_H_ROOT`).
pub(crate) const ROOT: u32 = 0xffff_ffff;
/// Parent of the place where received packets can be taken (`TC_H_INGRESS`).
pub(crate) const INGRESS: u32 = 0xffff_fff1;
/// Its handle, `ffff:`.
pub(crate) const INGRESS_HANDLE: u32 = 0xffff_0000;
/// The same place in a `clsact`, `ffff:fff2`.
pub(crate) const CLSACT_INGRESS: u32 = 0xffff_fff2;
/// Handle of a bucket, `1:`. Upstream's, and the CNI `bandwidth` plugin's.
pub(crate) const BUCKET_HANDLE: u32 = 0x0001_0000;

/// Of our filter: first, whatever the packets' protocol (`ETH_P_ALL`). Upstream's.
const EVERYTHING_FIRST: u32 = 1 << 16 | (3_u16.to_be() as u32);
/// `1:1`: upstream's class, which nothing looks at.
const CLASS: u32 = 0x0001_0001;

const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const TBF_PARAMETERS: u16 = 1;
const TBF_RATE64: u16 = 4;
const TBF_PEAK64: u16 = 5;
const U32_CLASS: u16 = 1;
const U32_SELECTOR: u16 = 5;
const U32_ACTIONS: u16 = 7;
const U32_TERMINAL: u8 = 1;
const MIRRED_PARAMETERS: u16 = 2;
/// `TCA_EGRESS_REDIR`.
const REDIRECT: i32 = 1;
/// `TC_ACT_STOLEN`.
const STOLEN: i32 = 4;
/// `TC_LINKLAYER_ETHERNET`. Upstream and the CNI `bandwidth` plugin leave the field 0: by that, and nothing else, a bucket of ours at a workload's
/// interface is told from one of theirs, which nobody may lift who does not know whose it is.
const ETHERNET: u8 = 1;

/// What all messages begin with (`struct tcmsg`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) index: u32,
    pub(crate) handle: u32,
    pub(crate) parent: u32,
    pub(crate) info: u32,
}

const HEADER: usize = 20;

impl Header {
    pub(crate) const fn of(index: u32, handle: u32, parent: u32) -> Self {
        Self { index, handle, parent, info: 0 }
    }

    pub(crate) fn write(self, w: &mut Writer) {
        w.raw(&[0; 4]);
        for number in [self.index, self.handle, self.parent, self.info] {
            w.raw(&number.to_ne_bytes());
        }
    }

    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        let number = |at| read_u32(body, at);
        Some(Self { index: number(4)?, handle: number(8)?, parent: number(12)?, info: number(16)? })
    }
}

/// What holds packets back, or where they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Qdisc {
    pub(crate) header: Header,
    pub(crate) kind: QdiscKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QdiscKind {
    Bucket {
        /// None if it counts bytes in a way that ours do not.
        bucket: Option<TokenBucket>,
        is_ours: bool,
    },
    Ingress,
    ClsAct,
    Other,
}

impl Qdisc {
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        let header = Header::read(body)?;
        let attributes = body.get(HEADER..)?;
        let kind = match find(attributes, KIND).and_then(read_text)? {
            "tbf" => {
                let options = find(attributes, OPTIONS).unwrap_or_default();
                let parameters = find(options, TBF_PARAMETERS).unwrap_or_default();
                let is_ours = header.handle == BUCKET_HANDLE && parameters.get(1) == Some(&ETHERNET);
                QdiscKind::Bucket { bucket: read_bucket(options, parameters), is_ours }
            }
            "ingress" => QdiscKind::Ingress,
            "clsact" => QdiscKind::ClsAct,
            _ => QdiscKind::Other,
        };
        Some(Self { header, kind })
    }

    /// Whether it holds back all that its device sends.
    pub(crate) const fn is_root(&self) -> bool {
        self.header.parent == ROOT
    }

    /// Where filters for received packets belong, if it is such a place.
    pub(crate) const fn ingress(&self) -> Option<u32> {
        match self.kind {
            QdiscKind::Ingress => Some(INGRESS_HANDLE),
            QdiscKind::ClsAct => Some(CLSACT_INGRESS),
            _ => None,
        }
    }
}

fn read_bucket(options: &[u8], parameters: &[u8]) -> Option<TokenBucket> {
    let number = |at| read_u32(parameters, at);
    // `overhead`, `cell_align` and `mpu` of a rate: bytes counted beside those there are.
    let is_plain = |at: usize| parameters.get(at + 2..at + 8).is_some_and(|odd| odd == [0; 6]);
    let wide = |kind| find(options, kind).and_then(|value| value.try_into().ok()).map(u64::from_ne_bytes);
    let rate = |at: usize, kind| Some(u64::from(number(at + 8)?).max(wide(kind).unwrap_or_default()));
    let (rate, peak) = (rate(0, TBF_RATE64)?, rate(12, TBF_PEAK64)?);
    let bucket = TokenBucket {
        rate,
        limit: number(24)?,
        depth: number(28)?,
        peak: if peak == 0 { None } else { Some(PeakBucket { rate: peak, depth: number(32)? }) },
    };
    (is_plain(0) && is_plain(12)).then_some(bucket)
}

/// A bucket at the root of a device.
pub(crate) fn write_bucket(w: &mut Writer, index: u32, bucket: &TokenBucket) {
    Header::of(index, BUCKET_HANDLE, ROOT).write(w);
    w.text(KIND, "tbf");
    let narrow = |rate: u64| u32::try_from(rate).unwrap_or(u32::MAX);
    let peak_rate = bucket.peak.map_or(0, |peak| peak.rate);
    let mut parameters = Vec::new();
    for rate in [bucket.rate, peak_rate] {
        parameters.extend([0, if rate == 0 { 0 } else { ETHERNET }, 0, 0, 0, 0, 0, 0]);
        parameters.extend(narrow(rate).to_ne_bytes());
    }
    for number in [bucket.limit, bucket.depth, bucket.peak.map_or(0, |peak| peak.depth)] {
        parameters.extend(number.to_ne_bytes());
    }
    w.nest(OPTIONS, |w| {
        w.attribute(TBF_PARAMETERS, &parameters);
        for (kind, rate) in [(TBF_RATE64, bucket.rate), (TBF_PEAK64, peak_rate)] {
            if rate > u64::from(u32::MAX) {
                w.attribute(kind, &rate.to_ne_bytes());
            }
        }
    });
}

/// The place where received packets can be taken.
pub(crate) fn write_ingress(w: &mut Writer, index: u32) {
    Header::of(index, INGRESS_HANDLE, INGRESS).write(w);
    w.text(KIND, "ingress");
}

/// A filter for received packets, as far as it concerns us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filter {
    /// Leads packets to another device.
    Redirect(Redirect),
    /// Anything else.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Redirect {
    /// By which it is found again.
    pub(crate) header: Header,
    /// Index of the device; 0 if that is gone, and then nothing passes.
    pub(crate) target: u32,
    /// Whether it leads all packets there.
    pub(crate) is_total: bool,
}

impl Filter {
    /// Reads an entry of a list of filters. Those that only say how the kernel keeps filters are none.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        let header = Header::read(body)?;
        let found = body.get(HEADER..)?;
        if find(found, KIND).and_then(read_text)? != "u32" {
            return Some(Self::Other);
        }
        let options = find(found, OPTIONS)?;
        let selector = find(options, U32_SELECTOR)?;
        let is_total = selector.first().is_some_and(|flags| flags & U32_TERMINAL != 0)
            && selector.get(16..).is_some_and(|keys| keys.chunks(16).all(|key| key.starts_with(&[0; 4])))
            && header.info == EVERYTHING_FIRST;
        let target = find(options, U32_ACTIONS).and_then(|actions| attributes(actions).find_map(redirect));
        Some(target.map_or(Self::Other, |target| Self::Redirect(Redirect { header, target, is_total })))
    }
}

/// The device that an action leads to.
fn redirect((_, action): (u16, &[u8])) -> Option<u32> {
    (find(action, KIND).and_then(read_text)? == "mirred").then_some(())?;
    let parameters = find(find(action, OPTIONS)?, MIRRED_PARAMETERS)?;
    (read_u32(parameters, 20)? == REDIRECT.cast_unsigned()).then_some(())?;
    read_u32(parameters, 24)
}

/// Leads all received packets of a device to another, as upstream does it.
pub(crate) fn write_redirect(w: &mut Writer, index: u32, parent: u32, target: u32) {
    Header { info: EVERYTHING_FIRST, ..Header::of(index, 0, parent) }.write(w);
    w.text(KIND, "u32");
    w.nest(OPTIONS, |w| {
        w.attribute(U32_CLASS, &CLASS.to_ne_bytes());
        // A selector with one key, all of whose bits may be anything.
        let mut selector = [0; 32];
        selector[0] = U32_TERMINAL;
        selector[2] = 1;
        w.attribute(U32_SELECTOR, &selector);
        w.nest(U32_ACTIONS, |w| {
            w.nest(1, |w| {
                w.text(KIND, "mirred");
                let mut parameters = [0; 28];
                parameters[8..12].copy_from_slice(&STOLEN.to_ne_bytes());
                parameters[20..24].copy_from_slice(&REDIRECT.to_ne_bytes());
                parameters[24..].copy_from_slice(&target.to_ne_bytes());
                w.nest(OPTIONS, |w| w.attribute(MIRRED_PARAMETERS, &parameters));
            });
        });
    });
}

/// Names a filter, for removal.
pub(crate) fn write_filter_removal(w: &mut Writer, header: Header) {
    header.write(w);
    w.text(KIND, "u32");
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(body: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut writer = Writer::default();
        body(&mut writer);
        writer.finish().unwrap()
    }

    #[test]
    fn buckets_are_read_back() {
        let peak = Some(PeakBucket { rate: 1 << 40, depth: 3 });
        for bucket in [
            TokenBucket { rate: 125_000, depth: 7, limit: 9, peak: None },
            TokenBucket { rate: 1 << 33, depth: u32::MAX, limit: u32::MAX, peak },
        ] {
            let qdisc = Qdisc::read(&written(|w| write_bucket(w, 5, &bucket))).unwrap();
            assert_eq!((qdisc.header.index, qdisc.is_root(), qdisc.ingress()), (5, true, None));
            assert_eq!(qdisc.kind, QdiscKind::Bucket { bucket: Some(bucket), is_ours: true });
        }
    }

    #[test]
    fn redirects_are_read_back() {
        let bytes = written(|w| write_redirect(w, 5, INGRESS_HANDLE, 9));
        let Some(Filter::Redirect(found)) = Filter::read(&bytes) else { panic!("{:?}", Filter::read(&bytes)) };
        assert_eq!((found.target, found.is_total, found.header.parent), (9, true, INGRESS_HANDLE));
        let ingress = Qdisc::read(&written(|w| write_ingress(w, 5))).unwrap();
        assert_eq!((ingress.ingress(), ingress.is_root()), (Some(INGRESS_HANDLE), false));
    }
}
