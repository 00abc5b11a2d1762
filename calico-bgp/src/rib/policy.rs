//! Filters as core evaluates them, on paths as the RIB holds them.

use calico_core::bgp::{Community, FilterOperation, PRIORITY_SUM, RouteView, SessionKind};
use calico_core::net::{AsNumber, Cidr};

use super::intern::PathSet;
use crate::wire::{AsPath, PathAttributes, PeerType};

/// LOCAL_PREF of a path that carries none: BIRD's default, and everybody's.
pub(crate) const DEFAULT_LOCAL_PREF: u32 = 100;

pub(crate) fn local_pref(attributes: &PathAttributes) -> u32 {
    attributes.local_pref.unwrap_or(DEFAULT_LOCAL_PREF)
}

/// Metric of a path, as LOCAL_PREF says it.
pub(crate) fn priority(attributes: &PathAttributes) -> u32 {
    PRIORITY_SUM.saturating_sub(local_pref(attributes))
}

/// Large communities as numbers.
pub(crate) fn large_communities(set: &PathSet) -> Vec<[u32; 3]> {
    let number = |octets: &[u8; 12], at: usize| {
        octets.iter().skip(at).take(4).fold(0_u32, |number, octet| number << 8 | u32::from(*octet))
    };
    let all = &set.attributes.extra.large_communities;
    all.iter().map(|octets| [number(octets, 0), number(octets, 4), number(octets, 8)]).collect()
}

/// What filters look at.
pub(crate) fn view<'a>(
    prefix: Cidr,
    attributes: &'a PathAttributes,
    large: &'a [[u32; 3]],
    session: PeerType,
    learned: bool,
) -> RouteView<'a> {
    RouteView {
        prefix,
        learned,
        // Where a route leads is the kernel's knowledge.
        interface: None,
        session: match session {
            PeerType::Internal => SessionKind::Internal,
            PeerType::External => SessionKind::External,
        },
        communities: &attributes.communities,
        large_communities: large,
        as_path: attributes.as_path.systems(),
        local_pref: Some(local_pref(attributes)),
    }
}

/// Carries out what a rule says.
pub(crate) fn apply(operations: &[FilterOperation], attributes: &mut PathAttributes) {
    for operation in operations {
        match operation {
            FilterOperation::AddCommunity(community) => add_communities(&[*community], attributes),
            FilterOperation::Prepend(systems) => prepend(systems, attributes),
            FilterOperation::SetPriority(priority) => {
                attributes.local_pref = Some(PRIORITY_SUM.saturating_sub(*priority));
            }
        }
    }
}

/// Puts systems before the path, in the order in which they stand then.
pub(crate) fn prepend(systems: &[AsNumber], attributes: &mut PathAttributes) {
    attributes.as_path = systems.iter().chain(attributes.as_path.systems()).copied().collect::<AsPath>();
}

/// Adds those that are not there yet, in order.
pub(crate) fn add_communities(communities: &[Community], attributes: &mut PathAttributes) {
    for community in communities {
        match community {
            Community::Standard(number) if !attributes.communities.contains(number) => {
                attributes.communities.push(*number);
            }
            Community::Standard(_) => {}
            Community::Large(numbers) => {
                let [first, second, third] = numbers.map(u32::to_be_bytes);
                let mut octets = [0; 12];
                octets.iter_mut().zip([first, second, third].concat()).for_each(|(to, from)| *to = from);
                let large = &mut attributes.extra.make_mut().large_communities;
                if let Err(place) = large.binary_search(&octets) {
                    large.insert(place, octets);
                }
            }
        }
    }
}
