//! Which words a kernel takes at which hooks: the memory refuses what the kernel refuses.

use calico_core::net::Family;
use calico_core::table::{
    BaseChain, Chain, ChainType, Delta, Field, FieldType, Hook, Match, Reject, Rule, SetDecl, SetKind, Statement,
    Verdict,
};
use calico_dataplane::Dataplane;
use calico_dataplane::recording::Ruleset;
use calico_dataplane::testing::sample::{chain_name, set_name};

use super::fixture::in_namespace;

fn words() -> Vec<Rule> {
    let key = |field| vec![field];
    let map = || set_name("map");
    let verdict = |verdict| Rule { verdict: Some(verdict), ..Rule::default() };
    let when = |condition| Rule { matches: vec![condition], ..Rule::default() };
    let doing = |statement| Rule { statements: vec![statement], ..Rule::default() };
    vec![
        verdict(Verdict::Accept),
        verdict(Verdict::Masquerade { ports: None, random: false }),
        verdict(Verdict::Snat { address: [192, 0, 2, 1].into(), ports: None, random: false }),
        verdict(Verdict::SnatLookup { key: key(Field::SrcAddr(Family::V4)), map: map() }),
        verdict(Verdict::DnatLookup { key: key(Field::DstAddr(Family::V4)), map: map() }),
        verdict(Verdict::Reject(Reject::PortUnreachable)),
        when(Match::Local { field: Field::DstAddr(Family::V4), negated: false }),
        when(Match::Translated { negated: false }),
        doing(Statement::NoTrack),
        doing(Statement::ConnectionsOver(3)),
        doing(Statement::SetDscp { family: Family::V6, value: 1 }),
    ]
}

/// What the memory refuses though this kernel does not: others do (refusal before routing: before Linux 5.9).
fn is_stricter(rule: &Rule, base: BaseChain) -> bool {
    matches!(rule.verdict, Some(Verdict::Reject(_))) && base.hook == Hook::Prerouting
}

#[test]
fn memory_and_kernel_refuse_the_same_words_at_the_same_hooks() {
    in_namespace(async |mut dataplane| {
        let hooks = [Hook::Prerouting, Hook::Input, Hook::Forward, Hook::Output, Hook::Postrouting];
        let map = SetDecl::new(set_name("map"), vec![FieldType::Addr(Family::V4)], SetKind::AddressMap(Family::V4));
        let (mut taken, mut refused) = (0, 0);
        for chain_type in [ChainType::Filter, ChainType::Nat, ChainType::Route] {
            for (hook, priority) in hooks.into_iter().flat_map(|hook| [(hook, -10), (hook, -250)]) {
                for rule in words() {
                    let base = BaseChain { chain_type, hook, priority };
                    let jump = Rule { verdict: Some(Verdict::Jump(chain_name("below"))), ..Rule::default() };
                    let delta = Delta {
                        sets_added: vec![map.clone()],
                        chains_set: vec![
                            Chain { name: chain_name("base"), base: Some(base), rules: vec![jump] },
                            Chain { name: chain_name("below"), base: None, rules: vec![rule.clone()] },
                        ],
                        ..Delta::default()
                    };
                    let report = dataplane.apply(&delta).await;
                    let kernel = report.is_complete();
                    let memory = Ruleset::default().apply(&delta).is_ok();
                    assert!(kernel == memory || is_stricter(&rule, base) && !memory, "{rule} at {base:?}: {report:?}");
                    if kernel {
                        taken += 1
                    } else {
                        refused += 1
                    }
                    let chains_removed = delta.chains_set.into_iter().map(|chain| chain.name).collect();
                    let removal = Delta { chains_removed, ..Delta::default() };
                    assert!(dataplane.apply(&removal).await.is_complete());
                }
            }
        }
        assert!(taken > 100 && refused > 100, "{taken} taken, {refused} refused");
    });
}
