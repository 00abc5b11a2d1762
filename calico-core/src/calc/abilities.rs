//! What a host carries out of what objects ask for.

/// What a host carries out. What it does not is told of at each object that asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals and `..Default::default()`")]
pub struct Abilities {
    /// Floating addresses of workloads.
    pub floating_addresses: bool,
    /// Further source prefixes of workloads.
    pub spoofed_sources: bool,
    /// Limits on the bandwidth of workloads.
    pub bandwidth: bool,
    /// Whether somebody tells what stands behind services. Where nobody does, a condition on them is one that is not understood.
    pub services: bool,
}

/// All of them.
impl Default for Abilities {
    fn default() -> Self {
        Self { floating_addresses: true, spoofed_sources: true, bandwidth: true, services: true }
    }
}
