//! The executable mappings of one process.
//!
//! In: mappings as they appear, in the order of time. Out: which of them holds an address.
//!
//! It does not open files.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use faultless_trace::observation::Map;

/// `PROT_EXEC`, mmap(2).
pub(crate) const PROT_EXEC: u32 = 4;

/// Executable memory.
#[derive(Clone, Debug)]
pub(crate) struct Region<T> {
    /// Its addresses.
    pub(crate) range: Range<u64>,
    /// Offset in the file of the first byte.
    pub(crate) file_offset: u64,
    /// As [`Map::name`].
    pub(crate) name: Arc<str>,
    /// What the caller knows of it; `None` before the first lookup.
    pub(crate) content: Option<T>,
}

/// The regions of a process, in order, without overlap.
#[derive(Clone, Debug)]
pub(crate) struct AddressSpace<T> {
    regions: Vec<Region<T>>,
    /// The number of the region found last, which most often is the next one.
    last: Cell<usize>,
}

impl<T> Default for AddressSpace<T> {
    fn default() -> Self {
        Self { regions: Vec::new(), last: Cell::default() }
    }
}

impl<T: Copy> AddressSpace<T> {
    /// Adds a mapping, which hides what it covers. True: it covered executable memory, so cached results for
    /// addresses there are stale.
    pub(crate) fn map(&mut self, map: &Map) -> bool {
        let range = map.begin..map.begin.saturating_add(map.len_bytes);
        let first = self.regions.partition_point(|region| region.range.end <= range.start);
        let last = self.regions.partition_point(|region| region.range.start < range.end).max(first);
        let covered: Vec<Region<T>> = self.regions.splice(first..last, []).collect();
        let mut pieces = Vec::new();
        for region in &covered {
            if region.range.start < range.start {
                pieces.push(Region { range: region.range.start..range.start, ..region.clone() });
            }
        }
        if map.prot & PROT_EXEC != 0 && !range.is_empty() {
            let name = map.name.as_str().into();
            pieces.push(Region { range: range.clone(), file_offset: map.file_offset, name, content: None });
        }
        for region in &covered {
            if region.range.end > range.end {
                let file_offset = region.file_offset.wrapping_add(range.end - region.range.start);
                pieces.push(Region { range: range.end..region.range.end, file_offset, ..region.clone() });
            }
        }
        self.regions.splice(first..first, pieces);
        !covered.is_empty()
    }

    /// The number of the region that holds `address`.
    pub(crate) fn find(&self, address: u64) -> Option<usize> {
        let holds = |region: &Region<T>| region.range.contains(&address);
        if !self.regions.get(self.last.get()).is_some_and(holds) {
            self.last.set(self.regions.partition_point(|region| region.range.end <= address));
        }
        let index = self.last.get();
        self.regions.get(index).is_some_and(holds).then_some(index)
    }

    /// A region by its number.
    pub(crate) fn region(&self, index: usize) -> Option<&Region<T>> {
        self.regions.get(index)
    }

    /// Forgets the content of regions where `keep` says no.
    pub(crate) fn retain_content(&mut self, keep: impl Fn(T) -> bool) {
        for region in &mut self.regions {
            region.content = region.content.filter(|&content| keep(content));
        }
    }

    /// Notes what a region holds.
    pub(crate) fn set_content(&mut self, index: usize, content: T) {
        if let Some(region) = self.regions.get_mut(index) {
            region.content = Some(content);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(begin: u64, len_bytes: u64, prot: u32, file_offset: u64) -> Map {
        Map { begin, len_bytes, prot, file_offset, name: "/lib/a".to_owned(), ..Map::default() }
    }

    #[test]
    fn a_new_mapping_splits_what_it_covers() {
        let mut space = AddressSpace::<()>::default();
        assert!(!space.map(&map(0x1000, 0x9000, 5, 0x20_000)));
        assert!(space.map(&map(0x3000, 0x1000, 3, 0)));
        assert_eq!(space.find(0x3800), None);
        assert_eq!(space.find(0xa000), None);
        let before = space.region(space.find(0x2fff).unwrap()).unwrap();
        assert_eq!((before.range.clone(), before.file_offset), (0x1000..0x3000, 0x20_000));
        let after = space.region(space.find(0x4000).unwrap()).unwrap();
        assert_eq!((after.range.clone(), after.file_offset), (0x4000..0xa000, 0x23_000));
    }

    #[test]
    fn data_beside_code_changes_nothing() {
        let mut space = AddressSpace::<()>::default();
        space.map(&map(0x1000, 0x1000, 5, 0));
        assert!(!space.map(&map(0x2000, 0x1000, 3, 0)));
        assert!(!space.map(&map(0, 0x1000, 3, 0)));
        assert_eq!(space.find(0x1000), Some(0));
    }

    #[test]
    fn a_mapping_at_the_end_of_the_address_space_does_not_overflow() {
        let mut space = AddressSpace::<()>::default();
        space.map(&map(u64::MAX - 10, 100, 5, u64::MAX));
        assert_eq!(space.find(u64::MAX - 1), Some(0));
        space.map(&map(u64::MAX - 5, u64::MAX, 3, 0));
        assert_eq!(space.find(u64::MAX - 1), None);
    }
}
