//! The abstract dataplane language: what core wants a host to hold, in words that name no kernel interface.
//!
//! The renderer writes it, the delta tracker compares it, `calico-dataplane` encodes it (nf_tables, route netlink, traffic control) and the
//! recording backend interprets it. Its meaning is that of nf_tables: within a hook, base chains run in order of priority; an
//! `accept` ends its own base chain only, a `drop` ends everything; `return` goes back to the caller; a rule's matches are ANDed.

mod chain;
mod check;
mod delta;
mod key;
mod matcher;
mod name;
mod route;
mod set;
mod shaping;
mod text;

pub use chain::{BaseChain, Chain, ChainType, Fingerprint, Hook, RateLimit, Reject, Rule, Statement, Verdict};
pub use check::{PORT_PROTOCOLS, RuleError, key_family};
pub use delta::{Delta, ElementDelta, InterfaceSetting};
pub use key::Key;
pub use matcher::{CtState, Field, Match, TcpFlags, Value};
pub use name::{ChainName, NameError, SetName, Table};
pub use route::{Gateways, Neighbor, Route, RouteClass, RouteKey, RouteTableId, RouteTarget};
pub use set::{Datum, Element, ElementData, FieldType, SetDecl, SetKind};
pub use shaping::{Peak, Shaper, Shaping};
