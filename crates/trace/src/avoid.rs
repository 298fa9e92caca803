//! The avoidable curve. Suppose the program had kept at most C bytes of the pages that it gave back: which
//! share of its faults would not have happened?
//!
//! In: [`Flow`]s, pages faulted in and given back per interval (`flow` computes them from sampled counters).
//! Out: `Avoided`, the number of avoided faults for any C, and the points and the knee of [`curve`]. `run`
//! collects the inputs of one run.
//!
//! Model: the kept pages are a stack of at most C. A release pushes a page; beyond C pages the bottom one is
//! dropped. A fault pops the top page, or is a real fault if the stack is empty. Which page is dropped does
//! not change the count. Dropping the bottom makes the stack of a smaller C the top part of a larger one
//! (inclusion). So one pass gives every C: a page that is taken had at most some number of others above it
//! while it waited, and every larger C would have kept it.
//!
//! The order inside an interval is not known. `Order::Mixed` is the best order for any C: releases of an
//! interval serve its own faults, and only the difference touches the stack. This is a true upper bound. The
//! lower bound runs the two extreme orders and takes the worse for each C. With releases last they come too
//! late for the interval's faults; with releases first they overflow a small stack. This is a true lower
//! bound if C is well above the flow of one interval, and nearly one otherwise. Whether a fault took a page
//! is not always known either: the lower bound assumes the fewest such faults, the upper bound the most.
//!
//! Keeping everything needs no order (`plateau`): it avoids the faults that take keepable pages, less those
//! that built up the peak. Counts give both, whatever the readings missed, so the curve ends at the plateau.
//!
//! The model knows no sizes and no addresses (a pool may be unable to use a kept page), no swap, and no
//! MADV_FREE.

mod flow;
mod growth;
mod plateau;
mod run;

use serde::{Deserialize, Serialize};

pub use crate::levels::Lifecycle;
pub use flow::{Bound, Growth, Memory, flows};
pub(crate) use run::{WIDE, avoidable};

use crate::kind::Source;
use crate::tuning::{CURVE_READINGS, KNEE_FROM, KNEE_POINTS};

const MIB: u64 = 1 << 20;

/// The avoidable curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// How the releases are known: with `Sampled` the two bounds differ.
    pub source: Source,
    /// Points by rising `keep_bytes`.
    pub points: Vec<Point>,
    /// The smallest amount that reaches (nearly) all that can be avoided.
    pub knee: Option<Point>,
    /// Number of readings of the counters.
    pub readings: u64,
}

/// Had the program kept at most `keep_bytes` of freed pages ...
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Kept at most, in bytes.
    pub keep_bytes: u64,
    /// ... at least this share of its faults need not have happened, 0 to 1 ...
    pub low: f64,
    /// ... and at most this share.
    pub high: f64,
}

/// Pages that faults made resident, and pages that were given back, in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Faulted in.
    pub faults: u64,
    /// Given back.
    pub releases: u64,
}

/// The order in which faults and releases of one interval are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// All faults, then all releases.
    FaultsFirst,
    /// All releases, then all faults.
    ReleasesFirst,
    /// Alternating, as fits best.
    Mixed,
}

/// How many faults would have been avoided, for every amount kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Avoided {
    /// Avoided as soon as one page is kept.
    at_once: u64,
    /// (C, n): each of the n amounts C, C + 1, ..., C + n - 1 avoids one more fault than the amount before.
    steps: Vec<(u64, u64)>,
}

impl Avoided {
    /// Faults avoided with at most `pages` kept.
    pub(crate) fn with(&self, pages: u64) -> u64 {
        if pages == 0 {
            return 0;
        }
        let at = |(first, n): &(u64, u64)| (pages + 1).saturating_sub(*first).min(*n);
        let pages_above = self.steps.iter().map(|step| if pages == u64::MAX { step.1 } else { at(step) });
        pages_above.fold(self.at_once, u64::saturating_add)
    }

    /// The amount from which more pages avoid nothing more.
    pub(crate) fn most_pages(&self) -> u64 {
        let last = self.steps.iter().map(|(first, n)| first.saturating_add(n - 1)).max();
        last.unwrap_or(0).max(u64::from(self.at_once > 0))
    }
}

/// Pages that were kept in one go and not taken yet.
struct Segment {
    pages: u64,
    /// The largest height of the stack since they were kept.
    peak: u64,
}

/// Runs the flows through a stack of kept pages, for all amounts at once.
pub(crate) fn kept_pages(flows: &[Flow], order: Order) -> Avoided {
    let mut avoided = Avoided::default();
    let mut stack: Vec<Segment> = Vec::new();
    let mut height = 0;
    for flow in flows {
        let Flow { mut faults, mut releases } = *flow;
        if order == Order::Mixed {
            let both = faults.min(releases);
            avoided.at_once = avoided.at_once.saturating_add(both);
            (faults, releases) = (faults - both, releases - both);
        }
        if order == Order::ReleasesFirst {
            keep(&mut stack, &mut height, releases);
        }
        take(&mut stack, &mut height, faults, &mut avoided.steps);
        if order != Order::ReleasesFirst {
            keep(&mut stack, &mut height, releases);
        }
    }
    avoided
}

fn keep(stack: &mut Vec<Segment>, height: &mut u64, pages: u64) {
    let pages = pages.min(u64::MAX - *height);
    if pages > 0 {
        *height += pages;
        stack.push(Segment { pages, peak: *height });
    }
}

fn take(stack: &mut Vec<Segment>, height: &mut u64, mut pages: u64, steps: &mut Vec<(u64, u64)>) {
    while pages > 0
        && let Some(top) = stack.last_mut()
    {
        let taken = pages.min(top.pages);
        // The page at the top of `height` was covered by `peak - height` others at most.
        let first = top.peak - *height + 1;
        match steps.last_mut() {
            Some((last, n)) if last.checked_add(*n) == Some(first) => *n += taken,
            _ => steps.push((first, taken)),
        }
        (top.pages, *height, pages) = (top.pages - taken, *height - taken, pages - taken);
        if top.pages == 0 {
            let peak = top.peak;
            stack.pop();
            if let Some(below) = stack.last_mut() {
                below.peak = below.peak.max(peak);
            }
        }
    }
}

/// Points and knee of sampled memory, or why there are none.
///
/// Points stand at 1, 4, 8, 16 ... MiB, up to the first that reaches the plateau: all avoidable faults. The
/// rest is compulsory, the first touch of peak memory. The knee is the smallest whole MiB with both bounds
/// within two points of their plateau. It is rounded up by an eighth at most, to a figure easy to remember:
/// 63 becomes 64, but never above what was held. It is named only if the plateau is worth it (5 %).
///
/// # Errors
/// The reason, in words, when there are too few readings or nothing was faulted in.
pub fn curve(memory: &Memory<'_>) -> Result<Curve, String> {
    let readings = memory.levels.len();
    if readings < CURVE_READINGS {
        return Err(format!(
            "memory was read {readings} times, too few for an avoidable curve (at least {CURVE_READINGS}): the program was too short"
        ));
    }
    let bounds = Bounds::new(memory)?;
    let plateau = bounds.plateau;
    let knee = (plateau.low >= KNEE_FROM).then(|| bounds.knee());
    Ok(Curve { source: Source::Sampled, points: bounds.points(), knee, readings: readings as u64 })
}

/// Both bounds as shares of all faults.
struct Bounds {
    worst: [Avoided; 2],
    best: Avoided,
    all_pages: f64,
    page_bytes: u64,
    /// From this amount on, everything is kept.
    enough_bytes: u64,
    plateau: Point,
}

impl Bounds {
    fn new(memory: &Memory<'_>) -> Result<Self, String> {
        if memory.levels.iter().all(|level| level.anon_bytes == 0) {
            return Err(
                "/proc is hidden, so resident memory could not be read: no avoidable curve".to_owned()
            );
        }
        let (fewest, most) = (flows(memory, Bound::Low), flows(memory, Bound::High));
        if most.iter().all(|flow| flow.faults == 0) {
            return Err(
                "no anonymous memory was faulted in between two readings: no avoidable curve".to_owned()
            );
        }
        // Only faults that take pages can be avoided. If more pages were taken than faults of the usual size
        // would, the faults are larger. Memory that was resident before the first counted fault is left out.
        let were_there = usize::from(memory.levels.first().is_some_and(|level| level.faults == 0));
        let taken: f64 = most.iter().skip(were_there).map(|flow| flow.faults as f64).sum();
        let all_pages = memory.all_pages.max(taken / memory.fresh_share.max(f64::MIN_POSITIVE));
        let mut bounds = Bounds {
            worst: [kept_pages(&fewest, Order::FaultsFirst), kept_pages(&fewest, Order::ReleasesFirst)],
            best: kept_pages(&most, Order::Mixed),
            all_pages: all_pages.max(1.0),
            page_bytes: memory.page_bytes.max(1),
            enough_bytes: u64::MAX,
            plateau: Point { keep_bytes: u64::MAX, low: 1.0, high: 1.0 },
        };
        let read = bounds.at(u64::MAX - bounds.page_bytes);
        let low = memory.plateau.0.unwrap_or(read.low);
        bounds.plateau = Point { low, high: memory.plateau.1.unwrap_or(read.high).max(low), ..read };
        let most_pages = bounds.worst.iter().chain([&bounds.best]).map(Avoided::most_pages).max();
        let most_bytes = most_pages.unwrap_or(0).saturating_mul(bounds.page_bytes);
        bounds.enough_bytes = if memory.held_bytes == u64::MAX { most_bytes } else { memory.held_bytes };
        Ok(bounds)
    }

    fn at(&self, keep_bytes: u64) -> Point {
        let Point { low: least, high: most, .. } = self.plateau;
        if keep_bytes >= self.enough_bytes {
            return Point { keep_bytes, low: least, high: most };
        }
        let share = |avoided: &Avoided| avoided.with(keep_bytes / self.page_bytes) as f64 / self.all_pages;
        let low = share(&self.worst[0]).min(share(&self.worst[1])).min(least);
        Point { keep_bytes, low, high: share(&self.best).clamp(low, most) }
    }

    fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for keep_bytes in [MIB, 4 * MIB].into_iter().chain((3..40).map(|shift| MIB << shift)) {
            let point = self.at(keep_bytes);
            points.push(point);
            if within(point, self.plateau, 0.001) {
                break;
            }
        }
        points
    }

    fn knee(&self) -> Point {
        let (mut below, mut reached) = (0, self.enough_bytes / MIB + 1);
        while reached - below > 1 {
            let middle = below + (reached - below) / 2;
            if within(self.at(middle.saturating_mul(MIB)), self.plateau, KNEE_POINTS) {
                reached = middle;
            } else {
                below = middle;
            }
        }
        let step = (1_u64 << reached.max(1).ilog2()) / 8;
        let rounded = reached.next_multiple_of(step.max(1)).saturating_mul(MIB);
        // More is not avoided with less.
        Point { high: self.plateau.high, ..self.at(rounded.min(self.enough_bytes)) }
    }
}

fn within(point: Point, plateau: Point, points: f64) -> bool {
    plateau.low - point.low <= points && plateau.high - point.high <= points
}

#[cfg(test)]
mod tests;
