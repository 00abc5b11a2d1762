//! The selector language: conditions on labels, as policies, rules and pools write them.
//!
//! Text comes in and is parsed once; out come a tree that evaluates against labels, a canonical text that is the same for every
//! way of writing the same selector, and an id (a hash of that text) that is upstream's to the byte. Equal ids mean equal
//! selectors on every host, which is what lets sets be shared and recognised after a restart.
//!
//! Upstream: `libcalico-go/lib/selector`. Differences, all on hostile input only: text beyond 64 KiB and nesting beyond 100
//! levels are errors.
//!
//! ```
//! use std::collections::BTreeMap;
//! use calico_core::selector::Selector;
//!
//! let selector = Selector::parse("app == 'web' && !has(legacy)")?;
//! assert_eq!(selector.canonical(), r#"(app == "web" && !has(legacy))"#);
//! assert!(selector.matches(&BTreeMap::from([("app".to_string(), "web".to_string())])));
//!
//! let error = Selector::parse("app = 'web'").unwrap_err();
//! assert_eq!(error.position(), 4);
//! assert_eq!(error.to_string(), r#"at byte 4: expected '==', found "=""#);
//! # Ok::<(), calico_core::selector::SelectorError>(())
//! ```

mod ast;
mod canonical;
mod error;
mod eval;
mod id;
mod lexer;
mod parser;
mod restriction;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};

pub use ast::{Node, Test};
pub use error::{Problem, SelectorError};
pub use eval::{Inherited, Labels};
pub use id::{unique_digest, unique_id};
pub use restriction::Restriction;

/// A parsed selector; cloning shares it. Equality, order and hash are those of the canonical text.
#[derive(Clone)]
pub struct Selector(Arc<Parsed>);

struct Parsed {
    root: Node,
    canonical: Box<str>,
}

impl Selector {
    /// Parses text. Blank text is `all()`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        parser::parse(text).map(Self::from)
    }

    /// Parses text of which only the tree is wanted. Blank text is `all()`.
    pub(crate) fn parse_root(text: &str) -> Result<Node, SelectorError> {
        parser::parse(text)
    }

    /// `all()`.
    pub fn all() -> Self {
        Node::All.into()
    }

    /// `label == value`.
    pub fn equal(label: &str, value: &str) -> Self {
        Node::Test(label.into(), Test::Equal(value.into())).into()
    }

    /// `label in {values}`.
    pub fn any_of<'a>(label: &str, values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut values: Vec<Arc<str>> = values.into_iter().map(Arc::from).collect();
        values.sort_unstable();
        values.dedup();
        Node::Test(label.into(), Test::In(values)).into()
    }

    /// `has(label)`.
    pub fn has(label: &str) -> Self {
        Node::Has(label.into()).into()
    }

    /// `(self) && (other)`, two operands even where one of them is an AND itself (as upstream's text joining gives).
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Node::And(vec![self.root().clone(), other.root().clone()]).into()
    }

    /// `!(self)`.
    #[must_use]
    pub fn negated(&self) -> Self {
        Node::Not(Box::new(self.root().clone())).into()
    }

    /// The same conditions on labels whose names begin with `prefix`: how conditions on a namespace (`pcns.`) or service account
    /// (`pcsa.`) become conditions on an endpoint.
    #[must_use]
    pub fn with_prefix(&self, prefix: &str) -> Self {
        let rename = |label: &str| -> Arc<str> { format!("{prefix}{label}").into() };
        let leaf = |node: &Node| match node {
            Node::Has(label) => Node::Has(rename(label)),
            Node::Test(label, test) => Node::Test(rename(label), test.clone()),
            other => other.clone(),
        };
        self.root().rewrite(&leaf).into()
    }

    /// Every `all()` in it replaced.
    #[must_use]
    pub fn replace_all(&self, replacement: &Self) -> Self {
        let leaf = |node: &Node| if *node == Node::All { replacement.root().clone() } else { node.clone() };
        self.root().rewrite(&leaf).into()
    }

    /// Every `global()` in it replaced.
    #[must_use]
    pub fn replace_global(&self, replacement: &Self) -> Self {
        let leaf = |node: &Node| if *node == Node::Global { replacement.root().clone() } else { node.clone() };
        self.root().rewrite(&leaf).into()
    }

    /// Whether labels satisfy it.
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        eval::matches(self.root(), labels)
    }

    /// The canonical text.
    pub fn canonical(&self) -> &str {
        &self.0.canonical
    }

    /// Upstream's unique id, such as `s:5y5I3VdRZfDU01O--xXAPx2yxCQQqMf0M6IWug` for `all()`.
    pub fn id(&self) -> String {
        unique_id("s", self.canonical())
    }

    /// The tree.
    pub fn root(&self) -> &Node {
        &self.0.root
    }

    /// What it demands of single labels, whatever the others are.
    pub fn restrictions(&self) -> BTreeMap<Arc<str>, Restriction> {
        restriction::restrictions(self.root())
    }
}

impl From<Node> for Selector {
    fn from(root: Node) -> Self {
        let canonical = canonical::print(&root).into();
        Self(Arc::new(Parsed { root, canonical }))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.canonical())
    }
}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Selector({})", self.canonical())
    }
}

impl PartialEq for Selector {
    fn eq(&self, other: &Self) -> bool {
        self.canonical() == other.canonical()
    }
}

impl Eq for Selector {}

impl PartialOrd for Selector {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Selector {
    fn cmp(&self, other: &Self) -> Ordering {
        self.canonical().cmp(other.canonical())
    }
}

impl Hash for Selector {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.canonical().hash(state);
    }
}

/// Upstream's `Normalise`: trimmed, parsed and printed again; text that does not parse is only trimmed.
pub fn normalise(text: &str) -> String {
    let trimmed = text.trim();
    Selector::parse(trimmed).map_or_else(|_| trimmed.into(), |selector| selector.canonical().into())
}

#[cfg(test)]
mod tests;
