//! The order of one flush: what is referred to comes first and goes last.

use alloc::vec::Vec;

use super::event::Event;

/// Events of one flush by what they concern.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) sets: Vec<Event>,
    pub(super) policies: Vec<Event>,
    pub(super) profiles: Vec<Event>,
    pub(super) network: Vec<Event>,
    pub(super) endpoints: Vec<Event>,
    pub(super) endpoints_removed: Vec<Event>,
    pub(super) profiles_removed: Vec<Event>,
    pub(super) policies_removed: Vec<Event>,
    pub(super) sets_removed: Vec<Event>,
}

impl Batch {
    /// All of them in safe order.
    pub(super) fn into_events(self) -> Vec<Event> {
        let mut events = self.sets;
        let rest = [
            self.policies,
            self.profiles,
            // What leaves a workload is masqueraded from its first packet on.
            self.network,
            self.endpoints,
            self.endpoints_removed,
            self.profiles_removed,
            self.policies_removed,
            self.sets_removed,
        ];
        rest.into_iter().for_each(|part| events.extend(part));
        events
    }
}
