//! A many-host network of namespaces on one machine: demo, fixture and benchmarks.
