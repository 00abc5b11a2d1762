//! A delta in the JSON that the `nft` program takes: for dry runs, for people with `nft` at hand, and as a second opinion.
//!
//! Pure, but for [`NftProgram`]. What comes out, `nft -j -f` carries out to the same table as the Linux backend does, save for the marks by which that knows
//! its own chains again. `nft` forgives no absence, so that removals suit a host that holds what is removed.

mod effect;
mod expression;
mod guard;
mod program;

use std::collections::{BTreeSet, HashSet};

use calico_core::net::Family;
use calico_core::table::{
    BaseChain, Chain, ChainName, ChainType, Delta, Element, FieldType, Hook, Rule, RuleError, SetDecl, SetKind,
    SetName, Table,
};
use nftables::schema::{self, FlushObject, NfCmd, NfListObject, NfObject, Nftables, SetFlag, SetType, SetTypeValue};
use nftables::types::{NfChainPolicy, NfChainType, NfFamily, NfHook};
use serde_json::{Value, json};

use guard::Guards;
pub use program::{NftProgram, ProgramError};

const TABLE: &str = "calico-dataplane";

const fn family(table: Table) -> NfFamily {
    match table {
        Table::Arp => NfFamily::ARP,
        _ => NfFamily::INet,
    }
}

/// Why a delta cannot be said in that form.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// A rule says what no kernel can do.
    #[error("rule {index} of {}chain {chain} cannot be written", chain.table().prefix())]
    Rule {
        /// Its chain.
        chain: ChainName,
        /// Its place there, from zero.
        index: usize,
        /// What is wrong.
        #[source]
        source: RuleError,
    },
    /// A word that is not known here.
    #[error("{object} cannot be written: there is no form for {word}")]
    Unknown {
        /// Where it stands.
        object: String,
        /// The word, as text.
        word: String,
    },
    /// The document cannot be made.
    #[error("the export is no JSON")]
    Json(#[from] serde_json::Error),
}

/// The nf_tables part of a delta as `nft` commands, in an order that can be carried out.
///
/// ```
/// use calico_core::table::Delta;
///
/// let nothing = calico_dataplane::export::to_nft_json(&Delta::default())?;
/// assert_eq!(nothing.to_string(), r#"{"nftables":[{"add":{"table":{"family":"inet","name":"calico-dataplane"}}}]}"#);
/// # Ok::<(), calico_dataplane::export::ExportError>(())
/// ```
///
/// # Errors
/// What cannot be said; nothing is left out.
pub fn to_nft_json(delta: &Delta) -> Result<Value, ExportError> {
    let objects = commands(delta)?.into_iter().map(NfObject::CmdObject).collect();
    let mut document = serde_json::to_value(Nftables { objects })?;
    let commands = document.get_mut("nftables").and_then(Value::as_array_mut).into_iter().flatten();
    commands.filter_map(Value::as_object_mut).flat_map(|command| command.values_mut()).for_each(mend);
    Ok(document)
}

/// What the typed schema says otherwise than `nft` reads it: it has no name for the values of a verdict map (an empty concatenation
/// stands for them), and writes verdicts and statements
/// without operands as texts.
fn mend(object: &mut Value) {
    if let Some(map) = object.get_mut("map").and_then(|map| map.get_mut("map")).filter(|map| map.is_array()) {
        *map = "verdict".into();
    }
    let elements = object.get_mut("element").and_then(|element| element.get_mut("elem")?.as_array_mut());
    let verdicts = elements.into_iter().flatten().filter_map(|element| element.as_array_mut()?.get_mut(1));
    let plain = |data: &&mut Value| matches!(data.as_str(), Some("accept" | "drop" | "return"));
    verdicts.filter(plain).for_each(spell_out);
    let words = object.get_mut("rule").and_then(|rule| rule.get_mut("expr")?.as_array_mut());
    for word in words.into_iter().flatten() {
        let listed = word.get_mut("vmap").and_then(|map| map.get_mut("data")?.get_mut("set")?.as_array_mut());
        listed.into_iter().flatten().filter_map(|item| item.as_array_mut()?.get_mut(1)).for_each(spell_out);
        spell_out(word);
    }
}

fn spell_out(word: &mut Value) {
    if let Some(name) = word.as_str().map(str::to_owned) {
        *word = json!({ name: null });
    }
}

fn commands(delta: &Delta) -> Result<Vec<NfCmd<'static>>, ExportError> {
    let chains = delta.chains_set.iter().map(|chain| &chain.name).chain(&delta.chains_removed);
    let sets = delta.sets_added.iter().map(|decl| &decl.name).chain(&delta.sets_removed);
    let tables = chains.map(ChainName::table).chain(sets.map(SetName::table)).chain([Table::Inet]);
    let table = |table| schema::Table { family: family(table), name: TABLE.into(), handle: None };
    let tables: BTreeSet<_> = tables.collect();
    let mut commands: Vec<_> = tables.into_iter().map(|one| NfCmd::Add(NfListObject::Table(table(one)))).collect();
    for chain in &delta.chains_set {
        commands.push(NfCmd::Add(NfListObject::Chain(chain_object(&chain.name, chain.base))));
        commands.push(NfCmd::Flush(FlushObject::Chain(chain_object(&chain.name, None))));
    }
    // Emptied first, so that none refers to another, or to a set, when it goes.
    let emptied = delta.chains_removed.iter().map(|name| chain_object(name, None));
    commands.extend(emptied.map(|chain| NfCmd::Flush(FlushObject::Chain(chain))));
    commands.extend(delta.sets_added.iter().map(|decl| NfCmd::Add(set_object(decl))));
    for change in &delta.elements {
        if !change.removed.is_empty() {
            commands.push(NfCmd::Delete(elements_object(&change.set, &change.removed)?));
        }
        if !change.added.is_empty() {
            commands.push(NfCmd::Add(elements_object(&change.set, &change.added)?));
        }
    }
    for chain in &delta.chains_set {
        for (index, rule) in chain.rules.iter().enumerate() {
            commands.push(NfCmd::Add(NfListObject::Rule(rule_object(chain, index, rule)?)));
        }
    }
    let removed = delta.chains_removed.iter().map(|name| chain_object(name, None));
    commands.extend(removed.map(|chain| NfCmd::Delete(NfListObject::Chain(chain))));
    let removed = delta.sets_removed.iter().map(|name| schema::Set {
        family: family(name.table()),
        table: TABLE.into(),
        name: name.to_string().into(),
        ..schema::Set::default()
    });
    commands.extend(removed.map(|set| NfCmd::Delete(NfListObject::Set(Box::new(set)))));
    Ok(commands)
}

fn elements_object(set: &SetName, elements: &[Element]) -> Result<NfListObject<'static>, ExportError> {
    let written = |element: &Element| {
        expression::element(element).ok_or_else(|| ExportError::Unknown {
            object: format!("an element of {}set {set}", set.table().prefix()),
            word: element.to_string(),
        })
    };
    let elem = elements.iter().map(written).collect::<Result<Vec<_>, _>>()?;
    let name = set.to_string().into();
    Ok(NfListObject::Element(schema::Element {
        family: family(set.table()),
        table: TABLE.into(),
        name,
        elem: elem.into(),
    }))
}

fn chain_object(name: &ChainName, base: Option<BaseChain>) -> schema::Chain<'static> {
    let (family, name) = (family(name.table()), name.to_string().into());
    let chain = schema::Chain { family, table: TABLE.into(), name, ..schema::Chain::default() };
    let Some(base) = base else { return chain };
    let chain_type = match base.chain_type {
        ChainType::Nat => NfChainType::NAT,
        ChainType::Route => NfChainType::Route,
        _ => NfChainType::Filter,
    };
    let hook = match base.hook {
        Hook::Prerouting => NfHook::Prerouting,
        Hook::Input => NfHook::Input,
        Hook::Output => NfHook::Output,
        Hook::Postrouting => NfHook::Postrouting,
        _ => NfHook::Forward,
    };
    schema::Chain {
        _type: Some(chain_type),
        hook: Some(hook),
        prio: Some(base.priority),
        policy: Some(NfChainPolicy::Accept),
        ..chain
    }
}

fn set_object(decl: &SetDecl) -> NfListObject<'static> {
    let types: Vec<_> = decl.key.iter().map(|part| set_type(*part)).collect();
    let key = match types.as_slice() {
        [only] => SetTypeValue::Single(*only),
        _ => SetTypeValue::Concatenated(types.into()),
    };
    let (family, table, name) = (family(decl.name.table()), TABLE.into(), decl.name.to_string().into());
    let map = match decl.kind {
        SetKind::VerdictMap => Some(SetTypeValue::Concatenated(Default::default())),
        SetKind::AddressMap(family) => Some(SetTypeValue::Single(set_type(FieldType::Addr(family)))),
        _ => None,
    };
    if let Some(map) = map {
        let map = schema::Map { family, table, name, set_type: key, map, ..schema::Map::default() };
        return NfListObject::Map(Box::new(map));
    }
    let flags = (decl.kind == SetKind::Interval).then(|| HashSet::from([SetFlag::Interval]));
    NfListObject::Set(Box::new(schema::Set { family, table, name, set_type: key, flags, ..schema::Set::default() }))
}

const fn set_type(part: FieldType) -> SetType {
    match part {
        FieldType::Addr(Family::V4) => SetType::Ipv4Addr,
        FieldType::Addr(Family::V6) => SetType::Ipv6Addr,
        FieldType::Port => SetType::InetService,
        FieldType::Interface => SetType::Ifname,
        _ => SetType::InetProto,
    }
}

fn rule_object(chain: &Chain, index: usize, rule: &Rule) -> Result<schema::Rule<'static>, ExportError> {
    rule.check(chain.name.table()).map_err(|source| ExportError::Rule { chain: chain.name.clone(), index, source })?;
    let unknown = |word: &dyn ToString| ExportError::Unknown {
        object: format!("rule {index} of {}chain {}", chain.name.table().prefix(), chain.name),
        word: word.to_string(),
    };
    let mut expr = Vec::new();
    let mut guards = Guards::new(rule);
    for condition in &rule.matches {
        if guards.implies(condition) {
            continue;
        }
        expr.extend(guards.before(condition));
        expr.push(expression::condition(condition).ok_or_else(|| unknown(condition))?);
    }
    for statement in &rule.statements {
        expr.push(effect::statement(statement).ok_or_else(|| unknown(statement))?);
    }
    if let Some(verdict) = &rule.verdict {
        expr.extend(guards.before_verdict(verdict));
        expr.push(effect::verdict(verdict).ok_or_else(|| unknown(verdict))?);
    }
    Ok(schema::Rule {
        family: family(chain.name.table()),
        table: TABLE.into(),
        chain: chain.name.to_string().into(),
        expr: expr.into(),
        comment: rule.comment.clone().map(Into::into),
        ..schema::Rule::default()
    })
}
