//! What is known of the packet in question: which conditions hold its addresses, and which rules want them.
//!
//! Much of it is often the same as of the packet before, and stays.

use alloc::vec;
use alloc::vec::Vec;
use core::{mem, net::IpAddr};

use super::conditions::{Asked, Rules, Wanted};
use super::holders::{ConditionId, Triple};
use super::index::Index;
use super::postings::Postings;
use crate::flow::Flow;
use crate::verdict::rule::Answers;
use crate::verdict::step::Side;

/// Rules of one word of the space that want what the packet has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Found {
    pub(super) service: u64,
    pub(super) source: Sided,
    pub(super) destination: Sided,
}

/// Of one side.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sided {
    /// Rules that want a condition which holds.
    pub(super) wanted: u64,
    /// Rules that do not match where one holds which does.
    pub(super) unwanted: u64,
}

#[derive(Debug)]
pub(super) struct Scratch {
    words: Vec<Found>,
    source: Address,
    destination: Address,
    service: Option<Triple>,
}

/// One of the packet's addresses.
#[derive(Debug)]
struct Address {
    side: Side,
    address: Option<IpAddr>,
    /// Conditions that hold it, in order.
    conditions: Vec<ConditionId>,
    /// Whether the words tell of it.
    is_found: bool,
}

impl Scratch {
    pub(super) fn new(words: usize) -> Self {
        let address = |side| Address { side, address: None, conditions: Vec::new(), is_found: false };
        Self {
            words: vec![Found::default(); words],
            source: address(Side::Source),
            destination: address(Side::Destination),
            service: None,
        }
    }

    /// Learns which conditions hold the flow's addresses.
    pub(super) fn learn(&mut self, flow: &Flow, index: &Index) {
        self.source.learn(flow.source, index, &mut self.words);
        self.destination.learn(flow.destination, index, &mut self.words);
    }

    /// Finds the rules that want what the flow has, of which [`learn`](Self::learn) was told.
    pub(super) fn find(&mut self, flow: &Flow, index: &Index) {
        self.source.find(index, &mut self.words);
        self.destination.find(index, &mut self.words);
        let service = (flow.destination, flow.protocol, flow.destination_port);
        if self.service == Some(service) {
            return;
        }
        if let Some(former) = self.service.replace(service) {
            of_service(&former, index, |postings| each(postings, &mut self.words, |found, _| found.service = 0));
        }
        of_service(&service, index, |postings| each(postings, &mut self.words, |found, bits| found.service |= bits));
    }

    pub(super) fn words(&self) -> &[Found] {
        &self.words
    }

    /// What is known, as the check of a rule asks it.
    pub(super) fn facts<'s>(&'s self, flow: &Flow, index: &'s Index) -> Facts<'s> {
        let holders = index.conditions.holders();
        let held = |side: &'s Address, address, port| Held {
            address: &side.conditions,
            port: holders.of_port(&(address, flow.protocol, port)),
        };
        Facts {
            source: held(&self.source, flow.source, flow.source_port),
            destination: held(&self.destination, flow.destination, flow.destination_port),
        }
    }
}

impl Address {
    fn learn(&mut self, address: IpAddr, index: &Index, words: &mut [Found]) {
        if self.address == Some(address) {
            return;
        }
        if mem::take(&mut self.is_found) {
            self.for_each(index, words, |found, _| *found = 0);
        }
        self.address = Some(address);
        index.conditions.holders().of_address(address, &mut self.conditions);
    }

    fn find(&mut self, index: &Index, words: &mut [Found]) {
        if !mem::replace(&mut self.is_found, true) {
            self.for_each(index, words, |found, bits| *found |= bits);
        }
    }

    fn for_each(&self, index: &Index, words: &mut [Found], change: impl Fn(&mut u64, u64)) {
        for condition in self.conditions.iter().filter_map(|id| index.conditions.get(*id)) {
            match self.side {
                Side::Source => {
                    each(&condition.source.wanted, words, |found, bits| change(&mut found.source.wanted, bits));
                    each(&condition.source.unwanted, words, |found, bits| change(&mut found.source.unwanted, bits));
                }
                Side::Destination => {
                    let Rules { wanted, unwanted } = &condition.destination;
                    each(wanted, words, |found, bits| change(&mut found.destination.wanted, bits));
                    each(unwanted, words, |found, bits| change(&mut found.destination.unwanted, bits));
                }
            }
        }
    }
}

/// Rules that want the protocol, the port, or the port by a name that the address gives it.
fn of_service(service: &Triple, index: &Index, mut with: impl FnMut(&Postings)) {
    let (_, protocol, port) = *service;
    index.services.of(protocol, port).for_each(&mut with);
    let named = index.conditions.holders().of_port(service).iter().filter_map(|id| index.conditions.get(*id));
    named.for_each(|condition| with(&condition.service));
}

fn each(postings: &Postings, words: &mut [Found], change: impl Fn(&mut Found, u64)) {
    for (word, bits) in postings.words() {
        if let Some(found) = words.get_mut(*word as usize) {
            change(found, *bits);
        }
    }
}

/// What is known of a packet, by numbers.
#[derive(Debug)]
pub(in crate::verdict) struct Facts<'s> {
    pub(in crate::verdict) source: Held<'s>,
    pub(in crate::verdict) destination: Held<'s>,
}

/// Conditions that hold an address, and those that have its port; each in order.
#[derive(Debug, Clone, Copy)]
pub(in crate::verdict) struct Held<'s> {
    pub(in crate::verdict) address: &'s [ConditionId],
    pub(in crate::verdict) port: &'s [ConditionId],
}

/// What the sets of one rule say to it.
pub(super) struct Known<'s> {
    pub(super) facts: &'s Facts<'s>,
    pub(super) asked: &'s Asked,
}

impl Known<'_> {
    const fn side(&self, side: Side) -> (&Held<'_>, &Wanted) {
        match side {
            Side::Source => (&self.facts.source, &self.asked.source),
            Side::Destination => (&self.facts.destination, &self.asked.destination),
        }
    }
}

impl Answers for Known<'_> {
    fn in_each(&self, side: Side) -> bool {
        let (held, wanted) = self.side(side);
        wanted.sets.iter().all(|id| holds(held.address, *id))
    }

    fn in_one_unwanted(&self, side: Side) -> bool {
        let (held, wanted) = self.side(side);
        wanted.not_sets.iter().any(|id| holds(held.address, *id))
    }

    fn port_in_one(&self, side: Side) -> bool {
        let (held, wanted) = self.side(side);
        wanted.port_sets.iter().any(|id| holds(held.port, *id))
    }

    fn port_in_one_unwanted(&self, side: Side) -> bool {
        let (held, wanted) = self.side(side);
        wanted.not_port_sets.iter().any(|id| holds(held.port, *id))
    }
}

fn holds(conditions: &[ConditionId], id: ConditionId) -> bool {
    conditions.binary_search(&id).is_ok()
}
