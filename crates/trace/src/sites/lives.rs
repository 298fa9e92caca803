//! The blocks of one allocating site -> their number, sizes and lifetimes.

use serde::{Deserialize, Serialize};

use crate::measurement::median;
use crate::profile::{Block, Profile, births_and_deaths};

/// The blocks of an allocating site.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockLives {
    /// Blocks allocated; one that was moved by realloc counts once.
    pub blocks: u64,
    /// Bytes asked for in all, growth by realloc included.
    pub bytes: u64,
    /// Median length, bytes.
    pub median_bytes: u64,
    /// Largest length, bytes.
    #[serde(default)]
    pub largest_bytes: u64,
    /// Median lifetime of the freed blocks, ns; `None` if most were not freed.
    pub median_life_ns: Option<u64>,
    /// Blocks that were not freed before the end.
    pub never_freed: u64,
    /// Most bytes alive at once.
    pub peak_bytes: u64,
    /// Most blocks alive at once in the first third of the time between the first birth and the last.
    pub live_early: u64,
    /// The same in the last third.
    pub live_late: u64,
    /// First birth, ns.
    pub first_ns: u64,
    /// Last birth, ns.
    pub last_ns: u64,
}

/// BlockLives by the number that `owner` gives a block.
pub(super) fn by_owner(profile: &Profile, owner: &mut dyn FnMut(u32) -> usize) -> Vec<Option<BlockLives>> {
    let blocks = &profile.blocks.blocks;
    let mut owned: Vec<Vec<u32>> = Vec::new();
    for number in 0..blocks.len() as u32 {
        let owner = owner(number);
        if owner >= owned.len() {
            owned.resize(owner + 1, Vec::new());
        }
        owned[owner].push(number);
    }
    let lives = |numbers: Vec<u32>| {
        let owned: Vec<&Block> = numbers.iter().map(|number| &blocks[*number as usize]).collect();
        (!owned.is_empty()).then(|| of(&owned, blocks))
    };
    owned.into_iter().map(lives).collect()
}

fn of(owned: &[&Block], all: &[Block]) -> BlockLives {
    let came_from = |block: &Block| block.moved_from.and_then(|from| all.get(from as usize));
    let grown =
        |block: &Block| block.len_bytes.saturating_sub(came_from(block).map_or(0, |from| from.len_bytes));
    let lengths: Vec<f64> = owned.iter().map(|block| block.len_bytes as f64).collect();
    let lives: Vec<f64> =
        owned.iter().filter_map(|b| Some(b.died_ns?.saturating_sub(b.born_ns) as f64)).collect();
    let first_ns = owned.iter().map(|block| block.born_ns).min().unwrap_or(0);
    let last_ns = owned.iter().map(|block| block.born_ns).max().unwrap_or(0);
    let mut found = BlockLives {
        blocks: owned.iter().filter(|block| block.moved_from.is_none()).count() as u64,
        bytes: owned.iter().map(|block| grown(block)).fold(0, u64::saturating_add),
        median_bytes: median(&lengths).unwrap_or(0.0) as u64,
        largest_bytes: owned.iter().map(|block| block.len_bytes).max().unwrap_or(0),
        median_life_ns: median(&lives).filter(|_| 2 * lives.len() >= owned.len()).map(|ns| ns as u64),
        never_freed: (owned.len() - lives.len()) as u64,
        first_ns,
        last_ns,
        ..BlockLives::default()
    };
    follow(owned, &mut found);
    found
}

/// Runs through births and deaths.
fn follow(owned: &[&Block], found: &mut BlockLives) {
    let third_ns = (found.last_ns - found.first_ns) / 3;
    let (mut live, mut bytes) = (0_u64, 0_u64);
    for (time_ns, is_birth, block) in births_and_deaths(owned.iter(), |block| block) {
        let len_bytes = block.len_bytes;
        if is_birth {
            (live, bytes) = (live + 1, bytes.saturating_add(len_bytes));
        } else {
            (live, bytes) = (live.saturating_sub(1), bytes.saturating_sub(len_bytes));
        }
        found.peak_bytes = found.peak_bytes.max(bytes);
        if time_ns <= found.first_ns + third_ns {
            found.live_early = found.live_early.max(live);
        } else if (found.last_ns - third_ns..=found.last_ns).contains(&time_ns) {
            found.live_late = found.live_late.max(live);
        }
    }
}
