//! In which order resources are written and deleted, whatever the order of the documents: what others need stands when they come, and goes
//! after them. What is told of them keeps the order of the documents.

use calico_core::resource::Kind;

/// Places of resources of these kinds, in the order in which they are written.
pub(crate) fn of_writing(kinds: impl Iterator<Item = Kind>) -> Vec<usize> {
    let mut places: Vec<(bool, usize)> = kinds.map(|kind| !is_needed(kind)).zip(0..).collect();
    places.sort_unstable();
    places.into_iter().map(|(_, place)| place).collect()
}

/// The reverse, for deleting: what comes last is often part of what came first, and goes with that (endpoints with their node). Those of one
/// kind go as they come.
pub(crate) fn of_deleting(kinds: impl Iterator<Item = Kind>) -> Vec<usize> {
    let kinds: Vec<Kind> = kinds.collect();
    let mut places = of_writing(kinds.iter().copied());
    if kinds.windows(2).any(|pair| pair.first() != pair.last()) {
        places.reverse();
    }
    places
}

/// What was done in an order, by place.
pub(crate) fn by_place<T>(order: &[usize], done: Vec<T>) -> Vec<T> {
    let mut done: Vec<(usize, T)> = order.iter().copied().zip(done).collect();
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, done)| done).collect()
}

/// Whether the store refuses others without it, and to delete it before them: policies need their tier, and nothing else is asked for.
fn is_needed(kind: Kind) -> bool {
    kind == Kind::Tier
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_come_before_their_policies_and_go_after_them() {
        let kinds = [Kind::NetworkPolicy, Kind::Tier, Kind::IpPool, Kind::Tier];
        assert_eq!(of_writing(kinds.into_iter()), [1, 3, 0, 2]);
        assert_eq!(of_deleting(kinds.into_iter()), [2, 0, 3, 1]);
        assert_eq!(of_deleting([Kind::Tier; 3].into_iter()), [0, 1, 2]);
        assert_eq!(by_place(&[1, 3, 0, 2], vec!["b", "d", "a", "c"]), ["a", "b", "c", "d"]);
    }
}
