//! The node agent: start-up, policy and routes, BGP, in one process.
