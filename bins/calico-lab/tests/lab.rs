//! The lab as its users run it: as a program, as root, against the real kernel.

#[cfg(feature = "etcd")]
#[cfg(test)]
#[path = "lab/benchmarks.rs"]
mod benchmarks;
#[cfg(test)]
#[path = "lab/denied.rs"]
mod denied;
#[cfg(test)]
#[path = "lab/fixture.rs"]
mod fixture;
#[cfg(test)]
#[path = "lab/flow.rs"]
mod flow;
#[cfg(test)]
#[path = "lab/inheritance.rs"]
mod inheritance;
#[cfg(test)]
#[path = "lab/main_job.rs"]
mod main_job;
#[cfg(test)]
#[path = "lab/streams.rs"]
mod streams;
#[cfg(test)]
#[path = "lab/usage.rs"]
mod usage;
#[cfg(test)]
#[path = "lab/verbs.rs"]
mod verbs;
