//! The encoder against the `nft` program: the same rules written by both into two tables, and both read back by `nft`.

use std::collections::{BTreeMap, BTreeSet};

use calico_core::table::{Match, Rule, Table};
use calico_dataplane::Dataplane;
#[cfg(feature = "nft-json")]
use calico_dataplane::export::{NftProgram, ProgramError};
use calico_dataplane::testing::sample;
use serde_json::Value;

use super::fixture::{in_namespace, nft, run};

const FAMILIES: [(Table, &str); 2] = [(Table::Inet, "inet"), (Table::Arp, "arp")];

/// The sample tables as `nft` text, under another name. The table language prints itself in that syntax.
fn reference() -> String {
    FAMILIES.map(|(table, family)| reference_table(table, family)).concat()
}

fn reference_table(table: Table, family: &str) -> String {
    let mut text = format!("table {family} reference {{\n");
    for (decl, elements) in sample::sets().into_iter().filter(|(decl, _)| decl.name.table() == table) {
        let elements: Vec<_> = elements.iter().map(ToString::to_string).collect();
        let decl = decl.to_string();
        let open = decl.trim_start_matches(table.prefix()).strip_suffix(" }").unwrap();
        text += &format!("{open} elements = {{ {} }}\n}}\n", elements.join(", "));
    }
    for chain in sample::chains().into_iter().filter(|chain| chain.name.table() == table) {
        text += &format!("{}\n", chain.to_string().trim_start_matches(table.prefix()));
    }
    // With a length, `nft` would make one range of neighbouring hosts.
    text.replace("/32", "") + "}\n"
}

/// What `nft` reads of a table: elements by set, and instructions by rule.
#[derive(Debug, Default)]
struct Listing {
    sets: BTreeMap<String, BTreeSet<String>>,
    rules: BTreeMap<String, Vec<Vec<String>>>,
}

fn list(family: &str, table: &str) -> Listing {
    let text = run("nft", &format!("--debug=netlink list table {family} {table}"));
    let header = format!("{family} {table} ");
    let mut listing = Listing::default();
    let mut set = String::new();
    let mut chain = String::new();
    // Behind the instructions comes the table in the usual form.
    for line in text.lines().take_while(|line| !line.starts_with("table")) {
        if let Some(name) = line.strip_prefix(&format!("{header}@")) {
            set = name.to_owned();
            listing.sets.entry(set.clone()).or_default();
        } else if let Some(element) = line.strip_prefix("\telement ") {
            let element = element.split("userdata").next().unwrap().trim().to_owned();
            // `nft` opens interval sets with an end at zero, for kernels older than ours.
            let zero = |key: &str| key.chars().all(|digit| matches!(digit, '0' | ' '));
            let opening = element.strip_suffix(": 1 [end]").is_some_and(zero);
            if !opening {
                listing.sets.get_mut(&set).unwrap().insert(element);
            }
        } else if let Some(rest) = line.strip_prefix(&header) {
            chain = rest.split(' ').next().unwrap().to_owned();
            listing.rules.entry(chain.clone()).or_default().push(Vec::new());
        } else if let Some(instruction) = line.strip_prefix("  [ ") {
            let instruction = resolved(instruction.trim_end_matches(" ]"), &listing.sets);
            listing.rules.get_mut(&chain).unwrap().last_mut().unwrap().push(instruction);
        }
    }
    listing.sets.retain(|name, _| !is_anonymous(name));
    listing
}

fn is_anonymous(set: &str) -> bool {
    set.starts_with("__set") || set.starts_with("__map")
}

/// Writes the elements of a set without a name in place of its number.
fn resolved(instruction: &str, sets: &BTreeMap<String, BTreeSet<String>>) -> String {
    let words = instruction.split(' ').map(|word| match sets.get(word) {
        Some(elements) if is_anonymous(word) => format!("{elements:?}"),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// `nft` looks up a negated pair of type and code in a set of one; we compare both at once.
fn is_written_otherwise(rule: &Rule) -> bool {
    let pair = |one: &Match| matches!(one, Match::Icmp { code: Some(_), negated: true, .. });
    rule.matches.iter().any(pair)
}

#[test]
fn nft_writes_the_same_instructions() {
    in_namespace(async |mut dataplane| {
        assert!(dataplane.apply(&sample::delta()).await.is_complete());
        nft(&reference());
        let listings =
            FAMILIES.map(|(table, family)| (table, list(family, "calico-dataplane"), list(family, "reference")));
        for (table, ours, theirs) in &listings {
            assert_eq!(ours.sets, theirs.sets);
            let wanted = sample::sets().iter().filter(|(decl, _)| decl.name.table() == *table).count();
            assert!(ours.sets.len() == wanted && ours.sets.values().all(|elements| !elements.is_empty()));
        }
        let mut compared = 0;
        for chain in sample::chains() {
            let empty = Vec::new();
            let of = |listing: &'_ Listing| listing.rules.get(chain.name.as_str()).unwrap_or(&empty).clone();
            let (_, ours, theirs) = listings.iter().find(|(table, ..)| *table == chain.name.table()).unwrap();
            let (ours, theirs) = (of(ours), of(theirs));
            assert_eq!((ours.len(), theirs.len()), (chain.rules.len(), chain.rules.len()), "chain {}", chain.name);
            for ((rule, ours), theirs) in chain.rules.iter().zip(ours).zip(theirs) {
                assert!(!ours.is_empty());
                if !is_written_otherwise(rule) {
                    assert_eq!(ours, theirs, "{rule}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 70, "{compared} rules compared");
    });
}

/// Everything in the JSON listing of a table but its name, the handles, the order of what has none, and the rules of
/// [`is_written_otherwise`] with their like.
fn json(table: &str) -> BTreeSet<String> {
    FAMILIES.into_iter().flat_map(|(_, family)| json_of(family, table)).collect()
}

fn json_of(family: &str, table: &str) -> BTreeSet<String> {
    let text = run("nft", &format!("-j list table {family} {table}"));
    let listing: Value = serde_json::from_str(&text).unwrap();
    let objects = listing.get("nftables").and_then(Value::as_array).unwrap();
    let mut place = 0;
    let plain = |object: &Value| {
        let (kind, mut body) =
            object.as_object().unwrap().iter().next().map(|(kind, body)| (kind, body.clone())).unwrap();
        let fields = body.as_object_mut().unwrap();
        fields.retain(|name, _| !matches!(name.as_str(), "handle" | "table"));
        if let Some(elements) = fields.get_mut("elem").and_then(Value::as_array_mut) {
            elements.sort_by_key(Value::to_string);
        }
        if kind == "rule" {
            // The order of rules matters.
            fields.insert("place".into(), place.into());
            place += 1;
        }
        (kind.clone(), body)
    };
    let described = objects.iter().map(plain).filter(|(kind, _)| !matches!(kind.as_str(), "metainfo" | "table"));
    described.map(|(kind, body)| format!("{kind} {body}")).filter(|text| !text.contains("icmp")).collect()
}

#[test]
fn nft_lists_both_tables_alike() {
    in_namespace(async |mut dataplane| {
        assert!(dataplane.apply(&sample::delta()).await.is_complete());
        nft(&reference());
        let (ours, theirs) = (json("calico-dataplane"), json("reference"));
        assert!(ours.iter().any(|object| object.contains("the last one")), "comments are listed");
        let both: Vec<_> = ours.symmetric_difference(&theirs).collect();
        assert!(both.is_empty(), "{both:#?}");
        assert!(ours.len() > 70, "{} objects compared", ours.len());
        // And what it lists it can load again.
        for (_, family) in FAMILIES {
            let listing = run("nft", &format!("list table {family} calico-dataplane"));
            run("nft", &format!("delete table {family} calico-dataplane"));
            nft(&listing);
        }
        let again = json("calico-dataplane");
        let both: Vec<_> = again.symmetric_difference(&theirs).collect();
        assert!(both.is_empty(), "{both:#?}");
    });
}

/// Both encoders over programs that nobody thought of: `nft` lists what either wrote alike, and what it cannot tell apart has the same
/// instructions.
#[cfg(feature = "nft-json")]
#[test]
fn both_encoders_write_any_program_alike() {
    in_namespace(async |mut dataplane| {
        let mut compared = 0;
        for seed in 0..12 {
            let delta = super::programs::program(seed);
            NftProgram::default().apply(&delta).unwrap();
            let theirs = (json("calico-dataplane"), instructions());
            for (_, family) in FAMILIES {
                run("nft", &format!("delete table {family} calico-dataplane"));
            }
            let report = dataplane.apply(&delta).await;
            assert!(report.is_complete(), "seed {seed}: {report:?}");
            let ours = (json("calico-dataplane"), instructions());
            let both: Vec<_> = ours.0.symmetric_difference(&theirs.0).collect();
            assert!(both.is_empty(), "seed {seed}: {both:#?}");
            assert!(ours.0.len() > 100, "seed {seed}: {} objects compared", ours.0.len());
            let rules = delta.chains_set.iter().flat_map(|chain| &chain.rules);
            for ((rule, ours), theirs) in rules.zip(ours.1).zip(theirs.1).filter(|((rule, _), _)| !is_merged(rule)) {
                assert!(!ours.is_empty());
                assert_eq!(ours, theirs, "seed {seed}: {rule}");
                compared += 1;
            }
        }
        assert!(compared > 1500, "instructions of {compared} rules compared");
    });
}

/// Instructions of every rule, in the order of the chains' making.
#[cfg(feature = "nft-json")]
fn instructions() -> Vec<Vec<String>> {
    let delta = super::programs::chains();
    let listings = FAMILIES.map(|(table, family)| (table, list(family, "calico-dataplane")));
    let of = |(table, name): &(Table, &str)| {
        let (_, listing) = listings.iter().find(|(found, _)| found == table).unwrap();
        listing.rules.get(*name).cloned().unwrap_or_default()
    };
    delta.iter().flat_map(of).collect()
}

/// `nft` loads neighbouring fields at once where both are compared with one value.
#[cfg(feature = "nft-json")]
fn is_merged(rule: &Rule) -> bool {
    let single = |one: &&Match| {
        matches!(
            one,
            Match::Equal { negated: false, .. }
                | Match::InCidr { negated: false, .. }
                | Match::InPorts { .. }
                | Match::Icmp { .. }
        )
    };
    rule.matches.iter().filter(single).count() > 1
}

#[cfg(feature = "nft-json")]
#[test]
fn nft_carries_out_the_export_to_the_same_table() {
    in_namespace(async |mut dataplane| {
        let program = NftProgram::default();
        program.check(&sample::delta()).unwrap();
        assert!(!dataplane.observe().await.unwrap().table_present, "a question changes nothing");
        program.apply(&sample::delta()).unwrap();
        let theirs = json("calico-dataplane");
        for (_, family) in FAMILIES {
            run("nft", &format!("delete table {family} calico-dataplane"));
        }
        assert!(dataplane.apply(&sample::delta()).await.is_complete());
        let ours = json("calico-dataplane");
        let both: Vec<_> = ours.symmetric_difference(&theirs).collect();
        assert!(both.is_empty(), "{both:#?}");
        program.apply(&sample::removal()).unwrap();
        let observed = dataplane.observe().await.unwrap();
        assert!(observed.chains.is_empty() && observed.sets.is_empty());
        // What is not there cannot be removed: it says so, and so does who cannot be asked.
        for refused in [program.check(&sample::removal()), program.apply(&sample::removal())] {
            assert!(
                matches!(&refused, Err(ProgramError::Refused { message }) if message.contains("No such file")),
                "{refused:?}"
            );
        }
        let nobody = NftProgram::new("/nonexistent/nft").apply(&sample::delta());
        assert!(matches!(nobody, Err(ProgramError::Run { .. })), "{nobody:?}");
    });
}
