//! How far the times of the BPF programs are off, and what they add to a fault.
//!
//! In: the programs. Out: a [`TimingCost`]. This thread touches blocks of private base pages, alternately without the
//! programs and with them at events of its own. A time begins and ends inside the trap: it lacks what lies outside, and holds
//! a part of what the programs take.
//!
//! The programs know no medians, so their mean is compared with the mean of the same touches. What they add is a
//! difference of medians.

use faultless_os::perf::{Event, Output, Software, Spec};
use faultless_os::touch::{Touch, empty_ticks, time_touches};
use faultless_trace::measurement::{median, median_interval};

use super::{Clock, HERE, THREAD, middle};
use crate::in_kernel::{Point, Timer, TimingCost};
use crate::tuning as t;

/// A block without the programs and one right after with them.
struct Round {
    plain: Ticks,
    with: Ticks,
    /// Mean time in the kernel, ns.
    in_kernel_ns: f64,
}

/// What a touch of a block took, in ticks.
#[derive(Clone, Copy)]
struct Ticks {
    mean: f64,
    median: f64,
}

/// Measures it.
///
/// # Errors
/// The events can't be opened, memory can't be mapped, or nothing was timed.
pub(crate) fn timing_cost(timer: &Timer) -> Result<TimingCost, String> {
    let clock = Clock::begin(empty_ticks());
    let spec = Spec { user_only: false, output: Output::Program, ..HERE };
    let open = |event, point| {
        let event = Event::open(&Spec { event, ..spec }, THREAD, None).map_err(|error| error.to_string())?;
        timer.run_at(&event, point).map(|()| event)
    };
    let events = [open(Software::PageFaults, Point::Begin)?, open(Software::MinorFaults, Point::MinorEnd)?];
    let enable = || events.iter().try_for_each(Event::enable);
    // The first block runs on cold caches.
    let mut rounds = Vec::new();
    for _ in 0..=t::TIMED_ROUNDS {
        rounds.extend(round(timer, &events, &enable));
    }
    let rounds = rounds.get(1..).unwrap_or_default();
    let (tick_ns, empty_ticks) = (clock.tick_ns(), clock.empty_ticks as f64);
    let of = |of: &dyn Fn(&Round) -> f64| rounds.iter().map(of).collect::<Vec<f64>>();
    let ns = |ticks: f64| (ticks - empty_ticks).max(0.0) * tick_ns;
    let outside = of(&|round| round.in_kernel_ns - ns(round.with.mean));
    let added = of(&|round| (round.with.median - round.plain.median) * tick_ns);
    let spread = |values: &[f64]| median_interval(values).map_or(0.0, |found| (found.high - found.low) / 2.0);
    let (outside_ns, added_ns) =
        median(&outside).zip(median(&added)).ok_or("no fault of its own was timed")?;
    let added_ns = added_ns.max(0.0);
    Ok(TimingCost {
        offset_ns: outside_ns + added_ns,
        offset_error_ns: spread(&outside).hypot(spread(&added)),
        added_ns,
    })
}

/// `None` if memory can't be mapped, or the thread was switched out in each fault.
fn round(timer: &Timer, events: &[Event; 2], enable: &dyn Fn() -> faultless_os::Result<()>) -> Option<Round> {
    let own = || timer.of(std::process::id()).minor[0];
    let block = |before: &dyn Fn() -> faultless_os::Result<()>| {
        let (mut ticks, mut on) = (Vec::with_capacity(t::CALIBRATION_BLOCK_PAGES), Ok(()));
        let touched = time_touches(Touch::Write, t::CALIBRATION_BLOCK_PAGES, &mut ticks, || on = before());
        touched.and(on).ok()?;
        let mean = ticks.iter().sum::<u64>() as f64 / ticks.len().max(1) as f64;
        Some(Ticks { mean, median: middle(&mut ticks)? as f64 })
    };
    let plain = block(&|| Ok(()))?;
    let before = own();
    let with = block(enable);
    events.iter().try_for_each(Event::disable).ok()?;
    let (after, with) = (own(), with?);
    let timed = after.timed - before.timed;
    (timed > 0).then(|| Round { plain, with, in_kernel_ns: (after.ns - before.ns) as f64 / timed as f64 })
}
