//! Runs random programs unchanged and under another allocator, compares output and exit, and shortens
//! programs that differ.
//!
//! In: seeds. Out: differences, each with a command that reproduces it. Knows nothing about the programs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::interposed::group::MemoryGroup;
use crate::interposed::{Case, faultless, finish, how};

/// As `PROFILES` in `programs/fuzzed/world.h`.
pub(crate) const PROFILES: u64 = 11;
/// Within this a program ends, whatever the machine does meanwhile; and within so many times what it takes as it is.
const LEAST_LIMIT: Duration = Duration::from_secs(120);
const TIMES_PLAIN: u32 = 20;
/// A search that has not tried each profile goes on, whatever its time.
const LEAST_TRIED: u64 = PROFILES;
/// Programs in a group of this share of the machine can't take its memory, whatever the tested allocator makes of them.
const GROUP_SHARE: u64 = 3;

/// As in the programs: they alter pages of their blocks.
pub(crate) const ALTERED: u64 = 9;
/// As `GROUP` in the programs: such a program has a control group of its own, and comes near its limit.
pub(crate) const NEAR_GROUP: u64 = 10;
const NEAR_GROUP_BYTES: u64 = 136 << 20;

/// Determines a program completely.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed {
    pub(crate) seed: u64,
    pub(crate) operations: u32,
    pub(crate) profile: u64,
}

impl Seed {
    /// The n-th program: profiles and lengths take turns.
    pub(crate) fn nth(seed: u64) -> Self {
        Self { seed, operations: 20 + (seed / PROFILES * 7 % 60) as u32, profile: seed % PROFILES }
    }

    fn words(&self) -> [String; 3] {
        [self.seed.to_string(), self.operations.to_string(), self.profile.to_string()]
    }
}

/// An allocator under test: its name, and how to run a program on it.
pub(crate) trait Under: Sync {
    fn name(&self) -> String;
    fn case(&self, program: &Path) -> Case;
}

/// `faultless run` with these options.
pub(crate) struct Policy<'a>(pub(crate) &'a [&'a str]);

impl Under for Policy<'_> {
    fn name(&self) -> String {
        format!("{} run {} --", faultless().to_string_lossy(), self.0.join(" "))
    }

    fn case(&self, program: &Path) -> Case {
        Case::pooled(program, self.0)
    }
}

/// The C library itself, with these variables.
pub(crate) struct Environment<'a>(pub(crate) &'a [(&'a str, &'a str)]);

impl Under for Environment<'_> {
    fn name(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name}={value} ")).collect()
    }

    fn case(&self, program: &Path) -> Case {
        self.0.iter().fold(Case::plain(program), |case, (name, value)| case.env(name, value))
    }
}

/// The outcome of a run.
struct Trial {
    ended: String,
    lines: Vec<String>,
    took: Duration,
}

/// The first difference.
pub(crate) struct Difference {
    seed: Seed,
    program: PathBuf,
    under: String,
    line: usize,
    plain: String,
    here: String,
    without: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, under, line, plain, here, without, .. } = self;
        let Seed { seed, operations, profile } = self.seed;
        let command = format!("{} {seed} {operations} {profile}", program.display());
        writeln!(f, "seed {seed}, {operations} operations, profile {profile}, under: {under}")?;
        writeln!(f, "  line {line} as it is: {plain}\n  line {line} here:     {here}")?;
        writeln!(f, "  again: {without}diff <({command} 2>&1; echo $?) <({under} {command} 2>&1; echo $?)")
    }
}

pub(crate) struct Driver {
    program: PathBuf,
    group: Option<MemoryGroup>,
    least_limit: Duration,
    without: &'static str,
    nth: fn(u64) -> Seed,
}

impl Driver {
    pub(crate) fn new(program: PathBuf) -> Self {
        let group = MemoryGroup::new(machine_bytes() / GROUP_SHARE).ok();
        Self { program, group, least_limit: LEAST_LIMIT, without: "", nth: Seed::nth }
    }

    /// Leaves kinds of operations out; see `is_without` in `programs/fuzzed/world.h`.
    pub(crate) fn without(mut self, kinds: &'static str) -> Self {
        self.without = kinds;
        self
    }

    /// Other programs than those of `Seed::nth`.
    pub(crate) fn programs(mut self, nth: fn(u64) -> Seed) -> Self {
        self.nth = nth;
        self
    }

    /// For tests of hangs.
    pub(crate) fn least_limit(mut self, limit: Duration) -> Self {
        self.least_limit = limit;
        self
    }

    fn trial(&self, case: Case, seed: Seed, limit: Duration) -> Trial {
        let mut case = case.args(&seed.words());
        if !self.without.is_empty() {
            case = case.env("FUZZED_WITHOUT", self.without);
        }
        let near = (seed.profile == NEAR_GROUP).then(|| MemoryGroup::new(NEAR_GROUP_BYTES).ok()).flatten();
        if let Some(group) = near.as_ref().or(self.group.as_ref()) {
            case = case.group(group.path());
        }
        let begin = Instant::now();
        let (status, output) = finish(case, limit);
        let lines = output.stdout.lines().map(String::from).collect();
        Trial { ended: how(status), lines, took: begin.elapsed() }
    }

    fn plain(&self, seed: Seed) -> Trial {
        self.trial(Case::plain(&self.program), seed, self.least_limit.max(LEAST_LIMIT) * 3)
    }

    /// Runs a program under `under`, and compares with its unchanged run.
    fn compare(&self, seed: Seed, plain: &Trial, under: &dyn Under) -> Option<Difference> {
        let limit = self.least_limit + plain.took * TIMES_PLAIN;
        let trial = self.trial(under.case(&self.program), seed, limit);
        let (line, plain, here) = first_difference(plain, &trial)?;
        let without = match self.without {
            "" => String::new(),
            kinds => format!("export FUZZED_WITHOUT={kinds}; "),
        };
        let (program, under) = (self.program.clone(), under.name());
        Some(Difference { seed, program, under, line, plain, here, without })
    }

    /// Does this for each of `under`. After a difference, halves the operations as long as the difference
    /// persists.
    pub(crate) fn try_seed(&self, seed: Seed, under: &[&dyn Under]) -> Vec<Difference> {
        let plain = self.plain(seed);
        let wrong = plain.lines.iter().find(|line| line.contains("WRONG") || line.contains("NOT "));
        assert!(wrong.is_none(), "the program is wrong about the C library: {seed:?} {wrong:?}");
        let mut found = Vec::new();
        for under in under {
            let Some(difference) = self.compare(seed, &plain, *under) else { continue };
            let again = first_difference(&plain, &self.plain(seed));
            assert!(again.is_none(), "the program is not the same twice: {seed:?} {again:?}");
            found.push(self.shrink(difference, *under));
        }
        found
    }

    fn shrink(&self, mut difference: Difference, under: &dyn Under) -> Difference {
        while difference.seed.operations > 1 {
            let seed = Seed { operations: difference.seed.operations / 2, ..difference.seed };
            match self.compare(seed, &self.plain(seed), under) {
                Some(shorter) => difference = shorter,
                None => break,
            }
        }
        difference
    }

    /// Tries seeds from `first` on, on two threads, until the time is over or enough differences are found.
    pub(crate) fn search<'a>(
        &self,
        first: u64,
        time: Duration,
        most: usize,
        under: impl Fn(u64) -> Vec<&'a dyn Under> + Sync,
    ) -> (u64, Vec<Difference>) {
        let (next, found, begin) = (AtomicU64::new(first), Mutex::new(Vec::new()), Instant::now());
        let work = || {
            let is_over = || begin.elapsed() >= time && next.load(Relaxed) - first >= LEAST_TRIED;
            while !is_over() && found.lock().unwrap().len() < most {
                let number = next.fetch_add(1, Relaxed);
                let differences = self.try_seed((self.nth)(number), &under(number));
                found.lock().unwrap().extend(differences);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(work);
            work();
        });
        (next.load(Relaxed) - first, found.into_inner().unwrap())
    }
}

/// The C library may leave another errno after a success; programs do not depend on it.
fn is_same(plain: &str, here: &str) -> bool {
    plain == here
        || plain
            .rsplit_once(": block, ")
            .is_some_and(|(call, error)| error != "kept" && format!("{call}: block, kept") == here)
}

fn first_difference(plain: &Trial, here: &Trial) -> Option<(usize, String, String)> {
    let count = plain.lines.len().max(here.lines.len());
    let line = |trial: &Trial, at: usize| {
        trial.lines.get(at).cloned().unwrap_or_else(|| format!("nothing more: {}", trial.ended))
    };
    let at = (0..count).find(|&at| match (plain.lines.get(at), here.lines.get(at)) {
        (Some(plain), Some(here)) => !is_same(plain, here),
        _ => true,
    });
    match at {
        Some(at) => Some((at + 1, line(plain, at), line(here, at))),
        None if plain.ended != here.ended => Some((count + 1, plain.ended.clone(), here.ended.clone())),
        None => None,
    }
}

fn machine_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total =
        text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok());
    total.unwrap_or(2 << 20_u64) * 1024
}
