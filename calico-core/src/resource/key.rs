//! Identity of a stored object.

use alloc::sync::Arc;
use core::fmt::{self, Write as _};

use super::Kind;
use super::fault::breaks_line;
use crate::net::Cidr;
use crate::text::{Text, Words};

/// Who holds the affinity of a block: `host:<name>` or `virtual:<name>` (load balancers).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AffinityOwner {
    /// A host.
    Host(Arc<str>),
    /// A pseudo-host, such as `load-balancer`.
    Virtual(Arc<str>),
}

/// Identity of any stored object. Backends map it to their own key (etcd: `/calico/…`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ResourceKey {
    /// A v3 resource. `namespace` is present exactly when the kind is namespaced.
    Named {
        /// Its kind; always one with [`Kind::is_v3`].
        kind: Kind,
        /// Its namespace.
        namespace: Option<Arc<str>>,
        /// Its name.
        name: Arc<str>,
    },
    /// An allocation block.
    Block(Cidr),
    /// The claim of a block by its owner.
    Affinity {
        /// Who claims.
        owner: AffinityOwner,
        /// Which block.
        block: Cidr,
    },
    /// An allocation handle. Its case is preserved.
    Handle(Arc<str>),
    /// The cluster's IPAM settings.
    IpamConfig,
}

impl ResourceKey {
    /// Key of a cluster-scoped v3 resource.
    pub fn cluster(kind: Kind, name: &str) -> Self {
        Self::Named { kind, namespace: None, name: name.into() }
    }

    /// Key of a namespaced v3 resource.
    pub fn namespaced(kind: Kind, namespace: &str, name: &str) -> Self {
        Self::Named { kind, namespace: Some(namespace.into()), name: name.into() }
    }

    /// Kind of the object.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Named { kind, .. } => *kind,
            Self::Block(_) => Kind::IpamBlock,
            Self::Affinity { .. } => Kind::BlockAffinity,
            Self::Handle(_) => Kind::IpamHandle,
            Self::IpamConfig => Kind::IpamConfig,
        }
    }

    /// Makes its namespace one with that of other keys.
    pub fn share(&mut self, words: &mut Words) {
        if let Self::Named { namespace: Some(namespace), .. } = self {
            let mut text = Text::from(Arc::clone(namespace));
            words.share(&mut text);
            *namespace = text.into();
        }
    }

    /// Namespace, for namespaced kinds.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::Named { namespace, .. } => namespace.as_deref(),
            _ => None,
        }
    }

    /// Name, for v3 resources.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Named { name, .. } => Some(name),
            _ => None,
        }
    }
}

impl fmt::Display for AffinityOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(name) => write!(f, "host:{name}"),
            Self::Virtual(name) => write!(f, "virtual:{name}"),
        }
    }
}

/// For messages: `NetworkPolicy(default/allow-dns)`, upstream's form in error texts. What would break a line or reorder it is escaped, as is
/// the backslash: stored keys may hold anything, and keys that differ are written differently.
impl fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = Escaping(f);
        match self {
            Self::Named { kind, namespace: Some(namespace), name } => write!(f, "{kind}({namespace}/{name})"),
            Self::Named { kind, namespace: None, name } => write!(f, "{kind}({name})"),
            Self::Block(cidr) => write!(f, "IPAMBlock({cidr})"),
            Self::Affinity { owner, block } => write!(f, "BlockAffinity({owner}, {block})"),
            Self::Handle(id) => write!(f, "IPAMHandle({id})"),
            Self::IpamConfig => f.write_str("IPAMConfig"),
        }
    }
}

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let is_odd = |c: char| c == '\\' || breaks_line(c);
        for piece in text.split_inclusive(is_odd) {
            let odd = piece.chars().next_back().filter(|c| is_odd(*c));
            self.0.write_str(piece.strip_suffix(is_odd).unwrap_or(piece))?;
            odd.map_or(Ok(()), |c| write!(self.0, "{}", c.escape_debug()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn is_one_line_whatever_the_name_and_no_other_keys() {
        let shown = |name: &str| ResourceKey::namespaced(Kind::NetworkPolicy, "a\rb", name).to_string();
        assert_eq!(shown("Größe"), "NetworkPolicy(a\\rb/Größe)");
        assert_eq!(shown("x\ny\u{1b}[2J\u{202e}\u{2028}"), "NetworkPolicy(a\\rb/x\\ny\\u{1b}[2J\\u{202e}\\u{2028})");
        assert_ne!(shown("x\n"), shown("x\\n"));
        assert_eq!(ResourceKey::Handle("h\nERROR".into()).to_string(), "IPAMHandle(h\\nERROR)");
    }
}
