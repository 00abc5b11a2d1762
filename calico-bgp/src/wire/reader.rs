//! A cursor that cannot read past its end: every step either consumes what it returns or says `None`.

/// The unread rest of a byte string.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// The rest, without consuming it.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }
}

/// The whole of `bytes` as fixed-size pieces; `None` when a piece is cut short.
pub(crate) fn pieces<const N: usize>(bytes: &[u8]) -> Option<Vec<[u8; N]>> {
    let mut reader = Reader::new(bytes);
    let mut all = Vec::with_capacity(bytes.len().checked_div(N).unwrap_or(0));
    while !reader.is_empty() {
        all.push(reader.array()?);
    }
    Some(all)
}
