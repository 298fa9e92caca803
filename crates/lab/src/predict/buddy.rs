//! A buddy allocator whose free blocks carry a mark: zeroed or not.
//!
//! In: blocks taken and freed. Out: pages with their mark. A split keeps the mark. Two buddies merge into a
//! zeroed block only if both are zeroed: one dirty page that returns unmarks its whole block.

/// No page.
const NONE: u32 = u32::MAX;
/// The order of a page that does not head a free block.
const TAKEN: u8 = u8::MAX;

/// The free pages of a node.
#[derive(Debug)]
pub(super) struct Buddy {
    most_order: u8,
    /// The first block of each order; dirty ones, then zeroed ones.
    heads: [Vec<u32>; 2],
    next: Vec<u32>,
    previous: Vec<u32>,
    order: Vec<u8>,
    is_zeroed: Vec<bool>,
    /// When a block was freed: the younger of two heads is taken first.
    stamp: Vec<u32>,
    stamps: u32,
    free_pages: u32,
    /// Whether a user who wants zeroes looks among all zeroed blocks before it takes a dirty one.
    is_apart: bool,
}

impl Buddy {
    /// So many free pages. The first `zeroed` of them are zeroed. `pages` is a multiple of the largest block.
    pub(super) fn new(pages: u32, most_order: u8, zeroed: u32, is_apart: bool) -> Self {
        let orders = usize::from(most_order) + 1;
        let mut buddy = Self {
            most_order,
            heads: [vec![NONE; orders], vec![NONE; orders]],
            next: vec![NONE; pages as usize],
            previous: vec![NONE; pages as usize],
            order: vec![TAKEN; pages as usize],
            is_zeroed: vec![false; pages as usize],
            stamp: vec![0; pages as usize],
            stamps: 0,
            free_pages: 0,
            is_apart,
        };
        let block = 1 << most_order;
        for page in (0..pages).step_by(block) {
            buddy.insert(page, most_order, page + block as u32 <= zeroed);
        }
        buddy
    }

    /// Pages in zeroed free blocks.
    #[cfg(test)]
    fn zeroed_pages(&self) -> u32 {
        let is_free = |page: &usize| self.order[*page] != TAKEN && self.is_zeroed[*page];
        (0..self.order.len()).filter(is_free).map(|page| 1 << self.order[page]).sum()
    }

    /// Pages in free blocks.
    pub(super) fn free_pages(&self) -> u32 {
        self.free_pages
    }

    fn insert(&mut self, page: u32, order: u8, is_zeroed: bool) {
        let at = page as usize;
        let head = &mut self.heads[usize::from(is_zeroed)][usize::from(order)];
        let next = std::mem::replace(head, page);
        (self.next[at], self.previous[at]) = (next, NONE);
        if next != NONE {
            self.previous[next as usize] = page;
        }
        self.stamps = self.stamps.wrapping_add(1);
        (self.order[at], self.is_zeroed[at], self.stamp[at]) = (order, is_zeroed, self.stamps);
        self.count(order, true);
    }

    fn remove(&mut self, page: u32) {
        let at = page as usize;
        let (order, is_zeroed) = (self.order[at], self.is_zeroed[at]);
        let (next, previous) = (self.next[at], self.previous[at]);
        match previous {
            NONE => self.heads[usize::from(is_zeroed)][usize::from(order)] = next,
            _ => self.next[previous as usize] = next,
        }
        if next != NONE {
            self.previous[next as usize] = previous;
        }
        self.order[at] = TAKEN;
        self.count(order, false);
    }

    fn count(&mut self, order: u8, is_more: bool) {
        let pages = 1 << order;
        self.free_pages = if is_more { self.free_pages + pages } else { self.free_pages - pages };
    }

    /// The block that a user who wants a zeroed page is served from.
    fn best(&self) -> Option<u32> {
        let first = |is_zeroed: usize| {
            let heads = self.heads[is_zeroed].iter();
            heads.copied().enumerate().find(|(_, page)| *page != NONE)
        };
        let (dirty, zeroed) = (first(0), first(1));
        match (dirty, zeroed) {
            (Some(dirty), Some(zeroed)) if !self.is_apart => {
                let is_younger = self.stamp[dirty.1 as usize] > self.stamp[zeroed.1 as usize];
                let is_dirty = dirty.0 < zeroed.0 || dirty.0 == zeroed.0 && is_younger;
                Some(if is_dirty { dirty.1 } else { zeroed.1 })
            }
            (dirty, zeroed) => zeroed.or(dirty).map(|(_, page)| page),
        }
    }

    /// Takes one page, and whether it is zeroed.
    pub(super) fn take_page(&mut self) -> Option<(u32, bool)> {
        let page = self.best()?;
        let (order, is_zeroed) = (self.order[page as usize], self.is_zeroed[page as usize]);
        self.remove(page);
        for half in (0..order).rev() {
            self.insert(page + (1 << half), half, is_zeroed);
        }
        Some((page, is_zeroed))
    }

    /// Takes the largest dirty block of at least this order.
    pub(super) fn take_dirty(&mut self, least_order: u8) -> Option<(u32, u8)> {
        let orders = (least_order..=self.most_order).rev();
        let page = orders.map(|order| self.heads[0][usize::from(order)]).find(|page| *page != NONE)?;
        let order = self.order[page as usize];
        self.remove(page);
        Some((page, order))
    }

    /// Frees a block. Returns the order that it merged to, and whether that block is zeroed.
    pub(super) fn free(&mut self, page: u32, order: u8, is_zeroed: bool) -> (u8, bool) {
        let (mut page, mut order, mut is_zeroed) = (page, order, is_zeroed);
        while order < self.most_order {
            let buddy = page ^ (1 << order);
            if self.order.get(buddy as usize) != Some(&order) {
                break;
            }
            is_zeroed &= self.is_zeroed[buddy as usize];
            self.remove(buddy);
            page = page.min(buddy);
            order += 1;
        }
        self.insert(page, order, is_zeroed);
        (order, is_zeroed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_keeps_the_mark_and_one_dirty_page_unmarks_the_block() {
        let mut buddy = Buddy::new(16, 3, 16, false);
        let (page, is_zeroed) = buddy.take_page().unwrap();
        assert!(is_zeroed);
        assert_eq!((buddy.free_pages(), buddy.zeroed_pages()), (15, 15));
        assert_eq!(buddy.free(page, 0, false), (3, false));
        assert_eq!((buddy.free_pages(), buddy.zeroed_pages()), (16, 8));
        assert_eq!(buddy.take_dirty(3), Some((page, 3)));
        assert_eq!(buddy.take_dirty(0), None);
        assert_eq!(buddy.free(page, 3, true), (3, true));
        assert_eq!(buddy.zeroed_pages(), 16);
    }

    #[test]
    fn zeroed_blocks_apart_are_used_before_smaller_dirty_ones() {
        for (is_apart, expected) in [(false, false), (true, true)] {
            let mut buddy = Buddy::new(16, 3, 8, is_apart);
            let taken: Vec<u32> = (0..9).map(|_| buddy.take_page().unwrap().0).collect();
            // One dirty page is free beside the rest of the blocks.
            buddy.free(*taken.iter().find(|page| **page >= 8).unwrap_or(&taken[0]), 0, false);
            buddy.free(*taken.iter().find(|page| **page < 8).unwrap_or(&taken[0]), 0, true);
            let is_zeroed = buddy.take_page().unwrap().1;
            assert!(is_zeroed == expected || !is_apart, "apart {is_apart}");
        }
    }

    #[test]
    fn all_pages_return_to_whole_blocks() {
        let mut buddy = Buddy::new(64, 4, 0, true);
        let mut random = fastrand::Rng::with_seed(1);
        let mut pages: Vec<u32> = std::iter::from_fn(|| buddy.take_page()).map(|(page, _)| page).collect();
        assert_eq!((pages.len(), buddy.free_pages()), (64, 0));
        random.shuffle(&mut pages);
        for page in pages {
            buddy.free(page, 0, false);
        }
        assert_eq!((0..4).filter(|_| buddy.take_dirty(4).is_some()).count(), 4);
    }
}
