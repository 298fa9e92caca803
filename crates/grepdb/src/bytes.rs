//! Numbers as bytes: LEB128 for what is mostly small, little-endian words for tables.
//!
//! In: bytes of a file that anybody may have damaged. Out: numbers, or nothing; never a panic.
//!
//! What it does not do: know what the numbers mean.

/// What `bytes` are checked by: a CRC. Under a fuzzer nothing is checked, so that it gets past the checks.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    if cfg!(fuzzing) { 0 } else { crc32fast::hash(bytes) }
}

/// Appends `value`, seven bits a byte, the lowest first.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that are read from the front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    /// The next `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// What [`put`] wrote.
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A number that counts bytes or entries in memory.
    pub(crate) fn len(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    /// A little-endian word of four bytes.
    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    /// A little-endian word of eight bytes.
    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_comes_back(numbers in proptest::collection::vec(any::<u64>(), 0..50)) {
            let mut out = Vec::new();
            numbers.iter().for_each(|&number| put(&mut out, number));
            let mut bytes = Bytes(&out);
            for number in numbers {
                prop_assert_eq!(bytes.number(), Some(number));
            }
            prop_assert_eq!(bytes.number(), None);
        }

        #[test]
        fn any_bytes_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..50)) {
            let mut bytes = Bytes(&bytes);
            while bytes.number().is_some() {}
            prop_assert!(bytes.u64().is_none() || !bytes.0.is_empty() || bytes.len().is_none());
        }
    }
}
