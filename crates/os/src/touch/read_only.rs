//! A region that may not be written for a while: `mprotect(2)` as a change of type, so that nobody writes meanwhile.

use super::Region;
use crate::error::{Error, Result};
use crate::map;

/// A [`Region`] whose pages are write-protected.
#[derive(Debug)]
pub struct ReadOnly(Region);

impl Region {
    /// Takes the right to write away (`mprotect(PROT_READ)`).
    ///
    /// # Errors
    /// ENOMEM: `vm.max_map_count` is reached. The region is then unmapped.
    pub fn read_only(self) -> Result<ReadOnly> {
        let (start, len) = (self.base.as_ptr(), self.len_bytes);
        // SAFETY: our own mapping, and no reference into it is live: `self` was moved in.
        let rc = unsafe { libc::mprotect(start.cast(), len, libc::PROT_READ) };
        if rc == 0 { Ok(ReadOnly(self)) } else { Err(Error::last_for("mprotect(PROT_READ", len)) }
    }
}

impl ReadOnly {
    /// The content.
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// Gives the right to write back.
    ///
    /// # Errors
    /// ENOMEM, as above.
    pub fn writable(self) -> Result<Region> {
        // SAFETY: reserved by this region, and whole pages.
        unsafe { map::make_usable(self.0.base.as_ptr().addr(), self.0.len_bytes) }?;
        Ok(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page;

    #[test]
    fn content_outlives_the_protection() {
        let mut region = Region::new(4 * page::size(), page::size()).unwrap();
        region.touch_write(page::size());
        let protected = region.read_only().unwrap();
        assert_eq!(protected.bytes()[page::size()], 1);
        let mut region = protected.writable().unwrap();
        region.bytes_mut()[0] = 2;
        assert_eq!(region.touch_read(page::size()), 5);
    }
}
