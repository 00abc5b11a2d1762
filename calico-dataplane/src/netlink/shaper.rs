//! Limits on bandwidth: token buckets, and the devices through which what workloads send is led.
//!
//! ```text
//! what a workload receives:  cali…   root 1: tbf
//! what it sends:             cali…   ffff: ingress ── u32, all packets: mirred redirect ──▶ bwcali… (ifb)  root 1: tbf ──▶ as if received by cali…
//! ```
//!
//! Names, handles and the filter are upstream's, so either agent takes over from the other. A limit is made from its end to its beginning and
//! taken away from its beginning to its end: packets that are led to a device that is not there are lost. Each step looks first and writes
//! only what differs, so what is right is left alone, with the packets that wait in it.
//!
//! | What others left | |
//! |---|---|
//! | upstream's devices, filters, buckets in devices | count as ours, as their names are |
//! | upstream's or the CNI `bandwidth` plugin's bucket at a workload's interface | replaced where we limit there; else left alone: no one can tell the two apart |
//! | the plugin's device (`bwp…`) and filter | removed where we limit what the workload sends, else left alone |
//! | other filters, `clsact` | left alone, ours beside them |

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use calico_core::net::InterfaceName;
use calico_core::table::{Delta, Shaper, Shaping};
use nix::errno::Errno;

use super::link::{Link, Links};
use super::tc::{self, Filter, Header, Qdisc, QdiscKind, Redirect};
use super::wire::{CREATE, ECHO, ERROR, EXCLUSIVE, REPLACE, REQUEST, Writer};
use super::{Batch, Routing, emit, is, kernel, link, no_interface};
use crate::{ApplyReport, DataplaneError, LinuxConfig, Shaped, TokenBucket};

/// How devices of the CNI `bandwidth` plugin are called.
const PLUGIN_PREFIX: &str = "bwp";
/// What the kernel says to the removal of what is not there.
const ABSENT: [Errno; 4] = [Errno::ENOENT, Errno::ENODEV, Errno::ESRCH, Errno::ENXIO];

impl Routing {
    /// All that limits workloads and is ours.
    pub(crate) fn shapings(
        &mut self,
        links: &Links,
        config: &LinuxConfig,
    ) -> Result<BTreeMap<InterfaceName, Shaped>, DataplaneError> {
        let body = |w: &mut Writer| Header::of(0, 0, 0).write(w);
        let qdiscs = self.socket.dump(tc::GET_QDISC, body, |found: &mut Vec<Qdisc>, message| {
            found.extend(Qdisc::read(message.body));
        });
        let qdiscs = match qdiscs {
            Ok(found) => found,
            // A kernel without traffic control limits nothing.
            Err(error) if is(&error, &[Errno::EOPNOTSUPP]) => Vec::new(),
            Err(error) => return Err(kernel("list", "queueing disciplines")(error)),
        };
        let nothing = Shaped { source: None, bucket: None };
        let shapers = links.iter().filter(|link| link.is_shaper());
        let mut shapings: BTreeMap<_, _> = shapers.map(|link| (link.name, nothing)).collect();
        let mut buckets = BTreeMap::new();
        let mut doors = Vec::new();
        for qdisc in &qdiscs {
            let Some(link) = links.get(qdisc.header.index) else { continue };
            let is_workload = config.is_workload(link.name);
            match qdisc.kind {
                QdiscKind::Bucket { bucket, is_ours: true } if qdisc.is_root() && is_workload => {
                    shapings.insert(link.name, Shaped { source: None, bucket });
                }
                QdiscKind::Bucket { bucket: Some(bucket), .. } if qdisc.is_root() && link.is_shaper() => {
                    buckets.insert(link.name, bucket);
                }
                _ if is_workload => doors.extend(qdisc.ingress().map(|door| (*link, door))),
                _ => {}
            }
        }
        for (link, door) in doors {
            let filters = match self.filters(link.state.index, door) {
                Err(error) if is(&error, &ABSENT) => continue,
                filters => filters.map_err(kernel("list", &format!("filters of {}", link.name)))?,
            };
            for redirect in redirects(&filters) {
                let own = Shaper::of_sent(link.name).device;
                let (device, is_up) = match links.get(redirect.target) {
                    Some(target) if target.is_shaper() => (target.name, target.state.up),
                    None if redirect.target == 0 => (own, false),
                    _ => continue,
                };
                let seen = shapings.entry(device).or_insert(nothing);
                let is_right = seen.source.is_none() && device == own && is_up && redirect.is_total;
                let bucket = buckets.get(&device).copied().filter(|_| is_right);
                *seen = Shaped { source: Some(link.name), bucket };
            }
        }
        Ok(shapings)
    }

    /// Sets limits, then lifts others.
    pub(crate) fn shape(&mut self, delta: &Delta, config: &LinuxConfig, report: &mut ApplyReport) {
        let set: BTreeSet<_> = delta.shapings_set.iter().map(|shaping| shaping.shaper.device).collect();
        for shaping in &delta.shapings_set {
            let failed = self.set_shaping(shaping, config).err();
            report.shapings.extend(failed.map(|error| (shaping.shaper, error)));
        }
        for shaper in &delta.shapings_removed {
            let failed = self.remove_shaping(shaper, set.contains(&shaper.device), config).err();
            report.shapings.extend(failed.map(|error| (*shaper, error)));
        }
    }

    fn set_shaping(&mut self, shaping: &Shaping, config: &LinuxConfig) -> Result<(), DataplaneError> {
        let Shaper { device, source } = shaping.shaper;
        let workload = shaping.shaper.workload();
        let object = name(&shaping.shaper);
        if !config.is_workload(workload) || source.is_some() && !Shaper::is_device(device) {
            let detail = "only workloads are limited, by their interfaces or by devices made for it".into();
            return Err(DataplaneError::Unwritable { object, detail });
        }
        let link = self.known_link(workload, &object)?;
        let bucket = TokenBucket::of(shaping, link.state.mtu);
        if source.is_none() {
            return self.set_bucket(link.state.index, &bucket, &object);
        }
        let through = self.make_device(device, link.state.mtu, &object)?;
        self.set_bucket(through, &bucket, &object)?;
        self.lead(link.state.index, through, &object)
    }

    /// A device that gives back what it is sent; its index.
    fn make_device(&mut self, device: InterfaceName, mtu: u32, object: &str) -> Result<u32, DataplaneError> {
        let found = self.ask_link(&link::request(device)).map_err(kernel("look for", object))?;
        let index = match found {
            Some(link) if !link.is_ifb => {
                let detail = format!("{device} is there and is no device of kind ifb: remove or rename it");
                return Err(DataplaneError::Unwritable { object: object.to_owned(), detail });
            }
            Some(link) if link.state.up && link.state.mtu == mtu => return Ok(link.state.index),
            Some(link) => link.state.index,
            None => 0,
        };
        let flags = if index == 0 { CREATE | EXCLUSIVE } else { 0 };
        let message = link::ifb(device, index, mtu);
        let made = self.carry_out(link::NEW, flags, |w| emit(w, &message));
        made.map_err(|error| lacking(error, Errno::EOPNOTSUPP, "make", object, "devices of kind ifb", "ifb"))?;
        let made = self.known_link(device, object)?;
        self.own_links.push((made.state.index, Some(made)));
        Ok(made.state.index)
    }

    fn set_bucket(&mut self, index: u32, bucket: &TokenBucket, object: &str) -> Result<(), DataplaneError> {
        let found = self.qdisc(index, tc::ROOT).map_err(kernel("look for", object))?;
        match found.map(|found| found.kind) {
            Some(QdiscKind::Bucket { bucket: Some(found), is_ours: true }) if found == *bucket => return Ok(()),
            Some(QdiscKind::Bucket { .. }) | None => {}
            // The kernel changes no kind under the same handle.
            Some(_) if found.is_some_and(|found| found.header.handle == tc::BUCKET_HANDLE) => {
                self.remove_qdisc(index, tc::BUCKET_HANDLE, tc::ROOT).map_err(kernel("replace", object))?;
            }
            Some(_) => {}
        }
        let written = self.carry_out(tc::NEW_QDISC, CREATE | REPLACE, |w| tc::write_bucket(w, index, bucket));
        written.map_err(|error| lacking(error, Errno::ENOENT, "write", object, "token buckets", "sch_tbf"))
    }

    /// Leads what an interface receives to a device, and no longer to where limits of others, or of earlier, led it.
    fn lead(&mut self, index: u32, target: u32, object: &str) -> Result<(), DataplaneError> {
        let found = self.qdisc(index, tc::INGRESS).map_err(kernel("look for", object))?;
        let door = match found.and_then(|found| found.ingress()) {
            Some(door) => door,
            None => {
                let made = self.carry_out(tc::NEW_QDISC, CREATE | EXCLUSIVE, |w| tc::write_ingress(w, index));
                let lacks = ("filters of received packets", "sch_ingress");
                made.map_err(|error| lacking(error, Errno::ENOENT, "write", object, lacks.0, lacks.1))?;
                tc::INGRESS_HANDLE
            }
        };
        let filters = self.filters(index, door).map_err(kernel("list", object))?;
        let ours = redirects(&filters).find(|found| found.target == target && found.is_total).copied();
        if ours.is_none() {
            let body = |w: &mut Writer| tc::write_redirect(w, index, door, target);
            let written = self.carry_out(tc::NEW_FILTER, CREATE | EXCLUSIVE, body);
            let lacks = ("redirection of packets", "cls_u32 and act_mirred");
            written.map_err(|error| lacking(error, Errno::ENOENT, "write", object, lacks.0, lacks.1))?;
        }
        for other in redirects(&filters).filter(|found| Some(**found) != ours) {
            self.supersede(other, target, object)?;
        }
        Ok(())
    }

    /// Ends a redirection to a device of limits, and that device.
    fn supersede(&mut self, redirect: &Redirect, target: u32, object: &str) -> Result<(), DataplaneError> {
        let device = self.target(redirect).map_err(kernel("look for", object))?;
        if device.is_some_and(|device| !device.is_ifb || !is_of_limits(device.name)) {
            return Ok(());
        }
        self.remove_filter(redirect.header).map_err(kernel("replace", object))?;
        match device.filter(|device| device.state.index != target) {
            Some(device) => self.remove_link(device.state.index).map_err(kernel("replace", object)),
            None => Ok(()),
        }
    }

    /// `keep` says that the device is needed for another interface.
    fn remove_shaping(&mut self, shaper: &Shaper, keep: bool, config: &LinuxConfig) -> Result<(), DataplaneError> {
        let object = name(shaper);
        let failed = || kernel("remove", &object);
        if let Some(source) = shaper.source.filter(|source| config.is_workload(*source))
            && let Some(link) = self.ask_link(&link::request(source)).map_err(failed())?
        {
            self.stop_leading(link.state.index, shaper.device).map_err(failed())?;
        }
        if keep {
            return Ok(());
        }
        let Some(link) = self.ask_link(&link::request(shaper.device)).map_err(failed())? else { return Ok(()) };
        let index = link.state.index;
        if link.is_shaper() {
            return self.remove_link(index).map_err(failed());
        }
        let root = self.qdisc(index, tc::ROOT).map_err(failed())?;
        match root.map(|root| root.kind) {
            Some(QdiscKind::Bucket { is_ours: true, .. }) if config.is_workload(link.name) => {
                self.remove_qdisc(index, tc::BUCKET_HANDLE, tc::ROOT).map_err(failed())
            }
            _ => Ok(()),
        }
    }

    /// The place where packets are taken goes, too, if nothing else takes any there.
    fn stop_leading(&mut self, index: u32, device: InterfaceName) -> io::Result<()> {
        let Some(place) = self.qdisc(index, tc::INGRESS)? else { return Ok(()) };
        let Some(door) = place.ingress() else { return Ok(()) };
        let filters = self.filters(index, door)?;
        let mut ours = Vec::new();
        for redirect in redirects(&filters) {
            let target = self.target(redirect)?;
            if target.is_none_or(|target| target.name == device) {
                ours.push(redirect.header);
            }
        }
        if ours.len() == filters.len() && place.kind == QdiscKind::Ingress {
            return self.remove_qdisc(index, tc::INGRESS_HANDLE, tc::INGRESS);
        }
        ours.into_iter().try_for_each(|header| self.remove_filter(header))
    }

    /// The device that packets are led to, if it is still there.
    fn target(&mut self, redirect: &Redirect) -> io::Result<Option<Link>> {
        match redirect.target {
            0 => Ok(None),
            index => self.ask_link(&link::request_by_index(index)),
        }
    }

    fn remove_link(&mut self, index: u32) -> io::Result<()> {
        let message = link::removal(index);
        forgiving(self.carry_out(link::DELETE, 0, |w| emit(w, &message)))?;
        self.own_links.push((index, None));
        Ok(())
    }

    fn remove_qdisc(&mut self, index: u32, handle: u32, parent: u32) -> io::Result<()> {
        forgiving(self.carry_out(tc::DELETE_QDISC, 0, |w| Header::of(index, handle, parent).write(w)))
    }

    fn remove_filter(&mut self, header: Header) -> io::Result<()> {
        forgiving(self.carry_out(tc::DELETE_FILTER, 0, |w| tc::write_filter_removal(w, header)))
    }

    fn filters(&mut self, index: u32, door: u32) -> io::Result<Vec<Filter>> {
        let body = |w: &mut Writer| Header::of(index, 0, door).write(w);
        self.socket.dump(tc::GET_FILTER, body, |found: &mut Vec<Filter>, message| {
            found.extend(Filter::read(message.body));
        })
    }

    fn qdisc(&mut self, index: u32, parent: u32) -> io::Result<Option<Qdisc>> {
        self.ask(tc::GET_QDISC, tc::NEW_QDISC, |w| Header::of(index, 0, parent).write(w), Qdisc::read)
    }

    fn known_link(&mut self, interface: InterfaceName, object: &str) -> Result<Link, DataplaneError> {
        let found = self.ask_link(&link::request(interface)).map_err(kernel("look for", object))?;
        found.ok_or_else(|| no_interface(object.to_owned(), interface))
    }

    fn ask_link(&mut self, request: &netlink_packet_route::link::LinkMessage) -> io::Result<Option<Link>> {
        self.ask(link::GET, link::NEW, |w| emit(w, request), link::decode)
    }

    /// One object; none if it is not there.
    fn ask<T>(
        &mut self,
        kind: u16,
        answer: u16,
        body: impl FnOnce(&mut Writer),
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> io::Result<Option<T>> {
        let sequence = self.socket.reserve(1);
        let mut writer = Writer::default();
        // Without `ECHO` traffic control tells everybody but who asked.
        writer.message(kind, REQUEST | ECHO, sequence, body);
        let request = writer.finish().ok_or(Errno::EMSGSIZE)?;
        let (mut found, mut errno) = (None, 0);
        self.socket.exchange(&request, |message| {
            if message.sequence == sequence && message.kind == answer {
                found = read(message.body);
            } else if message.sequence == sequence && message.kind == ERROR {
                errno = message.errno();
            }
        })?;
        match errno {
            0 => Ok(found),
            errno if ABSENT.iter().any(|absent| *absent as i32 == errno) => Ok(None),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    fn carry_out(&mut self, kind: u16, flags: u16, body: impl FnOnce(&mut Writer)) -> io::Result<()> {
        let mut batch = Batch::new(&mut self.socket);
        batch.push(0, kind, flags, body);
        batch.finish().pop().map_or(Ok(()), |(_, error)| Err(error))
    }
}

fn redirects(filters: &[Filter]) -> impl Iterator<Item = &Redirect> {
    filters.iter().filter_map(|filter| match filter {
        Filter::Redirect(redirect) => Some(redirect),
        Filter::Other => None,
    })
}

fn is_of_limits(device: InterfaceName) -> bool {
    Shaper::is_device(device) || device.as_str().starts_with(PLUGIN_PREFIX)
}

fn forgiving(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if is(&error, &ABSENT) { Ok(()) } else { Err(error) })
}

/// What a kernel that lacks a part says with one error number.
fn lacking(
    error: io::Error,
    says: Errno,
    operation: &'static str,
    object: &str,
    feature: &str,
    module: &str,
) -> DataplaneError {
    if !is(&error, &[says]) {
        return kernel(operation, object)(error);
    }
    let feature = format!("{feature}, which the {object} needs");
    DataplaneError::Unsupported { feature, advice: format!("load or install the kernel's {module}") }
}

/// How messages call it.
fn name(shaper: &Shaper) -> String {
    match shaper.source {
        None => format!("limit on what {} receives", shaper.device),
        Some(source) => format!("limit on what {source} sends"),
    }
}
