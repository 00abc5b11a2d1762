//! IP sets as kernel sets.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::names::{SetPart, kernel_set};
use crate::calc::event::{IpSetKind, Member, SetId};
use crate::net::Family;
use crate::table::{Datum, Element, ElementDelta, FieldType, SetDecl, SetKind, SetName};

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// The kernel sets of an IP set.
pub(super) fn declarations(id: SetId, kind: IpSetKind) -> Vec<SetDecl> {
    let declare = |family, part| {
        let addr = FieldType::Addr(family);
        let (key, kind) = match part {
            SetPart::Hosts => (vec![addr], SetKind::Hash),
            SetPart::Nets => (vec![addr], SetKind::Interval),
            SetPart::Ports => (vec![addr, FieldType::Proto, FieldType::Port], SetKind::Hash),
        };
        SetDecl::new(kernel_set(id, part, family), key, kind)
    };
    FAMILIES
        .into_iter()
        .flat_map(|family| match kind {
            IpSetKind::Net => vec![declare(family, SetPart::Hosts), declare(family, SetPart::Nets)],
            IpSetKind::AddrPort => vec![declare(family, SetPart::Ports)],
        })
        .collect()
}

/// A change of members as changes of elements, at most one for each kernel set.
pub(super) fn change_members(id: SetId, added: &[Member], removed: &[Member], mut change: impl FnMut(ElementDelta)) {
    for family in FAMILIES {
        for part in [SetPart::Hosts, SetPart::Nets, SetPart::Ports] {
            let pick = |members: &[Member]| -> Vec<Element> {
                members.iter().filter(|member| place(member) == (part, family)).map(element).collect()
            };
            let (added, removed) = (pick(added), pick(removed));
            if !added.is_empty() || !removed.is_empty() {
                change(ElementDelta { set: kernel_set(id, part, family), removed, added });
            }
        }
    }
}

/// Names of the kernel sets of an IP set.
pub(super) fn kernel_names(id: SetId, kind: IpSetKind) -> impl Iterator<Item = SetName> {
    declarations(id, kind).into_iter().map(|decl| decl.name)
}

fn place(member: &Member) -> (SetPart, Family) {
    match member {
        Member::Net(cidr) if cidr.is_host() => (SetPart::Hosts, cidr.family()),
        Member::Net(cidr) => (SetPart::Nets, cidr.family()),
        Member::AddrPort { address, .. } => (SetPart::Ports, Family::of(*address)),
    }
}

fn element(member: &Member) -> Element {
    let key: Box<[Datum]> = match member {
        Member::Net(cidr) if cidr.is_host() => Box::new([Datum::Addr(cidr.address())]),
        Member::Net(cidr) => Box::new([Datum::Net(*cidr)]),
        Member::AddrPort { address, protocol, port } => {
            Box::new([Datum::Addr(*address), Datum::Proto(*protocol), Datum::Port(*port)])
        }
    };
    Element { key, data: None }
}
