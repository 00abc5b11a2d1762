//! Addresses of the host: only that there is a new one.

/// `RTM_NEWADDR`.
pub(crate) const NEW: u16 = 20;

/// The interface's index in a `struct ifaddrmsg`.
pub(crate) fn index(body: &[u8]) -> Option<u32> {
    let [_, _, _, _, index @ ..] = *body.first_chunk::<8>()?;
    Some(u32::from_ne_bytes(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_comes_after_four_bytes() {
        assert_eq!(index(&[&[2, 24, 0, 0][..], &7_u32.to_ne_bytes(), &[1]].concat()), Some(7));
        assert_eq!(index(&[2; 7]), None);
    }
}
