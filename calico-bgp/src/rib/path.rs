//! Paths to one prefix: one inline, since most prefixes have no more, or a list.

use std::sync::Arc;

use super::intern::PathSet;
use crate::session::peer_index::PeerIndex;
use crate::wire::PathId;

/// A path that a peer announced.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    /// As it came. It is kept, so that another import policy needs no refresh.
    pub(crate) received: Arc<PathSet>,
    /// What the import policy made of it; none if it was refused.
    pub(crate) accepted: Option<Arc<PathSet>>,
    pub(crate) peer: PeerIndex,
    /// The peer's name of it, among its paths to this prefix.
    pub(crate) path_id: PathId,
    /// Life of the peer in which it was announced; see [`Lives`](super::peer::Lives).
    pub(crate) life: u16,
    /// Our name of it, among all paths to this prefix: stable for as long as it is there.
    pub(crate) own_id: u16,
}

/// Most paths to one prefix that are taken from one peer: decisions walk over them.
pub(crate) const MOST_PATHS: usize = 64;

/// Our name of what we originate.
pub(crate) const ORIGINATED_ID: u16 = 1;

/// All paths to a prefix.
#[derive(Debug)]
pub(crate) enum Paths {
    One(Path),
    Several(Vec<Path>),
}

impl Default for Paths {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl Paths {
    pub(crate) fn as_slice(&self) -> &[Path] {
        match self {
            Self::One(path) => core::slice::from_ref(path),
            Self::Several(paths) => paths,
        }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [Path] {
        match self {
            Self::One(path) => core::slice::from_mut(path),
            Self::Several(paths) => paths,
        }
    }

    pub(crate) fn find_mut(&mut self, peer: PeerIndex, path_id: PathId) -> Option<&mut Path> {
        self.as_mut_slice().iter_mut().find(|path| path.peer == peer && path.path_id == path_id)
    }

    pub(crate) fn has(&self, peer: PeerIndex) -> bool {
        self.as_slice().iter().any(|path| path.peer == peer)
    }

    /// How many there are by one peer.
    pub(crate) fn count(&self, peer: PeerIndex) -> usize {
        self.as_slice().iter().filter(|path| path.peer == peer).count()
    }

    pub(crate) fn push(&mut self, path: Path) {
        match core::mem::take(self) {
            Self::One(first) => *self = Self::Several(vec![first, path]),
            Self::Several(paths) if paths.is_empty() => *self = Self::One(path),
            Self::Several(mut paths) => {
                paths.push(path);
                *self = Self::Several(paths);
            }
        }
    }

    /// Keeps those that `keep` wants. Says how many went, and how many of them had been accepted.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Path) -> bool) -> Gone {
        let mut gone = Gone::default();
        let mut count = |path: &Path| {
            let kept = keep(path);
            if !kept {
                gone.paths = gone.paths.saturating_add(1);
                gone.accepted = gone.accepted.saturating_add(usize::from(path.accepted.is_some()));
            }
            kept
        };
        match core::mem::take(self) {
            Self::One(path) if count(&path) => *self = Self::One(path),
            Self::One(_) => {}
            Self::Several(mut paths) => {
                paths.retain(count);
                *self = match paths.len() {
                    1 => paths.pop().map_or_else(Self::default, Self::One),
                    _ => Self::Several(paths),
                };
            }
        }
        gone
    }

    /// The least name that no path has.
    pub(crate) fn free_id(&self) -> u16 {
        let (paths, first) = (self.as_slice(), ORIGINATED_ID.saturating_add(1));
        // One of the first so many names is free, whatever the others are.
        let mut taken = vec![false; paths.len()];
        for path in paths {
            if let Some(slot) = taken.get_mut(usize::from(path.own_id.saturating_sub(first))) {
                *slot = true;
            }
        }
        let place = taken.iter().position(|taken| !taken).unwrap_or(paths.len());
        u16::try_from(place).unwrap_or(u16::MAX).saturating_add(first)
    }
}

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Gone {
    pub(crate) paths: usize,
    pub(crate) accepted: usize,
}
