//! Regions with one kind of page: the advice and layout that it needs.
//!
//! In: lengths. Out: a [`Region`] with nothing resident. The kernel may still fall back to smaller pages:
//! check [`Region::resident_bytes`] after a touch.

use super::Region;
use crate::advise::Advice;
use crate::error::Result;
use crate::map;

impl Region {
    /// [`new`](Self::new), with base pages only.
    ///
    /// # Errors
    /// As there.
    pub fn base_pages(len_bytes: usize, align_bytes: usize) -> Result<Self> {
        let mut region = Self::new(len_bytes, align_bytes)?;
        // Refused only by kernels without THP, which use base pages anyway.
        let _ = region.advise(0..region.len_bytes, Advice::NoHugePage);
        Ok(region)
    }

    /// [`new`](Self::new), with THP if the machine gives them on request.
    ///
    /// # Errors
    /// As there; EINVAL also from a kernel without THP.
    pub fn thp(len_bytes: usize, align_bytes: usize) -> Result<Self> {
        let mut region = Self::new(len_bytes, align_bytes)?;
        region.advise(0..region.len_bytes, Advice::HugePage)?;
        Ok(region)
    }

    /// Memory for `count` mTHP of `page_bytes`, each followed by a gap of the same size with base pages.
    /// Without the gap, the kernel could use a larger page.
    ///
    /// # Errors
    /// As for [`thp`](Self::thp); ENOMEM also if there would be too many mappings.
    pub fn mthp(count: usize, page_bytes: usize) -> Result<Self> {
        let stride_bytes = 2 * page_bytes;
        let mut region = Self::base_pages(count * stride_bytes, stride_bytes)?;
        for begin in (0..count * stride_bytes).step_by(stride_bytes) {
            region.advise(begin..begin + page_bytes, Advice::HugePage)?;
        }
        Ok(region)
    }

    /// Maps `len_bytes` from the hugetlb pool of `page_bytes` pages, reserved there.
    ///
    /// A cgroup's hugetlb limit is charged at the touch, and exceeding it is SIGBUS. Populate first
    /// ([`Advice::PopulateWrite`]) to get an error instead.
    ///
    /// # Errors
    /// ENOMEM when the pool has too few pages; EINVAL when there is no such size.
    pub fn hugetlb(len_bytes: usize, page_bytes: usize) -> Result<Self> {
        let len_bytes = len_bytes.next_multiple_of(page_bytes.max(1));
        Self::own(map::hugetlb(len_bytes, page_bytes)?, len_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page;

    #[test]
    fn base_pages_become_resident_one_by_one() {
        let mut region = Region::base_pages(64 * page::size(), page::size()).unwrap();
        region.bytes_mut()[0] = 1;
        assert_eq!(region.resident_bytes(), page::size());
    }

    #[test]
    fn pages_of_a_size_between_lie_apart() {
        let page_bytes = 16 * page::size();
        let mut region = match Region::mthp(4, page_bytes) {
            Ok(region) => region,
            Err(error) => return faultless_wants::missing_feature("mTHP", error),
        };
        assert_eq!(region.bytes().as_ptr().addr() % page_bytes, 0);
        assert_eq!(region.len_bytes(), 8 * page_bytes);
        region.touch_write(2 * page_bytes);
        // Base pages if the machine gives no mTHP of this size.
        assert!((4 * page::size()..=4 * page_bytes).contains(&region.resident_bytes()));
    }

    #[test]
    fn an_empty_hugetlb_pool_refuses_instead_of_failing_at_the_touch() {
        // No machine has a terabyte of them free; EINVAL if the size is unknown.
        let error = Region::hugetlb(1 << 40, 2 << 20).unwrap_err();
        assert!([libc::ENOMEM, libc::EINVAL].contains(&error.errno), "{error}");
    }
}
