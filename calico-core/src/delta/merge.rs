//! Two ordered sequences as one.

/// Merges what is in order by key; of one key, what `first` has comes first.
pub(super) fn merge<K: Ord, T>(
    first: impl Iterator<Item = (K, T)>,
    second: impl Iterator<Item = (K, T)>,
) -> impl Iterator<Item = (K, T)> {
    let (mut first, mut second) = (first.peekable(), second.peekable());
    core::iter::from_fn(move || {
        let is_second = match (first.peek(), second.peek()) {
            (Some((one, _)), Some((other, _))) => other < one,
            (one, _) => one.is_none(),
        };
        if is_second { second.next() } else { first.next() }
    })
}
