//! Stacks -> stacks without towers: chains of calls too narrow to see end in a frame that counts what was cut.
//!
//! Every weight stays, and so does the width of each frame that is left.

use crate::tuning::TOWER_FRAMES;

/// Narrower frames than this share of the picture are less than a pixel wide: of 1200, inferno draws on 1180.
const NARROW: f64 = 1.0 / 1180.0;

/// The end of the name of a frame that stands for others.
const END: &str = " frames";

/// A stack, root first, and its weight.
type Stack<'a> = (Vec<&'a str>, f64);

/// The stacks. Names are joined by semicolons.
pub(super) fn cut(stacks: &[(String, f64)]) -> Vec<(String, f64)> {
    let mut split: Vec<Stack<'_>> =
        stacks.iter().map(|(stack, weight)| (stack.split(';').collect(), *weight)).collect();
    split.sort_by(|a, b| a.0.cmp(&b.0));
    let limit = NARROW * stacks.iter().map(|stack| stack.1).sum::<f64>();
    let mut kept = Vec::new();
    follow(&split, 0, 0, limit, &mut kept);
    kept
}

/// The last frame of a stack, if it stands for others.
pub(super) fn top(stack: &str) -> Option<&str> {
    let top = stack.rsplit(';').next()?;
    (top.starts_with('+') && top.ends_with(END)).then_some(top)
}

/// `stacks` share `depth` frames, of which the last `narrow` are too narrow to see.
fn follow(stacks: &[Stack<'_>], depth: usize, narrow: usize, limit: f64, kept: &mut Vec<(String, f64)>) {
    let ends = stacks.partition_point(|(frames, _)| frames.len() == depth);
    let (here, deeper) = stacks.split_at(ends);
    kept.extend(here.iter().map(|(frames, weight)| (frames.join(";"), *weight)));
    let levels = deeper.iter().map(|(frames, _)| frames.len() - depth).max().unwrap_or(0);
    if narrow >= TOWER_FRAMES && levels > 1 {
        let weight = deeper.iter().map(|stack| stack.1).sum();
        kept.push((format!("{};+{levels}{END}", deeper[0].0[..depth].join(";")), weight));
        return;
    }
    for same in deeper.chunk_by(|a, b| a.0[depth] == b.0[depth]) {
        let is_narrow = same.iter().map(|stack| stack.1).sum::<f64>() < limit;
        follow(same, depth + 1, if is_narrow { narrow + 1 } else { 0 }, limit, kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tower_of_a_pixel_is_cut_and_the_picture_keeps_its_sum() {
        let calls = |n: usize| (0..n).map(|at| format!("f{at}")).collect::<Vec<_>>().join(";");
        let stacks = [
            ("main".into(), 5000.0),
            (format!("main;{}", calls(130)), 1.0),
            (format!("main;{}", calls(90)), 0.5),
        ];
        let kept = cut(&stacks);
        let deepest = kept.iter().map(|(stack, _)| stack.split(';').count()).max();
        assert_eq!(deepest, Some(1 + TOWER_FRAMES + 1));
        assert!(
            kept.contains(&(format!("main;{};+{} frames", calls(TOWER_FRAMES), 130 - TOWER_FRAMES), 1.5))
        );
        assert_eq!(kept.iter().map(|stack| stack.1).sum::<f64>(), 5001.5);
        let wide = [("main".into(), 5000.0), (format!("main;{}", calls(130)), 500.0)];
        assert_eq!(cut(&wide), wide, "what is seen stays");
    }
}
