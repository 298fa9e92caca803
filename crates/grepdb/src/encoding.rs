//! Integers as bytes: LEB128 for mostly small ones, little-endian words for tables.
//!
//! In: bytes of a file that may be damaged. Out: integers, or `None`; never a panic.

/// The CRC-32 of `bytes`. It is always 0 in fuzz targets, so that the fuzzer gets past every check.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    if cfg!(fuzzing) { 0 } else { crc32fast::hash(bytes) }
}

/// Appends `value` as LEB128: seven bits per byte, the lowest first.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that are read from the front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteReader<'a>(pub(crate) &'a [u8]);

impl<'a> ByteReader<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads an integer that [`put_varint`] wrote.
    pub(crate) fn varint(&mut self) -> Option<u64> {
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

    /// Reads an integer that counts bytes or entries in memory.
    pub(crate) fn len(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

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
            numbers.iter().for_each(|&number| put_varint(&mut out, number));
            let mut bytes = ByteReader(&out);
            for number in numbers {
                prop_assert_eq!(bytes.varint(), Some(number));
            }
            prop_assert_eq!(bytes.varint(), None);
        }

        #[test]
        fn any_bytes_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..50)) {
            let mut bytes = ByteReader(&bytes);
            while bytes.varint().is_some() {}
            prop_assert!(bytes.u64().is_none() || !bytes.0.is_empty() || bytes.len().is_none());
        }
    }
}
