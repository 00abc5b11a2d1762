//! Broken renderers: each breaks one sentence of the contract, and the suite must say which.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use calico_core::calc::Abilities;
use calico_core::calc::event::{ActiveEndpoint, ActiveRules, EndpointId, Event, PolicyId, Stack};
use calico_core::flow::Flow;
use calico_core::net::{Failsafes, InterfaceName};
use calico_core::render::{EndpointToHost, PolicyRenderer, RenderConfig, Renderer, ServiceLoops, TO_WORKLOAD};
use calico_core::resource::{Action, Kind, ResourceKey};
use calico_core::table::{
    BaseChain, Chain, ChainName, ChainType, CtState, Datum, Delta, Element, ElementDelta, Hook, Match, Route,
    RouteClass, RouteKey, RouteTableId, RouteTarget, Rule, SetName, Verdict,
};

use super::*;

/// The standard renderer but for what is done to what goes in and comes out.
struct Broken<T> {
    inner: Renderer,
    skeleton: fn(&T, &mut Delta),
    event: fn(&mut T, &Event) -> Option<Event>,
    /// Sees all that was gathered.
    delta: fn(&mut T, &Event, &mut Delta),
    bar: fn(&mut Delta),
    /// Whether each event gets a delta of its own, appended to what was gathered.
    appends: bool,
    memory: T,
}

impl<T> PolicyRenderer for Broken<T> {
    fn skeleton(&self) -> Delta {
        let mut skeleton = self.inner.skeleton();
        (self.skeleton)(&self.memory, &mut skeleton);
        skeleton
    }

    fn handle(&mut self, event: &Event, delta: &mut Delta) {
        let Some(event) = (self.event)(&mut self.memory, event) else { return };
        if self.appends {
            let mut own = Delta::default();
            self.inner.handle(&event, &mut own);
            append(delta, own);
        } else {
            self.inner.handle(&event, delta);
        }
        (self.delta)(&mut self.memory, &event, delta);
    }

    fn bar(&mut self, ended: &[Flow], over: &[Flow], delta: &mut Delta) {
        self.inner.bar(ended, over, delta);
        (self.bar)(delta);
    }

    fn abilities(&self) -> Abilities {
        self.inner.abilities()
    }
}

fn append(delta: &mut Delta, own: Delta) {
    delta.sets_added.extend(own.sets_added);
    delta.chains_set.extend(own.chains_set);
    delta.elements.extend(own.elements);
    delta.chains_removed.extend(own.chains_removed);
    delta.sets_removed.extend(own.sets_removed);
    delta.routes_set.extend(own.routes_set);
    delta.routes_removed.extend(own.routes_removed);
    delta.neighbors_set.extend(own.neighbors_set);
    delta.neighbors_removed.extend(own.neighbors_removed);
    delta.settings.extend(own.settings);
    delta.settings_dropped.extend(own.settings_dropped);
    delta.shapings_set.extend(own.shapings_set);
    delta.shapings_removed.extend(own.shapings_removed);
}

fn sound<T: Default>() -> Broken<T> {
    sound_with(RenderConfig::default())
}

fn sound_with<T: Default>(config: RenderConfig) -> Broken<T> {
    Broken {
        inner: Renderer::new(config),
        skeleton: |_, _| {},
        event: |_, event| Some(event.clone()),
        delta: |_, _, _| {},
        bar: |_| {},
        appends: false,
        memory: T::default(),
    }
}

fn run<T: 'static>(make: fn() -> Broken<T>, seeds: Range<u64>) {
    suite(&Subject {
        make: &|| Box::new(make()),
        settings: Settings::default(),
        failsafes: Failsafes::default(),
        seeds,
    });
}

#[test]
fn what_bars_ended_connections() {
    breaks::<()>("of an ended connection that is dropped which does not begin it", || Broken {
        bar: |delta| delta.elements.truncate(1),
        ..sound()
    });
    breaks::<()>("what is over, and that alone, is dropped no more", || Broken {
        bar: |delta| delta.elements.iter_mut().for_each(|change| change.removed.clear()),
        ..sound()
    });
    run(|| Broken::<()> { bar: |delta| *delta = Delta::default(), ..sound() }, 0..8);
}

/// The suite must fail, and say so in these words.
fn breaks<T: 'static>(sentence: &str, make: fn() -> Broken<T>) {
    fails(sentence, || run(make, 0..20));
}

fn fails(sentence: &str, run: impl FnOnce()) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(run)) else {
        panic!("nobody noticed: {sentence}");
    };
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default();
    assert!(text.contains(sentence), "{sentence:?} is not what was said:\n{text}");
}

#[test]
fn the_wrapper_itself_breaks_nothing() {
    run(sound::<()>, 0..8);
}

#[test]
fn a_suite_without_stories_proves_nothing() {
    fails("too few seeds", || run(sound::<()>, 0..0));
}

#[test]
fn skeletons() {
    breaks::<()>("an unknown workload interface is cut off", || Broken {
        skeleton: |(), delta| *delta = Delta::default(),
        ..sound()
    });
    breaks::<()>("the skeleton goes into an empty table", || Broken {
        skeleton: |(), delta| delta.sets_added.clear(),
        ..sound()
    });
    breaks::<()>("it removes what is not there: chain", || Broken {
        skeleton: |(), delta| delta.chains_removed.push(name("old")),
        ..sound()
    });
    breaks::<()>("traffic that is no workload's is left alone", || Broken {
        skeleton: |(), delta| delta.chains_set.push(at_forward(vec![Match::CtState(CtState::INVALID)], Verdict::Drop)),
        ..sound()
    });
    breaks::<usize>("the skeleton stays the same", || Broken {
        skeleton: |events, delta| delta.chains_set.truncate(if *events > 0 { 1 } else { 99 }),
        delta: |events, _, _| *events += 1,
        ..sound()
    });
}

#[test]
fn decisions() {
    breaks::<()>("the specification decides: Deny, not Allow", || Broken {
        event: |(), event| Some(without_denials(event)),
        ..sound()
    });
    breaks::<()>("the specification decides", || Broken { event: |(), event| Some(swapped(event)), ..sound() });
    breaks::<()>("the specification decides: Allow, not Deny", || {
        sound_with(RenderConfig { failsafes: Failsafes::NONE, ..RenderConfig::default() })
    });
    breaks::<()>("the specification decides", || Broken { event: |(), event| Some(enforced(event)), ..sound() });
    breaks::<()>("the specification decides: Deny, not Allow", || Broken {
        event: |(), event| (!matches!(event, Event::HostEndpointSet { .. })).then(|| event.clone()),
        ..sound()
    });
    // What one policy accepted, another one is asked about once more.
    breaks::<()>("the specification decides: Allow, not Deny", || Broken {
        delta: |(), _, delta| {
            for chain in &mut delta.chains_set {
                let asks_again = matches!(chain.name.as_str(), "host-in" | "forward-host-in");
                chain.rules.retain(|rule| !(asks_again && matches!(rule.matches[..], [Match::Mark { .. }])));
            }
        },
        ..sound()
    });
    breaks::<()>("from an interface to another the specification decides: Deny, not Allow", || {
        sound_with(RenderConfig { service_loops: ServiceLoops::Allow, ..RenderConfig::default() })
    });
    breaks::<()>("from an endpoint to its host", || {
        sound_with(RenderConfig { endpoint_to_host: EndpointToHost::Return, ..RenderConfig::default() })
    });
    // Established connections before the source is looked at.
    breaks::<()>("an established connection goes on if its source may", || Broken {
        skeleton: |(), delta| {
            let rule = accept(vec![Match::CtState(CtState::ESTABLISHED)]);
            let from = delta.chains_set.iter_mut().find(|chain| chain.name.as_str() == "from-workload");
            from.unwrap().rules.insert(0, rule);
        },
        ..sound()
    });
    breaks::<()>("an established connection goes on", || Broken {
        skeleton: |(), delta| {
            let to = delta.chains_set.iter_mut().find(|chain| chain.name.as_str() == "to-workload");
            to.unwrap().rules.remove(0);
        },
        ..sound()
    });
    // The mark of strangers taken for one of ours.
    breaks::<()>("the specification decides: Deny, not Allow", || Broken {
        skeleton: |(), delta| {
            let mark = Match::Mark { mask: 3, value: 3, negated: false };
            let to = delta.chains_set.iter_mut().find(|chain| chain.name.as_str() == "workload-egress");
            to.unwrap().rules.insert(0, accept(vec![mark]));
        },
        ..sound()
    });
}

#[test]
fn routes() {
    breaks::<()>("has no route to its workload", || Broken {
        delta: |(), _, delta| {
            delta.routes_set.clear();
            delta.routes_removed.clear();
        },
        ..sound()
    });
    breaks::<()>("which has no such workload", || Broken {
        event: |(), event| (!matches!(event, Event::EndpointRemoved(_))).then(|| event.clone()),
        ..sound()
    });
    breaks::<()>("an endpoint on eth1 gets nothing", || Broken {
        delta: |(), event, delta| match event {
            Event::EndpointSet { endpoint, .. } if endpoint.interface.as_str() == "eth1" => {
                let target = RouteTarget::Interface(endpoint.interface);
                delta.routes_set.push(Route { key: elsewhere(), target, class: RouteClass::LocalWorkload });
            }
            _ => {}
        },
        ..sound()
    });
    // An endpoint that goes takes the interface from whoever has it by now.
    breaks::<Vec<(EndpointId, InterfaceName)>>("the desired state depends on what is active", || Broken {
        event: |known, event| match event {
            Event::EndpointSet { id, endpoint } => {
                known.push((id.clone(), endpoint.interface));
                Some(event.clone())
            }
            Event::EndpointRemoved(id) => {
                let (_, interface) = known.iter().rev().find(|(other, _)| other == id)?;
                let (holder, _) = known.iter().rev().find(|(_, other)| other == interface)?;
                Some(Event::EndpointRemoved(holder.clone()))
            }
            _ => Some(event.clone()),
        },
        ..sound()
    });
}

#[test]
fn bandwidth() {
    breaks::<()>("is limited as no endpoint asks", || Broken {
        delta: |(), _, delta| {
            delta.shapings_set.clear();
            delta.shapings_removed.clear();
        },
        ..sound()
    });
    // Directions taken for each other.
    breaks::<()>("is limited as no endpoint asks", || Broken {
        event: |(), event| match event {
            Event::EndpointSet { id, endpoint } => {
                let mut endpoint = (**endpoint).clone();
                if let Some(controls) = endpoint.qos.as_mut().map(Arc::make_mut) {
                    std::mem::swap(&mut controls.ingress_bandwidth, &mut controls.egress_bandwidth);
                }
                Some(Event::EndpointSet { id: id.clone(), endpoint: Arc::new(endpoint) })
            }
            other => Some(other.clone()),
        },
        ..sound()
    });
}

#[test]
fn state() {
    // Sets that nobody refers to any more.
    breaks::<()>("depends on what is active, and on nothing before", || Broken {
        event: |(), event| (!matches!(event, Event::SetRemoved(_))).then(|| event.clone()),
        ..sound()
    });
    // Names, or here comments, by order of arrival.
    breaks::<usize>("depends on what is active, and on nothing before", || Broken {
        delta: |count, _, delta| {
            *count += 1;
            for rule in delta.chains_set.iter_mut().flat_map(|chain| &mut chain.rules) {
                rule.comment.get_or_insert_with(|| format!("event {count}"));
            }
        },
        ..sound()
    });
    // Everything goes but what the last endpoint wanted, at the end or where all workloads are gone for a while.
    breaks::<BTreeSet<EndpointId>>("what differs is\n- setting", || Broken {
        delta: |known, event, delta| match event {
            Event::EndpointSet { id, .. } => drop(known.insert(id.clone())),
            Event::EndpointRemoved(id) if known.remove(id) && known.is_empty() => drop(delta.settings_dropped.pop()),
            _ => {}
        },
        ..sound()
    });
    // Rules that are set once more are appended.
    breaks::<BTreeMap<PolicyId, Arc<ActiveRules>>>("a value told again changes nothing", || Broken {
        delta: |known, event, delta| {
            let Event::PolicySet { id, rules } = event else { return };
            if known.insert(id.clone(), rules.clone()).is_some_and(|before| before == *rules) {
                delta.chains_set.iter_mut().for_each(|chain| chain.rules.extend(chain.rules.clone()));
            }
        },
        ..sound()
    });
}

#[test]
fn changes() {
    breaks::<()>("a kernel refuses it", || Broken {
        delta: |(), event, delta| {
            let Event::EndpointSet { .. } = event else { return };
            let key = [Datum::Interface("cali77".parse().unwrap())];
            let element = Element::verdict(key, Verdict::Goto(name("nowhere")));
            let set = SetName::new(TO_WORKLOAD).unwrap();
            delta.elements.push(ElementDelta { set, removed: vec![], added: vec![element] });
        },
        ..sound()
    });
    // Sets that come with the endpoint only are too late for the policies.
    breaks::<Vec<Event>>("a kernel refuses it", || Broken {
        event: |held, event| match event {
            Event::SetAdded { .. } => {
                held.push(event.clone());
                None
            }
            _ => Some(event.clone()),
        },
        ..sound()
    });
    breaks::<()>("it removes what is not there: route", || Broken {
        delta: |(), event, delta| {
            let Event::EndpointSet { .. } = event else { return };
            delta.routes_removed.push(elsewhere());
        },
        ..sound()
    });
    breaks::<()>("it removes what is not there: element", || Broken {
        event: |(), event| match event {
            Event::SetChanged { id, added, removed } => Some(Event::SetChanged {
                id: *id,
                added: added.clone(),
                removed: removed.iter().chain(removed).copied().collect(),
            }),
            _ => Some(event.clone()),
        },
        ..sound()
    });
    breaks::<()>("events gathered in one delta", || Broken { appends: true, ..sound() });
}

fn without_denials(event: &Event) -> Event {
    match event {
        Event::PolicySet { id, rules } => {
            let mut rules = ActiveRules::clone(rules);
            rules.ingress.retain(|rule| rule.action != Action::Deny);
            rules.egress.retain(|rule| rule.action != Action::Deny);
            Event::PolicySet { id: id.clone(), rules: Arc::new(rules) }
        }
        _ => event.clone(),
    }
}

/// Staged policies as if they were not.
fn enforced(event: &Event) -> Event {
    let id = |id: &PolicyId| {
        let name = id.0.to_string().to_lowercase().replace(|c: char| !c.is_alphanumeric(), "-");
        if id.is_staged() { PolicyId(ResourceKey::cluster(Kind::GlobalNetworkPolicy, &name)) } else { id.clone() }
    };
    let stack = |stack: &Stack| {
        let mut stack = stack.clone();
        stack.tiers.iter_mut().flat_map(|tier| &mut tier.policies).for_each(|policy| *policy = id(policy));
        Arc::new(stack)
    };
    match event {
        Event::PolicySet { id: policy, rules } => Event::PolicySet { id: id(policy), rules: rules.clone() },
        Event::PolicyRemoved(policy) => Event::PolicyRemoved(id(policy)),
        Event::EndpointSet { id, endpoint } => {
            let (ingress, egress) = (stack(&endpoint.ingress), stack(&endpoint.egress));
            let endpoint = ActiveEndpoint { ingress, egress, ..ActiveEndpoint::clone(endpoint) };
            Event::EndpointSet { id: id.clone(), endpoint: Arc::new(endpoint) }
        }
        _ => event.clone(),
    }
}

fn swapped(event: &Event) -> Event {
    match event {
        Event::EndpointSet { id, endpoint } => {
            let (ingress, egress) = (endpoint.egress.clone(), endpoint.ingress.clone());
            let endpoint = ActiveEndpoint { ingress, egress, ..ActiveEndpoint::clone(endpoint) };
            Event::EndpointSet { id: id.clone(), endpoint: Arc::new(endpoint) }
        }
        _ => event.clone(),
    }
}

fn elsewhere() -> RouteKey {
    RouteKey { table: RouteTableId::MAIN, dest: "203.0.113.1/32".parse().unwrap(), metric: 1024 }
}

fn name(text: &str) -> ChainName {
    ChainName::new(text).unwrap()
}

fn accept(matches: Vec<Match>) -> Rule {
    Rule { matches, verdict: Some(Verdict::Accept), ..Rule::default() }
}

fn at_forward(matches: Vec<Match>, verdict: Verdict) -> Chain {
    let base = BaseChain { chain_type: ChainType::Filter, hook: Hook::Forward, priority: -9 };
    Chain { name: name("extra"), base: Some(base), rules: vec![Rule { verdict: Some(verdict), ..accept(matches) }] }
}
