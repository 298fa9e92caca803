//! What a first touch costs on this machine now, and by how much the event pair misreads it.
//!
//! In: nothing. Out: a [`Calibration`]. A thread touches blocks of private base pages, alternately with
//! the pair off and on. The two medians give the true cost and the cost of recording. The offset is the
//! difference between a reading and the touches just before it. Without the pair only the true cost remains,
//! and readings equal it.
//!
//! A machine changes its speed within a tenth of a second. So only a few rounds come before the program
//! starts. The others are spread over its run, between bursts, and the rest comes at the end. Where the first rounds
//! agree with those of an earlier calibration (`kept`), a program of less than a second gets no others.
//!
//! While anyone has such an event open, the kernel checks every fault of every process for events that count
//! it (a static key per kind, `perf_swevent_enabled`). An unwatched program does not pay for that. So this
//! cost is measured too and subtracted from the true cost.
//!
//! It does not warm memory that the hypervisor has taken back. One warm-up block shows that such
//! pages are outliers, and the medians ignore them.

mod kept;
mod timed;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use faultless_os::advise::pmd_bytes;
use faultless_os::counters::{now_ns, time_and_tick};
use faultless_os::perf::{Event, Output, Software, Spec, Target};
use faultless_os::ring::{Raw, Ring, records};
use faultless_os::touch::{Region, Touch, empty_ticks, time_touches, time_write};
use faultless_trace::measurement::{median, median_interval};
use faultless_trace::observation::Calibration;
use faultless_trace::pairer::Pairer;

use crate::shape::entry;
use crate::symbols::NameCache;
use crate::write_cost::{WriteCost, WriteCosts};
use crate::{facts, tuning as t};
use kept::{Kept, Place};
pub(crate) use timed::timing_cost;

/// The kinds of touches, and how many rounds of each are wanted.
const TOUCHES: [(Touch, usize); 3] = [
    (Touch::Write, t::CALIBRATION_ROUNDS),
    (Touch::Read, t::CALIBRATION_OTHER_ROUNDS),
    (Touch::WriteAfterRead, t::CALIBRATION_OTHER_ROUNDS),
];
/// The index of first touches.
const WRITE: usize = 0;

/// A calibration under way.
pub(crate) struct Calibrator {
    /// The output of the event at a fault's end; `None`: the pair is not calibrated.
    end: Option<Output>,
    clock: Clock,
    /// What open events cost every fault, ns.
    open_ns: Option<f64>,
    pair: Option<Pair>,
    /// In the order of [`TOUCHES`].
    rounds: [Vec<Round>; TOUCHES.len()],
    write_costs: WriteCosts,
    /// Where it is kept, and an earlier one that agrees.
    place: Option<Place>,
    kept: Option<Kept>,
    /// Nothing was kept before, so all rounds are worth their time.
    is_first: bool,
    /// Whether more rounds may be tried while the program runs.
    is_resumable: bool,
    /// When the next one is due.
    next_ns: u64,
}

impl Calibrator {
    /// Takes the first rounds. With `end`, the output of the event at a fault's end, it calibrates the event
    /// pair too. `None` only if memory can't be mapped.
    pub(crate) fn begin(end: Option<Output>) -> Option<Self> {
        Self::begin_in(end, crate::cache_folder().map(|folder| folder.join("calibration")).as_deref())
    }

    fn begin_in(end: Option<Output>, folder: Option<&Path>) -> Option<Self> {
        let place =
            end.zip(folder.and_then(NameCache::open)).and_then(|(end, folder)| Place::of(end, folder));
        let kept = place.as_ref().and_then(Place::read);
        let mut begun = Self {
            end,
            clock: Clock::begin(empty_ticks()),
            open_ns: kept.as_ref().map(|kept| kept.open_ns),
            pair: None,
            rounds: Default::default(),
            write_costs: WriteCosts::default(),
            is_first: place.is_some() && kept.is_none(),
            place,
            kept: None,
            is_resumable: end.is_some(),
            next_ns: 0,
        };
        begun.measure_opening();
        begun.pair = end.and_then(|end| Pair::open(end).ok());
        begun.take(WRITE, t::CALIBRATION_FIRST_ROUNDS)?;
        if begun.rounds[WRITE].iter().all(|round| round.with.is_none()) {
            (begun.end, begun.is_resumable) = (None, false);
        }
        // Its ring counts against the user's limit, which the session's rings need.
        begun.pair = None;
        let was_kept = kept.is_some();
        begun.kept = kept.filter(|kept| {
            let first = kept.rounds[WRITE].len().min(t::CALIBRATION_FIRST_ROUNDS);
            agree(&kept.rounds[WRITE][..first], &begun.rounds[WRITE])
        });
        if was_kept && begun.kept.is_none() {
            begun.open_ns = None;
            begun.measure_opening();
        }
        let pause_ns = if begun.kept.is_some() { t::CALIBRATION_KEPT_NS } else { t::CALIBRATION_PAUSE_NS };
        begun.next_ns = now_ns() + pause_ns;
        Some(begun)
    }

    fn measure_opening(&mut self) {
        if self.open_ns.is_none() && self.end.is_some() {
            self.open_ns = open_ticks(t::CALIBRATION_OPENINGS).map(|ticks| ticks * self.clock.tick_ns());
        }
    }

    /// Takes a round if one is due. Returns whether it did.
    pub(crate) fn advance(&mut self, now: u64) -> bool {
        let done = |index: &usize| self.rounds[*index].len() as f64 / TOUCHES[*index].1 as f64;
        let next =
            (0..TOUCHES.len()).min_by(|a, b| done(a).total_cmp(&done(b))).filter(|next| done(next) < 1.0);
        let Some(index) = next.filter(|_| self.is_resumable && now >= self.next_ns) else { return false };
        self.next_ns = now + t::CALIBRATION_PAUSE_NS;
        self.resume();
        if self.pair.is_none() {
            return false;
        }
        self.is_resumable = self.take(index, 1).is_some();
        if self.is_whole() {
            self.pair = None;
        }
        true
    }

    /// Takes the missing rounds, those of other kinds as far as they are worth it for a program of that much CPU
    /// time, and returns the calibration with the cost of one record.
    pub(crate) fn finish(mut self, cpu_ns: u64) -> Option<(Calibration, Option<WriteCost>)> {
        let worth = if self.is_first { 1.0 } else { (cpu_ns as f64 / t::CALIBRATION_FULL_CPU_NS).min(1.0) };
        for (index, (_, wanted)) in TOUCHES.iter().enumerate() {
            let wanted = if index == WRITE { *wanted } else { (*wanted as f64 * worth).ceil() as usize };
            let missing = wanted.saturating_sub(self.rounds[index].len());
            if missing == 0 || self.kept.is_some() {
                continue;
            }
            self.is_resumable = self.end.is_some();
            self.resume();
            if self.pair.is_some() {
                // A refusal leaves what there is.
                let _ = self.take(index, missing);
            }
        }
        self.pair = None;
        let found = self.so_far()?;
        let written = self.write_costs.cost();
        if self.is_whole() {
            if let Some(place) = &self.place {
                place.write(&Kept { rounds: self.rounds, open_ns: self.open_ns.unwrap_or(0.0), written });
            }
            return Some((found, written));
        }
        Some((found, self.kept.map_or(written, |kept| kept.written)))
    }

    fn is_whole(&self) -> bool {
        self.rounds.iter().zip(TOUCHES).all(|(rounds, (_, wanted))| rounds.len() >= wanted)
    }

    /// Opens the events again. If there is no room for them while the program runs, all that is missing
    /// comes at the end.
    fn resume(&mut self) {
        if self.pair.is_none() && self.is_resumable {
            self.pair = self.end.and_then(|end| Pair::open(end).ok());
            self.is_resumable = self.pair.is_some();
        }
    }

    /// The calibration by the rounds so far, and by those of before as long as too few are new.
    pub(crate) fn so_far(&self) -> Option<Calibration> {
        let [written, read, mapped] = [0, 1, 2].map(|index| {
            let new = &self.rounds[index];
            let kept = self.kept.as_ref().filter(|_| new.len() < TOUCHES[index].1);
            kept.iter().flat_map(|kept| &kept.rounds[index]).chain(new).copied().collect::<Vec<Round>>()
        });
        let plain_p50_ns = median(&written.iter().map(|round| round.plain_ns).collect::<Vec<_>>())?;
        let offset_ns = self.end.and_then(|_| median(&offsets_ns(&written)));
        let loaded: Vec<f64> = written.iter().filter_map(|round| Some(round.with?[0])).collect();
        let loaded_p50_ns = offset_ns.and_then(|_| median(&loaded)).unwrap_or(plain_p50_ns);
        let open_ns = offset_ns.and(self.open_ns).unwrap_or(0.0);
        let offset_error_ns = |rounds: &[Round]| {
            let found = median_interval(&offsets_ns(rounds)).filter(|_| rounds.len() > 1);
            found.map_or(0.0, |found| (found.high - found.low) / 2.0)
        };
        let [read_offset_ns, mapped_offset_ns] =
            [read, mapped].map(|rounds| median(&offsets_ns(&rounds)).map(|offset_ns| offset_ns + open_ns));
        Some(Calibration {
            truth_p50_ns: plain_p50_ns - open_ns,
            pair_p50_ns: plain_p50_ns + offset_ns.unwrap_or(0.0),
            record_cost_ns: (loaded_p50_ns - plain_p50_ns).max(0.0),
            pages: (written.len() * t::CALIBRATION_BLOCK_PAGES) as u32,
            offset_error_ns: self.end.map_or(0.0, |_| offset_error_ns(&written)),
            read_offset_ns,
            mapped_offset_ns,
        })
    }

    /// Takes rounds. `None` if memory can't be mapped or the events can't be switched.
    fn take(&mut self, index: usize, rounds: usize) -> Option<()> {
        let pages = t::CALIBRATION_BLOCK_PAGES;
        let touch = TOUCHES[index].0;
        let pair = self.pair.as_ref();
        let block = |events: &dyn Fn() -> faultless_os::Result<()>| {
            let (mut ticks, mut on) = (Vec::with_capacity(pages), Ok(()));
            let touched = time_touches(touch, pages, &mut ticks, || on = events());
            touched.and(on).ok()?;
            middle(&mut ticks)
        };
        let _reading = pair.map(Pair::start_reading);
        // The first block runs on cold caches: it read 0.4 us too long, and offsets too small by that.
        block(&|| Ok(()))?;
        let mut blocks = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let plain = block(&|| Ok(()))?;
            let loaded = pair.map(|pair| {
                let loaded = block(&|| pair.enable());
                pair.disable().ok().and(loaded)
            });
            blocks.push((now_ns(), plain, loaded.map_or(Some(None), |loaded| loaded.map(Some))?));
        }
        let mut readings = pair.map(|pair| pair.read(&mut self.write_costs)).unwrap_or_default();
        let ns = self.clock.ns();
        for (end_ns, plain, loaded) in blocks {
            let later = readings.split_off(readings.partition_point(|(time_ns, _)| *time_ns < end_ns));
            let mut of_round: Vec<u64> = readings.iter().map(|(_, ns)| *ns).collect();
            let with =
                loaded.zip(middle(&mut of_round)).map(|(loaded, reading)| [ns(loaded), reading as f64]);
            self.rounds[index].push(Round { plain_ns: ns(plain), with });
            readings = later;
        }
        Some(())
    }
}

/// A block of touches without events and one right after with them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Round {
    /// Median, ns.
    plain_ns: f64,
    /// The same with events, and the median reading; `None` without readings.
    with: Option<[f64; 2]>,
}

/// How much too long a reading is, by round: the machine is the same only within a round.
fn offsets_ns(rounds: &[Round]) -> Vec<f64> {
    rounds.iter().filter_map(|round| Some(round.with?[1] - round.plain_ns)).collect()
}

/// Whether the machine is as it was when it took these first rounds: a touch takes about as long, and reads as much
/// longer.
fn agree(then: &[Round], now: &[Round]) -> bool {
    let plain = |rounds: &[Round]| median(&rounds.iter().map(|round| round.plain_ns).collect::<Vec<_>>());
    let offset = |rounds: &[Round]| median(&offsets_ns(rounds));
    let apart = |of: &dyn Fn(&[Round]) -> Option<f64>| Some((of(now)? - of(then)?).abs());
    plain(then).zip(apart(&plain)).zip(apart(&offset)).is_some_and(
        |((plain_ns, plain_apart_ns), apart_ns)| {
            let most_ns = t::CALIBRATION_AGREES_SHARE * plain_ns;
            plain_apart_ns <= 2.0 * most_ns && apart_ns <= most_ns
        },
    )
}

/// By how much a touch takes longer while events of both kinds are open but off. `None` where they can't be
/// opened.
fn open_ticks(openings: usize) -> Option<f64> {
    let block = || {
        let mut ticks = Vec::with_capacity(t::CALIBRATION_BLOCK_PAGES);
        time_touches(Touch::Write, t::CALIBRATION_BLOCK_PAGES, &mut ticks, || {}).ok()?;
        middle(&mut ticks)
    };
    block();
    let mut longer = Vec::with_capacity(openings);
    for _ in 0..=openings {
        let plain = block()?;
        let open = |event| Event::open(&Spec { event, ..HERE }, THREAD, None).ok();
        let _events = [open(Software::PageFaults)?, open(Software::MinorFaults)?];
        longer.push(block()? as f64 - plain as f64);
    }
    // The first opening on an idle machine disturbs the block behind it.
    longer.remove(0);
    median(&longer).map(|ticks| ticks.max(0.0))
}

/// What a fault of a huge page takes, ns. It is the median of a few touches of new memory, and of as many of
/// the same memory again. The first find it outside the caches, the second inside: 230 and 100 us on one
/// guest. `None` without huge pages.
pub(crate) fn huge_ns() -> Option<u64> {
    let bytes = Some(pmd_bytes()).filter(|bytes| *bytes > 0)?;
    let clock = Clock::begin(empty_ticks());
    let [before, _] = facts::vmstat(facts::HUGE_PAGES)?;
    let mut ticks = Vec::new();
    for _ in 0..2 {
        let mut region = Region::thp(t::CALIBRATION_HUGE_PAGES * bytes, bytes).ok()?;
        ticks.extend(region.bytes_mut().chunks_exact_mut(bytes).map(|page| time_write(&mut page[0], 1)));
    }
    let [now, _] = facts::vmstat(facts::HUGE_PAGES)?;
    let is_huge = now.saturating_sub(before) >= ticks.len() as u64;
    middle(&mut ticks).filter(|_| is_huge).map(|ticks| clock.ns()(ticks) as u64)
}

/// Events of this thread, off.
const HERE: Spec = Spec {
    event: Software::PageFaults,
    output: Output::Count,
    user_only: true,
    inherit: false,
    on_exec: false,
    disabled: true,
};
const THREAD: Target = Target { pid: 0, cpu: None };

/// From ticks to time.
struct Clock {
    begin_ns: u64,
    begin: u64,
    empty_ticks: u64,
}

impl Clock {
    fn begin(empty_ticks: u64) -> Self {
        let (begin_ns, begin) = time_and_tick();
        Self { begin_ns, begin, empty_ticks }
    }

    /// ns, since the begin.
    fn tick_ns(&self) -> f64 {
        let (end_ns, end) = time_and_tick();
        (end_ns - self.begin_ns) as f64 / end.wrapping_sub(self.begin).max(1) as f64
    }

    /// How long an interval of this many ticks took since the begin, ns.
    fn ns(&self) -> impl Fn(u64) -> f64 + use<> {
        let (tick_ns, empty_ticks) = (self.tick_ns(), self.empty_ticks);
        move |ticks| ticks.saturating_sub(empty_ticks) as f64 * tick_ns
    }
}

/// The two events on this thread, with their ring.
struct Pair {
    read: Arc<Mutex<RingReader>>,
    leader: Event,
    /// Only kept open.
    _others: [Event; 2],
    /// Stand for the counter and the sampled event that a watched program also has. They are opened first, so
    /// they count last, between entry and end, and lengthen the reading.
    counters: Vec<Event>,
    /// Event ids: second entry, entry, end.
    ids: [u64; 3],
    /// Copies the ring from another processor while the pages are touched, as a recorder does. The copy takes
    /// the ring's memory out of this processor's cache, and the next entries are written there between the
    /// two time stamps.
    reader: Option<JoinHandle<()>>,
    state: Arc<ReaderState>,
}

/// What the reader thread is to do.
#[derive(Default)]
struct ReaderState {
    must_stop: AtomicBool,
    /// Pages are touched; otherwise the thread is parked.
    must_read: AtomicBool,
}

/// While this lives, the reader thread copies the ring.
struct Reading<'a>(&'a Pair);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.state.must_read.store(false, Ordering::Relaxed);
    }
}

/// A ring and what was read from it.
#[derive(Debug)]
struct RingReader {
    ring: Ring,
    bytes: Vec<u8>,
}

impl RingReader {
    fn drain(&mut self) {
        self.ring.drain_into(&mut self.bytes);
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.state.must_stop.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            reader.thread().unpark();
            // If the reader panicked, there is no result to collect.
            let _ = reader.join();
        }
    }
}

impl Pair {
    fn open(end: Output) -> faultless_os::Result<Self> {
        let spec = Spec { output: entry(t::WRITE_COST_PERIOD), ..HERE };
        let count = || Event::open(&HERE, THREAD, None).ok();
        let counters = [count(), count()].into_iter().flatten().collect();
        let leader = Event::open(&spec, THREAD, None)?;
        // A recording fills its ring many times over, and writes into memory that another processor has read.
        // `stat` fills it hardly once.
        let pages = match end {
            Output::FaultStacks { .. } => t::CALIBRATION_RING_PAGES,
            _ => t::RING_PAGES_MAX,
        };
        let ring = Ring::map(&leader, pages).or_else(|_| Ring::map(&leader, t::CALIBRATION_RING_PAGES))?;
        let member = |event, output| -> faultless_os::Result<Event> {
            let event = Event::open(&Spec { event, output, disabled: false, ..spec }, THREAD, Some(&leader))?;
            event.redirect_to(&leader)?;
            Ok(event)
        };
        let others = [member(Software::PageFaults, entry(1))?, member(Software::MinorFaults, end)?];
        let ids = [leader.id()?, others[0].id()?, others[1].id()?];
        let read = Arc::new(Mutex::new(RingReader { ring, bytes: Vec::new() }));
        let state = Arc::new(ReaderState::default());
        let (shared, told) = (read.clone(), state.clone());
        let copy = move || {
            while !told.must_stop.load(Ordering::Relaxed) {
                if told.must_read.load(Ordering::Relaxed) {
                    shared.lock().unwrap_or_else(PoisonError::into_inner).drain();
                    std::thread::sleep(t::CALIBRATION_READ);
                } else {
                    std::thread::park();
                }
            }
        };
        // Without the reader, readings are slightly shorter than a program's.
        let reader = std::thread::Builder::new().spawn(copy).ok();
        Ok(Self { read, leader, _others: others, counters, ids, reader, state })
    }

    fn start_reading(&self) -> Reading<'_> {
        self.state.must_read.store(true, Ordering::Relaxed);
        if let Some(reader) = &self.reader {
            reader.thread().unpark();
        }
        Reading(self)
    }

    fn enable(&self) -> faultless_os::Result<()> {
        self.counters.iter().chain([&self.leader]).try_for_each(Event::enable)
    }

    fn disable(&self) -> faultless_os::Result<()> {
        self.counters.iter().chain([&self.leader]).try_for_each(Event::disable)
    }

    /// End time and reading, ns, of each fault since the last call whose entry was written once. It first waits
    /// until the reader thread has copied the ring. If this processor read the ring itself, the ring would be
    /// in its caches, and writing the next records would be too cheap.
    fn read(&self, write_costs: &mut WriteCosts) -> Vec<(u64, u64)> {
        std::thread::sleep(2 * t::CALIBRATION_READ);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.drain();
        let [again, entry, end] = self.ids;
        let mut pairer = Pairer::default();
        let mut readings = Vec::new();
        let mut last_ns = 0;
        for raw in records(&read.bytes) {
            let Raw::Sample(sample) = raw else { continue };
            let (tid, time_ns) = (sample.tid, sample.time_ns);
            if sample.id == again || (sample.id == entry && time_ns == last_ns) {
                write_costs.again(tid, time_ns);
            } else if sample.id == entry {
                pairer.enter(tid, time_ns, sample.addr, ());
                last_ns = time_ns;
            } else if sample.id == end
                && let Some((entry, _)) = pairer.end(tid, sample.addr)
                && let (ns, 0) = write_costs.add(tid, entry.time_ns, time_ns)
            {
                readings.push((time_ns, ns));
            }
        }
        read.bytes.clear();
        readings
    }
}

/// The upper median.
fn middle(values: &mut [u64]) -> Option<u64> {
    let middle = values.len() / 2;
    if values.is_empty() { None } else { Some(*values.select_nth_unstable(middle).1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;

    fn whole(end: Option<Output>) -> (Calibration, Option<WriteCost>) {
        Calibrator::begin_in(end, None).and_then(|begun| begun.finish(u64::MAX)).unwrap()
    }

    #[test]
    fn a_touch_has_a_price_and_recording_adds_to_it() {
        let (found, written) = whole(Some(Shape::BARE.end(1)));
        eprintln!("{found:?} {written:?}");
        assert!((50.0..100_000.0).contains(&found.truth_p50_ns), "{found:?}");
        assert!(found.pair_p50_ns > 0.0 && found.record_cost_ns >= 0.0, "{found:?}");
        if found.record_cost_ns > 0.0 {
            let ns = written.unwrap().ns;
            assert!(ns > 0.0 && ns < found.record_cost_ns, "{ns} of {found:?}");
        }
    }

    #[test]
    fn rounds_agree_where_touches_and_readings_take_as_long_as_before() {
        let rounds =
            |plain_ns: f64, reading_ns: f64| [Round { plain_ns, with: Some([900.0, reading_ns]) }; 4];
        let then = rounds(500.0, 600.0);
        assert!(agree(&then, &rounds(510.0, 600.0)) && agree(&then, &rounds(500.0, 580.0)));
        assert!(!agree(&then, &rounds(600.0, 700.0)), "a slower machine");
        assert!(!agree(&then, &rounds(500.0, 700.0)), "dearer records");
        assert!(!agree(&then, &[Round { plain_ns: 500.0, with: None }; 4]));
    }

    #[test]
    fn without_events_the_reading_is_the_truth() {
        let (found, _) = whole(None);
        assert_eq!(found.offset_ns(), 0.0);
        assert_eq!(found.record_cost_ns, 0.0);
    }
}
