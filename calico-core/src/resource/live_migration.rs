//! `LiveMigration`: a virtual machine on its way between hosts.

use alloc::string::String;

use super::formats::SELECTOR;
use super::limit::Limit;
use super::model::model;

model! {
    /// Specification of a `LiveMigration`.
    pub struct LiveMigrationSpec: specification {
        /// Where the machine is.
        "source" source: Option<LiveMigrationSource>;
        /// Where it goes.
        "target" target: Option<LiveMigrationTarget>;
    }
}

model! {
    /// Where a machine is: its workload, or one of its interfaces.
    pub struct LiveMigrationSource {
        /// The workload.
        "workload" workload: Option<WorkloadIdentifier>;
        /// One of its interfaces.
        "workloadEndpoint" workload_endpoint: Option<WorkloadEndpointIdentifier>;
    }
}

model! {
    /// Where a machine goes.
    pub struct LiveMigrationTarget {
        /// Endpoints that it becomes.
        "selector" selector: Option<String> where [Limit::Text(&SELECTOR)];
        /// The endpoint that it becomes.
        "workloadEndpoint" workload_endpoint: Option<WorkloadEndpointIdentifier>;
    }
}

model! {
    /// A workload.
    pub struct WorkloadIdentifier {
        /// Its host.
        "hostname" hostname: String;
        /// What started it.
        "orchestratorID" orchestrator_id: String;
        /// Its name there.
        "workloadID" workload_id: String;
    }
}

model! {
    /// A workload's interface.
    pub struct WorkloadEndpointIdentifier {
        /// Its host.
        "hostname" hostname: String;
        /// What started it.
        "orchestratorID" orchestrator_id: String;
        /// Its name there.
        "workloadID" workload_id: String;
        /// The interface's name.
        "endpointID" endpoint_id: String;
    }
}
