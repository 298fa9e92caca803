//! Ranges of addresses that do not overlap, each with a value.

use std::collections::BTreeMap;

/// Ranges by their begin.
#[derive(Clone, Debug)]
pub(super) struct Ranges<T>(BTreeMap<u64, (u64, T)>);

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Copy> Ranges<T> {
    /// Gives a range this value, whatever it had.
    pub(super) fn put(&mut self, begin: u64, end: u64, value: T) {
        self.cut(begin, end);
        self.0.insert(begin, (end, value));
    }

    /// Removes what is known of a range, and returns the length of what was there with its values.
    pub(super) fn cut(&mut self, begin: u64, end: u64) -> Vec<(u64, T)> {
        let mut gone = Vec::new();
        let before = self.0.range(..begin).next_back().map(|(&from, &held)| (from, held));
        if let Some((from, (to, value))) = before.filter(|(_, (to, _))| *to > begin) {
            self.0.insert(from, (begin, value));
            gone.push((to.min(end) - begin, value));
            if to > end {
                self.0.insert(end, (to, value));
            }
        }
        let inside: Vec<u64> = self.0.range(begin..end).map(|(&from, _)| from).collect();
        for from in inside {
            let Some((to, value)) = self.0.remove(&from) else { continue };
            gone.push((to.min(end) - from, value));
            if to > end {
                self.0.insert(end, (to, value));
            }
        }
        gone
    }

    /// How long the ranges are.
    pub(super) fn lengths(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|(begin, (end, _))| end - begin)
    }

    /// The value of the range that holds an address.
    pub(super) fn at(&self, addr: u64) -> Option<T> {
        let (_, (end, value)) = self.0.range(..=addr).next_back()?;
        (addr < *end).then_some(*value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_that_is_cut_keeps_both_ends() {
        let mut ranges = Ranges::default();
        ranges.put(10, 50, 'a');
        ranges.put(60, 70, 'b');
        assert_eq!(ranges.cut(20, 65), [(30, 'a'), (5, 'b')]);
        let at = |addr| ranges.at(addr);
        assert_eq!(
            [9, 10, 19, 20, 64, 65, 70].map(at),
            [None, Some('a'), Some('a'), None, None, Some('b'), None]
        );
        ranges.put(12, 14, 'c');
        assert_eq!([11, 12, 14].map(|addr| ranges.at(addr)), [Some('a'), Some('c'), Some('a')]);
    }
}
