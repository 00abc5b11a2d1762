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
//!
//! Measured on 1 December 2026 on two processors, release build, etcd 3.4.23, load 8 to 19 of other work, medians of `calico-lab bench ID`:
//!
//! | Id | Ours | Peer | Target |
//! |---|---|---|---|
//! | D1 | 6.9 s, 1.43 times the peer's (2.6 times before objects were read straight from their text) | 4.8 s | met |
//! | D1 | 2 080 B of memory for each endpoint (2 820 B before) | - | missed: 1 200 B |
//! | D2 | etcd: all delivered at 996 updates/s, 16 ms behind, of which the commit is nearly all | 13 ms | met |
//! | D2 | SQLite: all delivered at 994 updates/s, 27 ms behind | - | met |
//! | D3 | 5.7 ms above the round trip, 9.9 ms in all | 36 ms in all | met |
//!
//! Where D1's memory goes, by reckoning: 1 280 B the object (500 B its fields, 260 B labels, 520 B other text and lists), 110 B its key,
//! 140 B the syncer's table, 60 B the update, 200 B the pages under way; the rest is lost between allocations. So the target needs a
//! smaller object: name and namespace shared with the key (200 B less), the fields that endpoints rarely have put aside (150 B),
//! small text in place.

pub(super) mod ctl;
pub(super) mod decode;
pub(super) mod endpoints;
pub(super) mod place;
pub(super) mod usage;
pub(super) mod watch;
pub(super) mod work;
pub(super) mod worker;

pub(super) use ctl::D3;
pub(super) use decode::D1;
pub(super) use watch::D2;
