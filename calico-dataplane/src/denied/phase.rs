//! How far the look for denied connections is.

use std::time::Duration;

use calico_core::connection::{Connection, Doubt, Routes};

use crate::{Tracked, TrackedName, Tracking};

/// Connections judged in one go.
pub(super) const SLICE: usize = 1024;

#[derive(Debug, Default)]
pub(super) enum Phase {
    #[default]
    Idle,
    Listing {
        began: Duration,
        doubt: Option<Doubt>,
    },
    Judging(Judging),
    /// Waits for the routes of the next slice.
    Routing(Judging),
    /// What they may come back by is barred first.
    Barring {
        doubt: Option<Doubt>,
        names: Vec<TrackedName>,
        is_new: bool,
    },
    Ending {
        doubt: Option<Doubt>,
        count: usize,
        is_new: bool,
    },
}

#[derive(Debug)]
pub(super) struct Judging {
    pub(super) doubt: Option<Doubt>,
    pub(super) tracking: Tracking,
    pub(super) next: usize,
    /// What was asked for the next slice.
    pub(super) routes: Option<Routes>,
    pub(super) denied: Vec<Tracked>,
    /// Those that belong to others.
    pub(super) children: Vec<usize>,
    /// What was ended before, judged behind all others.
    pub(super) former: Vec<Connection>,
}

/// Connections that are judged in one go: of the list, or else of what was ended before.
pub(super) type Slice<'a> = (&'a [Tracked], &'a [Connection]);

impl Judging {
    pub(super) fn slice(&self) -> Slice<'_> {
        let all = self.tracking.connections.len();
        let of_list = self.tracking.connections.get(self.next..all.min(self.next + SLICE)).unwrap_or_default();
        if !of_list.is_empty() {
            return (of_list, &[]);
        }
        let start = self.next.saturating_sub(all);
        let end = self.former.len().min(start + SLICE);
        (&[], self.former.get(start..end).unwrap_or_default())
    }
}
