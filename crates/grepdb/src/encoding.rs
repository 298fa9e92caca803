//! Integers as bytes: LEB128 for mostly small ones, little-endian words for tables.
//!
//! In: bytes of a file that may be damaged. Out: integers, or `None`; never a panic.

use serde::{Deserialize, Serialize};

/// The CRC-32 of `bytes`. It is always 0 in fuzz targets, so that the fuzzer gets past every check.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    if cfg!(fuzzing) { 0 } else { crc32fast::hash(bytes) }
}

/// `value` in few bytes.
pub(crate) fn packed(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).expect("a value that has a length")
}

/// `head`, `value`, and a checksum of both.
pub(crate) fn seal(head: &[u8], value: &impl Serialize) -> Vec<u8> {
    let mut out = [head, &packed(value)].concat();
    let crc = checksum(&out);
    out.extend(crc.to_le_bytes());
    out
}

/// What [`seal`] has sealed, if the checksum is right.
pub(crate) fn unseal(bytes: &[u8]) -> Option<ByteReader<'_>> {
    let (body, crc) = bytes.split_last_chunk::<4>()?;
    (checksum(body).to_le_bytes() == *crc).then_some(ByteReader(body))
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

    /// Decodes a value that [`seal`] wrote.
    pub(crate) fn value<T: Deserialize<'a>>(&self) -> Option<T> {
        postcard::from_bytes(self.0).ok()
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
}
