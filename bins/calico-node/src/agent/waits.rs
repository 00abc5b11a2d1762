//! Who waits for an endpoint to be in the kernel, or gone from it.

use calico_cmd::control::{Answer, Attachment, ErrorCode, Success};
use calico_core::calc::event::EndpointId;
use calico_core::resource::{Kind, ResourceKey};
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant};

use crate::control::failure;

/// Longest that anybody may wait: as long as the CNI plugin waits at most. A client that has gone is forgotten before.
const LONGEST: Duration = Duration::from_secs(3600);

/// How an endpoint stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// The kernel holds all of it.
    Enforced,
    /// Neither wanted nor in the kernel.
    Gone,
    /// Neither yet, because of this.
    Between(String),
}

/// The open waits.
#[derive(Debug, Default)]
pub(super) struct Waits {
    open: Vec<Wait>,
}

#[derive(Debug)]
struct Wait {
    endpoint: EndpointId,
    goal: Goal,
    deadline: Instant,
    answer: oneshot::Sender<Answer>,
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Goal {
    /// The endpoint is enforced, as attached if that is said.
    Enforced(Option<Attachment>),
    /// The endpoint is gone.
    Gone,
}

impl Waits {
    pub(super) fn add(
        &mut self,
        (namespace, name): (&str, &str),
        goal: Goal,
        patience: Duration,
        now: Instant,
        answer: oneshot::Sender<Answer>,
    ) {
        let endpoint = EndpointId(ResourceKey::namespaced(Kind::WorkloadEndpoint, namespace, name));
        self.open.push(Wait { endpoint, goal, deadline: now + patience.min(LONGEST), answer });
    }

    /// Answers those whose goal is reached, and those whose time is up.
    pub(super) fn settle(&mut self, now: Instant, standing: impl Fn(&EndpointId, Option<&Attachment>) -> Standing) {
        let mut index = 0;
        while let Some(wait) = self.open.get(index) {
            let attachment = match &wait.goal {
                Goal::Enforced(attachment) => attachment.as_ref(),
                Goal::Gone => None,
            };
            let answer = match (&wait.goal, standing(&wait.endpoint, attachment)) {
                (Goal::Enforced(_), Standing::Enforced) => Some(Answer::Ok(Success::Enforced)),
                (Goal::Gone, Standing::Gone) => Some(Answer::Ok(Success::Gone)),
                (_, standing) => (wait.deadline <= now).then(|| late(wait, &standing)),
            };
            match answer {
                // A client that has gone away is no concern of ours.
                Some(answer) => drop(self.open.swap_remove(index).answer.send(answer)),
                None => index += 1,
            }
        }
        self.open.retain(|wait| !wait.answer.is_closed());
    }

    /// When the next one runs out of time.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.open.iter().map(|wait| wait.deadline).min()
    }
}

fn late(wait: &Wait, standing: &Standing) -> Answer {
    let endpoint = &wait.endpoint.0;
    let text = match (&wait.goal, standing) {
        (_, Standing::Between(reason)) => format!("{endpoint}: {reason}"),
        (Goal::Enforced(_), _) => format!("{endpoint} has not reached this node from the datastore"),
        (Goal::Gone, _) => format!("{endpoint} is still wanted by the datastore"),
    };
    failure(ErrorCode::Timeout, &text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use calico_cmd::control::Failure;

    fn wait(waits: &mut Waits, goal: Goal, now: Instant) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = oneshot::channel();
        waits.add(("ns", "a"), goal, Duration::from_secs(5), now, sender);
        receiver
    }

    #[test]
    fn answers_when_the_goal_is_reached_and_not_before() {
        let now = Instant::now();
        let mut waits = Waits::default();
        let mut enforced = wait(&mut waits, Goal::Enforced(None), now);
        let mut gone = wait(&mut waits, Goal::Gone, now);
        waits.settle(now, |_, _| Standing::Between("waits for eth0".into()));
        assert!(enforced.try_recv().is_err() && gone.try_recv().is_err());
        waits.settle(now, |_, _| Standing::Enforced);
        assert_eq!(enforced.try_recv().unwrap(), Answer::Ok(Success::Enforced));
        assert!(gone.try_recv().is_err());
        waits.settle(now, |_, _| Standing::Gone);
        assert_eq!(gone.try_recv().unwrap(), Answer::Ok(Success::Gone));
        assert_eq!(waits.next_deadline(), None);
    }

    #[test]
    fn says_why_when_time_is_up_and_caps_patience() {
        let now = Instant::now();
        let mut waits = Waits::default();
        let mut receiver = wait(&mut waits, Goal::Enforced(None), now);
        assert_eq!(waits.next_deadline(), Some(now + Duration::from_secs(5)));
        waits.settle(now + Duration::from_secs(5), |_, _| Standing::Between("waits for interface cali1".into()));
        let Answer::Error(Failure { code, message }) = receiver.try_recv().unwrap() else { panic!() };
        assert_eq!(code, ErrorCode::Timeout);
        assert_eq!(message, "WorkloadEndpoint(ns/a): waits for interface cali1");

        let (sender, patient) = oneshot::channel();
        waits.add(("ns", "a"), Goal::Gone, Duration::from_secs(600), now, sender);
        assert_eq!(waits.next_deadline(), Some(now + Duration::from_secs(600)), "as long as was asked for");
        drop(patient);
        waits.settle(now, |_, _| Standing::Enforced);

        let (sender, _receiver) = oneshot::channel();
        waits.add(("ns", "a"), Goal::Gone, Duration::MAX, now, sender);
        assert_eq!(waits.next_deadline(), Some(now + LONGEST));
    }

    #[test]
    fn forgets_clients_that_left() {
        let now = Instant::now();
        let mut waits = Waits::default();
        drop(wait(&mut waits, Goal::Enforced(None), now));
        waits.settle(now, |_, _| Standing::Gone);
        assert_eq!(waits.next_deadline(), None);
    }
}
