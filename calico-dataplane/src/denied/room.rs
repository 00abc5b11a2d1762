//! Which ended connections are watched where there are more than can be.
//!
//! In come those that are watched, newest first, and those that are ended now; out come those that there is no room for. Whoever has many
//! connections must not keep others' from being watched, whether theirs end with his, before or later: so each pair of addresses has
//! its turn, with its newest connection first.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use calico_core::flow::Flow;

/// Those of `former`, newest first, and of `first`, which end now, that are too many.
pub(super) fn too_many(first: &[Flow], former: &[Flow], most: usize) -> HashSet<Flow> {
    if first.len() + former.len() <= most {
        return HashSet::new();
    }
    let mut counts: HashMap<(IpAddr, IpAddr), usize> = HashMap::new();
    let mut seen = HashSet::new();
    let mut turns: Vec<(usize, Flow)> = Vec::new();
    for flow in first.iter().chain(former).filter(|flow| seen.insert(**flow)) {
        let count = counts.entry((flow.source, flow.destination)).or_default();
        turns.push((*count, *flow));
        *count += 1;
    }
    // Stable: within a turn, what is newer stays first.
    turns.sort_by_key(|(turn, _)| *turn);
    turns.into_iter().skip(most).map(|(_, flow)| flow).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(pair: u8, port: u16) -> Flow {
        let [source, destination] = [[10, 0, 0, pair], [10, 0, 1, pair]].map(IpAddr::from);
        Flow { protocol: 6, source, source_port: 80, destination, destination_port: port, icmp: None }
    }

    #[test]
    fn each_pair_has_its_turn_and_newer_ones_go_first() {
        let many: Vec<Flow> = (1..=6).map(|port| flow(1, port)).collect();
        let other = [flow(2, 1)];
        let gone = |first: &[Flow], former: &[Flow]| {
            let mut gone: Vec<_> = too_many(first, former, 4).into_iter().collect();
            gone.sort_by_key(|flow| (flow.source, flow.destination_port));
            gone
        };
        assert_eq!(gone(&many[..4], &[]), []);
        assert_eq!(gone(&many, &other), many[3..], "they do not put out another's");
        assert_eq!(gone(&other, &many), many[3..], "nor keep one out");
        let both: Vec<Flow> = many.iter().chain(&other).copied().collect();
        assert_eq!(gone(&both, &[]), many[3..], "nor one that ends with them");
        assert_eq!(gone(&many[3..], &many[..3]), many[1..3], "of one pair the newest stay");
        assert_eq!(gone(&many[..4], &many[..4]), [], "what ends again counts once");
    }
}
