//! What every [`PolicyRenderer`] must do: run it against an implementation with [`suite`].
//!
//! Random clusters live through random changes; what the graph says of them goes to the renderer event by event and, beside that, many
//! events at once. The oracle of decisions is [`calico_core::spec`], that of the kernel the memory of [`crate::recording`], and that
//! of the desired state a fresh renderer that never saw anything but the end.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test suite: a breach of the contract is a panic that names it"
)]

mod barred;
mod decisions;
mod desired;
mod story;

use std::ops::Range;

use calico_core::net::{Failsafes, InterfaceName};
use calico_core::render::PolicyRenderer;
use calico_core::spec::Settings;

use decisions::Seen;
use story::Story;

/// A renderer under test.
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct Subject<'a> {
    /// Makes a renderer that knows of nothing active.
    pub make: &'a dyn Fn() -> Box<dyn PolicyRenderer>,
    /// How it is set up, in the words of the specification. Prefixes of workload interfaces, at least one, have 13 bytes at most, so that
    /// the suite can make names of them. The suite also uses `eth0` and `eth1` as the host's own interfaces.
    pub settings: Settings,
    /// Its fail-safe ports.
    pub failsafes: Failsafes,
    /// One random story for each: `0..20` takes seconds.
    pub seeds: Range<u64>,
}

/// Runs the whole suite. Needs no privileges, no clock and no runtime.
///
/// ```
/// use calico_core::net::{Failsafes, InterfaceName};
/// use calico_core::render::{RenderConfig, Renderer};
/// use calico_core::spec::Settings;
/// use calico_dataplane::testing::renderer::{Subject, suite};
///
/// suite(&Subject {
///     make: &|| Box::new(Renderer::new(RenderConfig::default())),
///     settings: Settings::default(),
///     failsafes: Failsafes::default(),
///     seeds: 0..8,
/// });
/// ```
///
/// # Panics
/// If the implementation breaks the contract; the message says how, and the seed that shows it.
pub fn suite(subject: &Subject<'_>) {
    decisions::skeleton(subject);
    story::endpoint_on_another_interface(subject);
    barred::barred(subject);
    let mut seen = Seen::default();
    for seed in subject.seeds.clone() {
        let mut story = Story::new(subject, seed);
        for round in 0..4 {
            story.go_on(round);
            story.compare_with_a_fresh_start();
            story.tell_again();
            story.decide(&mut seen);
        }
        story.remove_everything();
    }
    seen.is_telling();
}

impl Subject<'_> {
    /// The name of a workload's interface. Each has one of the prefixes for ever.
    fn workload(&self, rest: &str) -> InterfaceName {
        let prefixes = self.settings.workload_prefixes.iter();
        let number: usize = rest.bytes().map(usize::from).sum();
        format!("{}{rest}", prefixes.cycle().nth(number).unwrap()).parse().unwrap()
    }

    fn strangers(&self) -> Vec<InterfaceName> {
        self.settings.workload_prefixes.iter().map(|prefix| format!("{prefix}99").parse().unwrap()).collect()
    }
}

#[cfg(test)]
mod limits;
#[cfg(test)]
mod parts;
#[cfg(test)]
mod segments;
#[cfg(test)]
mod tests;
