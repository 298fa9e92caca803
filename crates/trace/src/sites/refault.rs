//! Faults and blocks -> the faults on memory that the program had given back.
//!
//! A process that kept its freed memory would need new memory only beyond the most that its blocks had at once. So
//! a fault counts unless it lies in the part of its block that exceeded all before, wherever the block's address is:
//! a vector that grows leaves a mapping and comes back in the heap. It is not known how long the memory was gone.
//! Blocks count whole, so one that was hardly touched lets later ones look like refaults; the curve of the readings
//! (`avoid`) bounds what a cure saves.

use std::collections::HashMap;

use crate::profile::{Block, Profile, births_and_deaths};

/// Whether each fault of the profile is a refault.
pub(super) fn refaulted(profile: &Profile) -> Vec<bool> {
    let blocks = &profile.blocks.blocks;
    let rooms = rooms(blocks);
    let is_refault = |fault: &crate::profile::Weighted| {
        fault.block.is_some_and(|number| {
            let number = number as usize;
            fault.addr.saturating_sub(blocks[number].addr) < rooms[number]
        })
    };
    profile.faults.iter().map(is_refault).collect()
}

/// Bytes of each block for which its process had had memory before.
fn rooms(blocks: &[Block]) -> Vec<u64> {
    let mut rooms = vec![0; blocks.len()];
    // Of each process the bytes in blocks now, and the most so far.
    let mut held: HashMap<u32, (u64, u64)> = HashMap::new();
    for (_, is_birth, number) in births_and_deaths(0..blocks.len(), |number| &blocks[number]) {
        let (block, (now, most)) = (&blocks[number], held.entry(blocks[number].pid).or_default());
        if is_birth {
            rooms[number] = most.saturating_sub(*now);
            *now = now.saturating_add(block.len_bytes);
            *most = (*most).max(*now);
        } else {
            *now = now.saturating_sub(block.len_bytes);
        }
    }
    rooms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(pid: u32, born_ns: u64, died_ns: Option<u64>, len_bytes: u64) -> Block {
        Block { pid, born_ns, died_ns, len_bytes, ..Block::default() }
    }

    #[test]
    fn what_exceeds_the_most_so_far_is_new_and_all_else_was_there() {
        let blocks = [
            block(1, 0, Some(10), 100),
            block(1, 5, Some(10), 50),
            block(1, 10, None, 120),
            block(1, 11, None, 60),
            block(2, 12, None, 60),
        ];
        assert_eq!(rooms(&blocks), [0, 0, 150, 30, 0]);
    }

    #[test]
    fn a_block_that_is_moved_makes_room_for_itself() {
        let grown = [block(1, 0, Some(5), 100), block(1, 5, Some(7), 200), block(1, 8, None, 200)];
        assert_eq!(rooms(&grown), [0, 100, 200]);
    }
}
