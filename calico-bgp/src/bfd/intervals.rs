//! This end's intervals: what is announced, and what counts until the other end has agreed (RFC 5880 section 6.8.3).

use core::time::Duration;
use std::num::NonZeroU8;

use calico_core::bgp::Bfd as Parameters;

use super::packet::State;

/// While a session is not Up its packets are at least a second apart: nobody has yet said that the path can bear more.
const SLOW: u32 = 1_000_000;
/// A configuration below is more likely milliseconds taken for seconds than meant; a machine that is busy for as long would lose all sessions.
const LEAST: u32 = 10_000;

/// Microseconds, as on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    /// Desired Min TX Interval.
    pub(super) transmit: u32,
    /// Required Min RX Interval.
    pub(super) receive: u32,
}

/// Progress of a Poll Sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Poll {
    Idle,
    Active,
    /// There was another change meanwhile: the answer to this one may not be about that.
    ActiveThenAgain,
}

/// Own intervals and multiplier of a session.
#[derive(Debug)]
pub(super) struct Intervals {
    configured: Pair,
    multiplier: NonZeroU8,
    announced: Pair,
    in_force: Pair,
    poll: Poll,
}

impl Intervals {
    pub(super) fn new(parameters: &Parameters) -> Self {
        let (configured, multiplier) = parse(parameters);
        let announced = Pair { transmit: configured.transmit.max(SLOW), ..configured };
        Self { configured, multiplier, announced, in_force: announced, poll: Poll::Idle }
    }

    /// Takes another configuration; [`Self::apply`] announces it. Says whether packets look different now.
    pub(super) fn configure(&mut self, parameters: &Parameters) -> bool {
        let old = self.multiplier;
        (self.configured, self.multiplier) = parse(parameters);
        old != self.multiplier
    }

    /// Announces what the state allows. `answering`: the other end is heard, so that it can be polled. Says whether anything changed.
    pub(super) fn apply(&mut self, state: State, answering: bool) -> bool {
        let up = state == State::Up;
        let transmit = if up { self.configured.transmit } else { self.configured.transmit.max(SLOW) };
        let wanted = Pair { transmit, ..self.configured };
        let changed = wanted != self.announced;
        self.announced = wanted;
        // Packets must not become rarer before the other end waits longer, nor may this end wait less before they come more often.
        if !up || wanted.transmit < self.in_force.transmit {
            self.in_force.transmit = wanted.transmit;
        }
        if !up || wanted.receive > self.in_force.receive {
            self.in_force.receive = wanted.receive;
        }
        self.poll = match (answering, changed, self.poll) {
            (false, ..) => Poll::Idle,
            (true, true, Poll::Idle) => Poll::Active,
            (true, true, _) => Poll::ActiveThenAgain,
            (true, false, poll) => poll,
        };
        changed
    }

    /// The other end has answered a poll.
    pub(super) const fn answered(&mut self) {
        match self.poll {
            Poll::Idle => {}
            Poll::Active => {
                self.poll = Poll::Idle;
                self.in_force = self.announced;
            }
            Poll::ActiveThenAgain => self.poll = Poll::Active,
        }
    }

    pub(super) fn is_polling(&self) -> bool {
        self.poll != Poll::Idle
    }

    pub(super) const fn announced(&self) -> Pair {
        self.announced
    }

    pub(super) const fn in_force(&self) -> Pair {
        self.in_force
    }

    pub(super) const fn multiplier(&self) -> NonZeroU8 {
        self.multiplier
    }
}

fn parse(parameters: &Parameters) -> (Pair, NonZeroU8) {
    let microseconds = |interval: Duration| u32::try_from(interval.as_micros()).unwrap_or(u32::MAX).max(LEAST);
    let pair = Pair { transmit: microseconds(parameters.transmit), receive: microseconds(parameters.receive) };
    (pair, NonZeroU8::new(parameters.multiplier).unwrap_or(NonZeroU8::MIN))
}
