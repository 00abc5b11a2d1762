//! Parts of sets, which exist while they have members.

use super::*;

/// A part of a set comes and goes together with the rules that look into it, however often the transaction is halved.
#[test]
fn parts_of_sets_come_and_go_though_transactions_are_refused() {
    for refusals in 0..=8 {
        let host = Recording::new();
        host.set_link(cali(1), up(1));
        let mut node = Node::in_sync(&host);
        node.events(&[set_added(0, &[1]), policy(0, &[0]), endpoint(1, &[0])]);
        node.settle();
        let without = host.ruleset();
        let change = |added: &[u8], removed: &[u8]| {
            let members = |numbers: &[u8]| numbers.iter().map(|number| member(*number)).collect();
            Event::SetChanged { id: set(0), added: members(added), removed: members(removed) }
        };
        for (change, prefixes) in [(change(&[2], &[]), 1), (change(&[], &[2]), 0)] {
            host.set_faults(Faults { transactions: refusals, ..Faults::default() });
            node.events(&[change]);
            node.settle();
            assert!(node.driver.state().is_settled(), "{refusals}: {:?}", node.failures());
            let ruleset = host.ruleset();
            let names = |name: &str| name.starts_with("nets4-");
            let sets = ruleset.sets().filter(|(decl, _)| names(decl.name.as_str())).count();
            let looked_into = ruleset.chains().flat_map(|chain| chain.set_references());
            let looked_into = looked_into.filter(|set| names(set.as_str())).count();
            assert_eq!((sets, looked_into), (prefixes, prefixes), "{refusals}:\n{ruleset}");
        }
        assert_eq!(host.ruleset(), without);
    }
}
