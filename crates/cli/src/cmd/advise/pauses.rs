//! Cures that help, once more after pauses in which the host of this virtual machine takes free memory back.
//!
//! In: the ways to run the program, and a verdict. Out: a verdict that knows what runs after pauses took. The rounds run on
//! memory that is warm; the next run of a user may find none.

use std::time::{Duration, Instant};

use faultless_console::Failure;
use faultless_os::spawn;
use faultless_prof::Sources;
use faultless_trace::advice::{Advice, Terms};

use super::super::bench::{Way, say};
use super::super::rounds::{Engine, Input, Job, Stop, shuffled};

/// Linux reports free pages two seconds after they are freed (mm/page_reporting.c); the host takes them within one more.
pub(super) const PAUSE: Duration = Duration::from_secs(4);
/// Runs of each arm. Chosen: one may meet another job of the machine.
const RUNS: usize = 2;
/// A cure that only helps on warm memory gives its place to another one so many times.
const TURNS: usize = 2;
/// With less time than this, there is none for pauses.
const TIME_MIN: Duration = Duration::from_secs(20);

/// Whether a comparison of this time has runs after pauses.
pub(super) fn has_time(time: Duration) -> bool {
    time >= TIME_MIN
}

/// What is asked after pauses.
pub(super) struct Pauses<'a> {
    engine: Engine,
    ways: &'a [Way],
    until: Instant,
    pause: Duration,
}

impl<'a> Pauses<'a> {
    /// Of these ways, of which the first is the program as it is.
    pub(super) fn new(ways: &'a [Way], input: Input, until: Instant) -> Self {
        Self { engine: Engine::new(input, "{bar:30} {pos}/{len} {msg}", 0), ways, until, pause: PAUSE }
    }

    /// A verdict that knows them, from one that does not. A request to end keeps what is known.
    ///
    /// # Errors
    /// `judge` fails, or a program can't be run.
    pub(super) fn ask(
        self,
        mut advice: Advice,
        terms: &mut Terms,
        judge: impl Fn(&Terms) -> Result<Advice, Failure>,
    ) -> Result<Advice, Failure> {
        terms.after_pause = vec![None; self.ways.len()];
        for _ in 0..TURNS {
            let run_ns = advice.scores.first().map_or(0.0, |base| base.figures.wall_ns.median.value);
            let each = self.pause + Duration::from_nanos(run_ns as u64);
            let left = self.until.saturating_duration_since(Instant::now()).as_secs_f64();
            // The one to recommend in any case, and those beside it as far as the time goes.
            let most = (left / (each.as_secs_f64() * RUNS as f64)) as usize;
            let level =
                advice.winner.iter().chain(advice.level.iter().filter(|&&arm| Some(arm) != advice.winner));
            let unknown = level.copied().filter(|&arm| terms.after_pause[arm].is_none());
            let arms: Vec<usize> = unknown.take(most.saturating_sub(1).max(1)).collect();
            if advice.winner.is_none_or(|winner| terms.after_pause[winner].is_some()) {
                break;
            }
            self.tell(each * ((arms.len() + 1) * RUNS) as u32);
            match self.ratios(&arms) {
                Ok(ratios) => {
                    arms.iter().zip(ratios).for_each(|(&arm, ratio)| terms.after_pause[arm] = Some(ratio))
                }
                Err(Stop::Interrupted) => break,
                Err(stop) => return Err(stop.failure()),
            }
            advice = judge(terms)?;
        }
        self.engine.bar.finish_and_clear();
        Ok(advice)
    }

    /// Says what comes, and how long it will take.
    fn tell(&self, all: Duration) {
        let text = format!(
            "what helps runs {RUNS} times more, after pauses of {} s in which the host takes memory back: about {:.0} s",
            self.pause.as_secs(),
            all.as_secs_f64()
        );
        if self.engine.bar.is_hidden() {
            say(&text);
        } else {
            self.engine.bar.set_message(text);
        }
    }

    /// The elapsed time of these arms beside the first one's: the smallest ratio of all rounds.
    fn ratios(&self, arms: &[usize]) -> Result<Vec<f64>, Stop> {
        let all: Vec<usize> = [0].into_iter().chain(arms.iter().copied()).collect();
        let bar = &self.engine.bar;
        bar.reset();
        bar.set_length((all.len() * RUNS) as u64);
        let mut smallest = vec![f64::MAX; arms.len()];
        for _ in 0..RUNS {
            let mut wall_ns = vec![0.0; all.len()];
            for at in shuffled(all.len()) {
                let way = &self.ways[all[at]];
                wait(self.pause)?;
                let job = Job { command: &way.command, environment: &way.environment, allow: Sources::NONE };
                wall_ns[at] = self.engine.observe(job)?.seen.usage.wall_ns as f64;
                bar.inc(1);
            }
            for (smallest, own) in smallest.iter_mut().zip(&wall_ns[1..]) {
                *smallest = smallest.min(own / wall_ns[0]);
            }
        }
        Ok(smallest)
    }
}

/// Waits, but not beyond a request to end.
fn wait(pause: Duration) -> Result<(), Stop> {
    let until = Instant::now() + pause;
    while Instant::now() < until {
        if spawn::asked_to_end() {
            return Err(Stop::Interrupted);
        }
        std::thread::sleep(Duration::from_millis(50).min(pause));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use faultless_trace::observation::{Exit, Host};
    use faultless_trace::rounds::{Alike, Arm, Run, Series};

    use super::*;

    #[test]
    fn a_cure_that_is_slow_after_a_pause_gives_its_place_to_the_next() {
        let way = |name: &str, seconds: &str| Way {
            arm: Arm { name: name.to_owned(), what: String::new(), adopt: String::new() },
            command: ["sleep", seconds].map(Into::into).into(),
            environment: Vec::new(),
        };
        let ways = [way("as it is", "0.1"), way("a", "0.4"), way("b", "0.1")];
        let run = |wall_ns, faults| Run {
            wall_ns,
            cpu_ns: wall_ns,
            system_ns: 0,
            faults,
            peak_rss_bytes: 1 << 20,
            exit: Exit::Status(0),
            stdout_hash: 0,
            stdout_bytes: 0,
            stdout_words: 0,
        };
        let series: Vec<Series> = [(0, 90, 100), (1, 20, 1), (2, 40, 1)]
            .map(|(arm, ms, faults)| Series {
                arm: ways[arm as usize].arm.clone(),
                warm_up: run(ms * 1_000_000, faults),
                runs: (0..8).map(|more| run((ms * 1000 + more) * 1000, faults)).collect(),
                fault_seconds: vec![],
                end_bytes: vec![],
                alike: Alike::Whole,
            })
            .into();
        let judge = |terms: &Terms| {
            faultless_trace::advice::judge(vec![], Host::default(), series.clone(), terms).map_err(Failure)
        };
        let mut terms = Terms { max_rss_increase: 0.5, ..Terms::default() };
        let first = judge(&terms).unwrap();
        assert_eq!(first.winner, Some(1));
        let pauses = Pauses::new(&ways, Input::Null, Instant::now());
        let advice =
            Pauses { pause: Duration::from_millis(1), ..pauses }.ask(first, &mut terms, judge).unwrap();
        assert_eq!(advice.winner, Some(2), "{:?}", terms.after_pause);
        assert!(terms.after_pause[1].is_some_and(|ratio| ratio > 2.0), "{:?}", terms.after_pause);
        assert!(terms.after_pause[2].is_some(), "what takes its place is asked too: {:?}", terms.after_pause);
    }
}
