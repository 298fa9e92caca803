//! An owned mapping, as bytes.
//!
//! In: a length, and when its pages are faulted in. Out: a [`Mapping`], unmapped when dropped.
//!
//! References: mmap(2), madvise(2).

use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use crate::error::Result;
use crate::{advise, map, page};

/// When the pages of a mapping are faulted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// With the first touch of each.
    Touched,
    /// At once (MAP_POPULATE).
    Populated,
    /// With the first touch of each huge page (MADV_HUGEPAGE), if the kernel has them. The mapping consists of whole ones.
    Thp,
}

/// Private memory from the kernel, zero at first.
#[derive(Debug)]
pub struct Mapping {
    start: usize,
    len: usize,
    mapped: usize,
}

impl Mapping {
    /// Maps `len` bytes, at least one.
    ///
    /// # Errors
    /// ENOMEM: no room, RLIMIT_AS, `vm.max_map_count`, or the commit limit.
    pub fn new(len: usize, pages: Pages) -> Result<Self> {
        static PMD_BYTES: OnceLock<usize> = OnceLock::new();

        let mut mapped = page::round_up(len.max(1));
        let start = match pages {
            Pages::Populated => map::populated(mapped)?,
            Pages::Touched => map::anonymous(mapped)?,
            Pages::Thp => {
                // A huge page fits only into a mapping that is as large and as aligned.
                let huge = (*PMD_BYTES.get_or_init(advise::pmd_bytes)).max(page::size());
                mapped = mapped.next_multiple_of(huge);
                let start = map::reserve(mapped, huge)?;
                // SAFETY: the range was just reserved, and nobody else knows it.
                unsafe { map::make_usable(start, mapped)? };
                // Without THP, base pages are used.
                // SAFETY: advice on a range that was just mapped; its content stays.
                let _ = unsafe { advise::thp(start, mapped) };
                start
            }
        };
        Ok(Self { start, len, mapped })
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped readable by `new`, at least so long, for as long as self; the kernel zeroes what it maps.
        unsafe { std::slice::from_raw_parts(self.start as *const u8, self.len) }
    }
}

impl DerefMut for Mapping {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, writable as well; `&mut self` excludes other references through this value.
        unsafe { std::slice::from_raw_parts_mut(self.start as *mut u8, self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; no reference into it outlives self.
        let _ = unsafe { map::release(self.start, self.mapped) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_zero_and_its_own() {
        for pages in [Pages::Touched, Pages::Populated, Pages::Thp] {
            let (mut one, two) =
                (Mapping::new(100_000, pages).unwrap(), Mapping::new(100_000, pages).unwrap());
            one.fill(1);
            assert_eq!((one.len(), two.len()), (100_000, 100_000));
            assert!(one.iter().all(|&byte| byte == 1) && two.iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn populated_pages_are_there() {
        let mapping = Mapping::new(100 * page::size(), Pages::Populated).unwrap();
        assert_eq!(map::resident_bytes(mapping.as_ptr() as usize, mapping.len()), mapping.len());
    }
}
