//! Numbers as bytes and back, little-endian.

/// What a layer is read from.
pub(in crate::ssd) struct Input<'a>(pub(in crate::ssd) &'a [u8]);

impl<'a> Input<'a> {
    /// The next bytes; `None` if there are fewer.
    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn number32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    pub(super) fn number64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: u32) -> Option<u32> {
        self.number32().filter(|number| *number < bound)
    }

    /// A length, and as many numbers.
    pub(in crate::ssd) fn list32(&mut self) -> Option<Vec<u32>> {
        let len = usize::try_from(self.number32()?).ok()?;
        let bytes = self.bytes(len.checked_mul(4)?)?;
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        Some(bytes.chunks_exact(4).map(number).collect())
    }
}

/// Appends a number of 32 bits.
pub(super) fn put32(to: &mut Vec<u8>, number: u32) {
    to.extend(number.to_le_bytes());
}

/// Appends a number of 64 bits.
pub(super) fn put64(to: &mut Vec<u8>, number: u64) {
    to.extend(number.to_le_bytes());
}

/// The length of a list and its numbers.
pub(in crate::ssd) fn put_list32(to: &mut Vec<u8>, numbers: impl ExactSizeIterator<Item = u32>) {
    put32(to, u32::try_from(numbers.len()).expect("pages are counted in 32 bits"));
    numbers.for_each(|number| put32(to, number));
}
