//! Runs of made-up programs, for comparing runs. Shared by the tests of `trace` and `report`.
#![allow(dead_code, reason = "each test program uses some of them")]

use faultless_trace::diff::Run;
use faultless_trace::measurement::Rng;
use faultless_trace::observation::Exit;
use faultless_trace::profile::{Basis, Profile, Totals, Weighted};
use faultless_trace::recording::{Footer, Frame, Header, Module, Name, Recording, Settings, Stacks};
use faultless_trace::stat::{FaultTime, Interval, Kind, KindRow, Source};

use super::scenario;

/// Where a program faults.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// Functions, leaf first; one in brackets is a place in that file that has no name.
    pub(crate) stack: Vec<&'static str>,
    pub(crate) faults: u32,
    pub(crate) price_ns: f64,
    pub(crate) mapping: &'static str,
}

pub(crate) fn site(stack: &[&'static str], faults: u32, price_ns: f64) -> Site {
    Site { stack: stack.to_vec(), faults, price_ns, mapping: "//anon" }
}

/// A program with five functions that touch, one by libc's memset.
pub(crate) fn program() -> Vec<Site> {
    vec![
        site(&["decode", "work", "main"], 6_000, 900.0),
        site(&["__memset_avx2_unaligned_erms", "clear", "work", "main"], 4_000, 700.0),
        site(&["index", "main"], 2_000, 800.0),
        site(&["load", "main"], 1_200, 1500.0),
        site(&["report", "main"], 400, 800.0),
    ]
}

/// The recording method and the noise of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions {
    pub(crate) seed: u64,
    /// Faults that a recorded one represents; 1: every fault.
    pub(crate) period: u32,
    /// The machine's price in this run.
    pub(crate) price: f64,
    /// The calibration's estimate of it.
    pub(crate) calibrated: f64,
    /// Largest relative deviation of a site's faults, and of its price, from the common value.
    pub(crate) apart: (f64, f64),
}

pub(crate) const QUIET: Conditions =
    Conditions { seed: 1, period: 1, price: 1.0, calibrated: 1.0, apart: (0.0, 0.0) };

fn unit(rng: &mut Rng) -> f64 {
    rng.below(1 << 30) as f64 / f64::from(1 << 30)
}

fn around(rng: &mut Rng, largest: f64) -> f64 {
    1.0 + largest * (2.0 * unit(rng) - 1.0)
}

pub(crate) fn header(conditions: &Conditions) -> Header {
    let every_fault = conditions.period == 1;
    Header {
        command: vec!["./program".into(), "input".into()],
        host: scenario::host(),
        calibration: Some(scenario::calibration(700.0 * conditions.calibrated, 200)),
        settings: Settings {
            every_fault,
            sample_period: if every_fault { 0 } else { u64::from(conditions.period) },
            ..Settings::default()
        },
        ..Header::default()
    }
}

fn frame(stacks: &mut Stacks, name: &'static str) -> u32 {
    let file = match name {
        "[stripped]" => 2,
        _ if name.starts_with("__") => 1,
        _ => 0,
    };
    let names = match file {
        2 => vec![],
        _ => vec![Name { function: name.into(), ..Name::default() }],
    };
    let address = 0x1000 + 0x10 * name.bytes().map(u64::from).sum::<u64>();
    let frame = Frame { module: Some(file), address, names };
    let known = stacks.frames.iter().position(|other| *other == frame);
    known.unwrap_or_else(|| {
        stacks.frames.push(frame);
        stacks.frames.len() - 1
    }) as u32
}

/// One run: sites in turn, each fault with its own price, and one in 2000 waiting fifty times as long.
pub(crate) fn run(sites: &[Site], conditions: Conditions) -> Run {
    let mut rng = Rng::from_seed(conditions.seed);
    let paths = ["/opt/program", "/lib/libc.so.6", "/opt/libstripped.so"];
    let modules = paths.map(|path| Module { path: path.into(), ..Module::default() }).to_vec();
    let mut stacks = Stacks { modules, ..Stacks::default() };
    let mut profile = Profile::default();
    let mut time_ns = 1_000_000;
    let mut left = rng.below(conditions.period as usize) as u32;
    for site in sites {
        let frames = site.stack.iter().map(|name| frame(&mut stacks, name)).collect();
        stacks.stacks.push(frames);
        let mapping = profile.mappings.iter().position(|name| name == site.mapping).unwrap_or_else(|| {
            profile.mappings.push(site.mapping.into());
            profile.mappings.len() - 1
        }) as u32;
        let faults = (f64::from(site.faults) * around(&mut rng, conditions.apart.0)).round() as u32;
        let price = site.price_ns * conditions.price * around(&mut rng, conditions.apart.1);
        for at in 0..faults {
            time_ns += 2000;
            let wait = if rng.below(2000) == 0 { 50.0 } else { 1.0 };
            let cost_ns = price * wait * around(&mut rng, 0.3);
            if left > 0 {
                left -= 1;
                continue;
            }
            // As near to a fixed period as keeps it from beating with the program.
            left = conditions.period / 2 + rng.below(conditions.period as usize) as u32;
            let weight = f64::from(conditions.period);
            profile.faults.push(Weighted {
                time_ns,
                pid: 1,
                tid: 1,
                addr: scenario::ANON + u64::from(at) * scenario::PAGE,
                stack: Some(stacks.stacks.len() as u32 - 1),
                kind: Kind::MmapFirstWrite,
                mapping,
                kernel: site.stack.contains(&"copy_to_user"),
                faults: weight,
                cost_ns: weight * if conditions.period == 1 { cost_ns } else { price },
                ..Weighted::default()
            });
        }
    }
    let footer = Footer { exit: Exit::Status(0), ..Footer::default() };
    let recording =
        Recording { header: header(&conditions), stacks, footer: Some(footer), ..Recording::default() };
    with_basis(Run { recording, profile })
}

/// Rebuilds the evidence of each fault after a change. A fault that represents only itself was timed. One
/// that represents more has the mean price of similar faults.
pub(crate) fn with_basis(mut run: Run) -> Run {
    let basis = |fault: &Weighted| Basis {
        burst: (fault.faults <= 1.0).then_some(0),
        exact: if fault.faults > 1.0 { 0.0 } else { fault.faults },
        alike: fault.faults,
        reading_ns: Some(fault.cost_ns / fault.faults),
        assumed_ns: if fault.faults > 1.0 { fault.cost_ns } else { 0.0 },
        ..Basis::default()
    };
    run.profile.basis = run.profile.faults.iter().map(basis).collect();
    run.profile.totals = totals(&run.profile);
    run
}

/// With faults in system calls that were only counted, and no time of them.
pub(crate) fn counted(mut run: Run, faults: u64) -> Run {
    let kind = Kind::KernelOrPopulate;
    let row = KindRow {
        kind,
        faults,
        interval: None,
        seconds: None,
        seconds_interval: None,
        p50_ns: None,
        source: Source::Remainder,
    };
    run.profile.totals.rows.push(row);
    run.profile.totals.beyond.push((kind, faults, None));
    run
}

/// The totals that all views would show for these faults, with the time to 5 %.
fn totals(profile: &Profile) -> Totals {
    let sum = |is_major: bool, of: fn(&Weighted) -> f64| {
        profile.faults.iter().filter(|fault| (fault.kind == Kind::Major) == is_major).map(of).sum::<f64>()
    };
    let row = |kind, is_major| KindRow {
        kind,
        faults: sum(is_major, |fault| fault.faults).round() as u64,
        interval: None,
        seconds: Some(sum(is_major, |fault| fault.cost_ns) / 1e9),
        seconds_interval: None,
        p50_ns: None,
        source: Source::Counted,
    };
    let rows = vec![row(Kind::MmapFirstWrite, false), row(Kind::Major, true)];
    let value = sum(false, |fault| fault.cost_ns) / 1e9;
    let time = FaultTime {
        source: Source::Sampled,
        timed: 1,
        p50_ns: 0.0,
        p90_ns: 0.0,
        p99_ns: 0.0,
        raw_p50_ns: 0.0,
        offset_ns: 0.0,
        seconds: Interval { value, low: 0.95 * value, high: 1.05 * value },
        share: Interval::default(),
        us_per_mib: None,
    };
    Totals { rows, time: (value > 0.0).then_some(time), ..Totals::default() }
}
