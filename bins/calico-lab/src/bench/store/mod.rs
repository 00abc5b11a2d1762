//! D1, D2 and D3: the datastore at a cluster's size.
//!
//! | Id | Work | Peer | Target |
//! |---|---|---|---|
//! | [D1](decode) | read 250 000 workload endpoints out of etcd into the model | `etcdctl get --prefix` | 1.5 times its time, 1.2 kB each |
//! | [D2](watch) | 1 000 watchers in one process and 20 processes, 1 000 updates/s, on etcd and on SQLite | the bare etcd client | all is delivered |
//! | [D3](ctl) | one `calicoctl get` | `etcdctl get` | 10 ms above the round trip |
//!
//! Servers run in a namespace of their own, and all work is done by processes of its own there ([`worker`]): so each begins with the
//! memory and the connections that a program of Calico begins with, and its processor time can be told. What they store is made from
//! a seed ([`endpoints`]).

pub(super) mod ctl;
pub(super) mod decode;
mod endpoints;
mod place;
mod usage;
pub(super) mod watch;
pub(super) mod worker;

pub(super) use ctl::D3;
pub(super) use decode::D1;
pub(super) use watch::D2;
