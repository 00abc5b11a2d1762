//! Positions of a document's nodes, as a tree beside the value.

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[expect(clippy::exhaustive_structs, reason = "a place in a text is a line and a column")]
pub struct Position {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

/// Where a node was written, and its children.
#[derive(Debug, Clone, Default)]
pub(super) struct Marked {
    /// Where its value begins, inside the quotes if it has any.
    pub(super) value: Position,
    /// Whether the value is text on one line, so that an offset can be added.
    pub(super) is_flat: bool,
    pub(super) children: Children,
}

#[derive(Debug, Clone, Default)]
pub(super) enum Children {
    #[default]
    None,
    List(Vec<Marked>),
    /// Name, place of the name, node.
    Map(Vec<(String, Position, Marked)>),
}

impl Marked {
    pub(super) fn take_member(&mut self, name: &str) -> Self {
        match &mut self.children {
            Children::Map(members) => members
                .iter_mut()
                .find(|(key, ..)| key == name)
                .map(|(.., node)| std::mem::take(node))
                .unwrap_or_default(),
            _ => Self::default(),
        }
    }

    pub(super) fn into_elements(self) -> Vec<Self> {
        match self.children {
            Children::List(elements) => elements,
            _ => Vec::new(),
        }
    }

    /// Where the value at a path was written, or as much of the path as there is.
    pub(super) fn locate_value(&self, path: &str, offset: Option<usize>) -> Position {
        let (node, name, rest) = self.follow(path);
        match (rest.is_empty(), &node.children) {
            (true, Children::None) if !path.is_empty() => {
                let shift = offset.filter(|_| node.is_flat).unwrap_or_default();
                Position { column: node.value.column + shift, ..node.value }
            }
            _ => name,
        }
    }

    /// Where the name at the end of a path was written, or as much of the path as there is.
    pub(super) fn locate_name(&self, path: &str) -> Position {
        self.follow(path).1
    }

    /// Follows a path such as `spec.ingress[0].source.selector` as far as it goes: the node, the place of its name, and the rest of
    /// the path. Names may hold dots (label keys), so the longest member name that fits is taken.
    fn follow<'p>(&self, path: &'p str) -> (&Self, Position, &'p str) {
        let (mut node, mut name, mut rest) = (self, self.value, path);
        while !rest.is_empty() {
            let step = match &node.children {
                Children::Map(members) => member(members, rest.strip_prefix('.').unwrap_or(rest)),
                Children::List(elements) => {
                    index(rest).and_then(|(index, rest)| elements.get(index).map(|node| (node.value, node, rest)))
                }
                Children::None => None,
            };
            let Some((next_name, next, after)) = step else { break };
            (node, name, rest) = (next, next_name, after);
        }
        (node, name, rest)
    }
}

fn member<'m, 'p>(members: &'m [(String, Position, Marked)], rest: &'p str) -> Option<(Position, &'m Marked, &'p str)> {
    let follows = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
    let fitting = members.iter().filter_map(|(name, at, node)| {
        let rest = rest.strip_prefix(name.as_str()).filter(|rest| follows(rest))?;
        Some((name.len(), *at, node, rest))
    });
    fitting.max_by_key(|(length, ..)| *length).map(|(_, at, node, rest)| (at, node, rest))
}

fn index(rest: &str) -> Option<(usize, &str)> {
    let (number, rest) = rest.strip_prefix('[')?.split_once(']')?;
    Some((number.parse().ok()?, rest))
}
