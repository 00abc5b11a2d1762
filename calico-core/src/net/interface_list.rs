//! Lists of interfaces, by name or by regular expression.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use regex_automata::nfa::thompson::{self, pikevm::PikeVM};

use super::InterfaceName;

/// Interfaces, separated by commas: each a name, or a regular expression between slashes that a part of the name must match
/// (`/^kube/,veth1`; upstream's `InterfaceExclude`). The default is upstream's, `kube-ipvs0`, which holds every service's address.
#[derive(Clone)]
pub struct InterfaceList {
    text: String,
    entries: Vec<Entry>,
}

#[derive(Clone)]
enum Entry {
    Name(InterfaceName),
    Expression(PikeVM),
}

/// Text that is no such list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{element:?} is no interface: give a name of 1 to 15 letters, digits, '-' or '_', or /a regular expression/{reason}"
)]
pub struct InterfaceListError {
    element: String,
    reason: String,
}

/// Most memory of one expression: enough for any that somebody writes by hand.
const MOST_BYTES: usize = 1 << 20;

impl InterfaceList {
    /// Whether an interface is one of them.
    pub fn contains(&self, name: InterfaceName) -> bool {
        self.entries.iter().any(|entry| match entry {
            Entry::Name(own) => *own == name,
            Entry::Expression(expression) => expression.is_match(&mut expression.create_cache(), name.as_str()),
        })
    }
}

impl Default for InterfaceList {
    fn default() -> Self {
        "kube-ipvs0".parse().unwrap_or(Self { text: String::new(), entries: Vec::new() })
    }
}

impl FromStr for InterfaceList {
    type Err = InterfaceListError;

    /// Upstream cuts at every comma, too, so that an expression cannot hold one.
    fn from_str(text: &str) -> Result<Self, InterfaceListError> {
        let entries = text.split(',').map(entry).collect::<Result<_, _>>()?;
        Ok(Self { text: text.into(), entries })
    }
}

fn entry(element: &str) -> Result<Entry, InterfaceListError> {
    let wrong = |reason: String| InterfaceListError { element: element.into(), reason };
    let expression =
        element.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')).filter(|inner| !inner.is_empty());
    if let Some(expression) = expression.filter(|inner| !inner.contains(char::is_whitespace)) {
        let limits = thompson::Config::new().nfa_size_limit(Some(MOST_BYTES));
        let compiled = PikeVM::builder().thompson(limits).build(expression);
        return compiled.map(Entry::Expression).map_err(|error| wrong([": ", &error.to_string()].concat()));
    }
    if element.starts_with('/') != element.ends_with('/') {
        // Somebody wrote an expression with a comma in it, of which this is a piece.
        return Err(wrong(", which holds no comma: the list is cut at each".into()));
    }
    let is_plain = element.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let name = element.parse().ok().filter(|_| is_plain);
    name.map(Entry::Name).ok_or_else(|| wrong(String::new()))
}

impl fmt::Display for InterfaceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for InterfaceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for InterfaceList {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for InterfaceList {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_and_expressions_match_anywhere() {
        let list: InterfaceList = "/^kube/,veth1,/[0-9]{3}/".parse().unwrap();
        let has = |name: &str| list.contains(name.parse().unwrap());
        for name in ["kube-ipvs0", "kube", "veth1", "a123b"] {
            assert!(has(name), "{name}");
        }
        for name in ["xkube", "veth10", "veth", "eth0", "a12"] {
            assert!(!has(name), "{name}");
        }
        let usual = InterfaceList::default();
        assert!(usual.contains("kube-ipvs0".parse().unwrap()) && !usual.contains("kube-ipvs1".parse().unwrap()));
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for bad in ["", "eth0,", "a b", "sixteen-letters-", "/a b/", "/", "//", "/(/", "/a{1000}{1000}/", "eth0+", "/a"]
        {
            let error = bad.parse::<InterfaceList>().unwrap_err().to_string();
            assert!(error.contains("is no interface"), "{bad}: {error}");
        }
        for cut in ["/a{1,3}/", "eth0,/^(a|b),c/", "/a", "a/"] {
            let error = cut.parse::<InterfaceList>().unwrap_err().to_string();
            assert!(
                error.ends_with("or /a regular expression/, which holds no comma: the list is cut at each"),
                "{error}"
            );
        }
        let error = "eth0+".parse::<InterfaceList>().unwrap_err().to_string();
        assert!(error.ends_with("or /a regular expression/"), "{error}");
    }
}
