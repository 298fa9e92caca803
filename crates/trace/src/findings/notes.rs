//! The evidence behind the figures, and the notes that a reader needs.

use super::Coverage;
use crate::measurement::{Bytes, Count, Percent};
use crate::observation::{Record, What};
use crate::profile::{Basis, Profile};
use crate::recording::{Frame, GENERATED, Module, Recording};
use crate::sites::{NO_STACK, Sites};
use crate::stat::{Stat, lost_records};
use crate::tuning::NOTED_SHARE;

/// What a stop at a call takes the program, ns (measured, see `os::follow`), and the share of its CPU time that is worth a note.
const STOP_NS: f64 = 5_000.0;
const STOPS_FROM: f64 = 0.03;

/// Records that were lost, by the source that knows of most.
pub fn lost_of(recording: &Recording) -> u64 {
    let sum = |lost: &mut dyn Iterator<Item = u64>| lost.fold(0, u64::saturating_add);
    let footer = recording.footer.as_ref();
    let events = footer.and_then(|footer| footer.event_losses.as_ref()).into_iter().flatten();
    sum(&mut recording.losses.iter().map(|loss| loss.lost))
        .max(sum(&mut recording.observation.windows.iter().map(|window| window.lost)))
        .max(sum(&mut events.map(|event| event.lost)))
}

pub(super) fn coverage(recording: &Recording, profile: &Profile, sites: &Sites) -> Coverage {
    let footer = recording.footer.as_ref();
    let unnamed = sites.rows.iter().filter(|row| row.label == NO_STACK || row.label.contains("+0x"));
    let (singly, sampled): (Vec<_>, Vec<_>) = profile.basis.iter().partition(|basis| basis.burst.is_some());
    let timed = |some: &[&Basis]| some.iter().filter(|basis| basis.reading_ns.is_some()).count() as u64;
    Coverage {
        recorded: singly.len() as u64,
        timed: timed(&singly) + timed(&sampled),
        sampled: sampled.len() as u64,
        sampled_timed: timed(&sampled),
        complete: recording.complete(),
        lost: lost_of(recording),
        blocks: profile.blocks.blocks.len() as u64,
        recorder_cpu_ns: footer.map(|footer| footer.recorder_cpu_ns),
        unnamed: unnamed.map(|row| row.share).sum(),
    }
}

/// Faults of kernel mode are in no row.
pub(super) const USER_ONLY: &str = "recorded in user mode only (:u): faults that the kernel takes for the program, as in read() into fresh \
                                    memory, are in no row; root records them";

/// All notes, and those of them about method, which do not change how to read the figures.
/// What a program took that was stopped at its calls, if that is worth a word.
fn stops(recording: &Recording, cpu_ns: u64) -> Option<String> {
    let is_stop = |record: &&Record| matches!(record.what, What::Call { .. });
    let stops = match recording.header.settings.user_only {
        true => recording.observation.records.iter().filter(is_stop).count(),
        false => 0,
    };
    let took_ns = stops as f64 * STOP_NS;
    (took_ns > STOPS_FROM * cpu_ns as f64).then(|| {
        format!(
            "{} stopped the program to be recorded, some {:.0} us each: its CPU time, and so each share, has them in it; root needs no stops",
            Count(stops as u64).of("call"),
            STOP_NS / 1e3
        )
    })
}

pub(super) fn notes(
    recording: &Recording,
    stat: &Stat,
    profile: &Profile,
    coverage: &Coverage,
    kernel: Option<String>,
) -> (Vec<String>, Vec<String>) {
    let settings = &recording.header.settings;
    let mut notes: Vec<String> =
        recording.missing.iter().map(|missing| format!("missing: {missing}")).collect();
    let mut details = stat.details.clone();
    if recording.footer.is_none() {
        notes.push(
            "the recorder did not finish: exact totals and the program's CPU time are not known, the rows are what was recorded until then"
                .to_owned(),
        );
    }
    if !profile.faults.is_empty() && coverage.timed == 0 {
        notes.push(match recording.observation.calibration {
            Some(_) => "no fault was timed: times are the calibrated price of a first touch times the faults"
                .to_owned(),
            None => "no fault was timed: shares are shares of the faults, not of time".to_owned(),
        });
    }
    if settings.user_only && stat.usage.minor_faults > 0 {
        notes.push(USER_ONLY.to_owned());
        details.push(USER_ONLY.to_owned());
    }
    notes.extend(stops(recording, stat.cpu_ns()));
    let all: f64 = profile.faults.iter().map(|fault| fault.faults).sum();
    notes.extend(lost_records(coverage.lost, coverage.recorded + coverage.sampled));
    if profile.doubt > NOTED_SHARE * all {
        notes.push(format!(
            "up to {} faults ({}) may be of short-lived threads that neither a sample nor a burst saw; record --all sees every one",
            Count(profile.doubt as u64),
            Percent(profile.doubt / all)
        ));
    }
    if !profile.faults.is_empty() && recording.stacks.stacks.is_empty() {
        notes.push("no stacks were recorded: who touched is not known".to_owned());
    } else if coverage.unnamed > NOTED_SHARE && !profile.faults.is_empty() {
        notes.push(format!(
            "{} of the time is at places without a name: debug information (-g) or the package with debug symbols names them, with `faultless symbolize` also now",
            Percent(coverage.unnamed)
        ));
    }
    notes.extend(unnamed_runtime(recording));
    match settings.alloc_from_bytes {
        Some(from) if from > 0 => {
            let below = format!("blocks below {} were not recorded with who allocated them", Bytes(from));
            details.push(below.clone());
            notes.push(below);
        }
        _ => {}
    }
    details.extend(kernel.clone());
    notes.extend(kernel);
    let elsewhere = ["the rings lost", "kernel phases", "major faults wait"];
    let told = |note: &&String| !elsewhere.iter().any(|begin| note.starts_with(begin));
    notes.extend(stat.notes.iter().filter(told).cloned());
    (notes, details)
}

/// What names the functions of an interpreter that ran without.
fn unnamed_runtime(recording: &Recording) -> Option<String> {
    let stacks = &recording.stacks;
    let files: Vec<&str> = stacks.modules.iter().map(Module::short_name).collect();
    let has = |begin: &str| files.iter().any(|file| file.starts_with(begin));
    // Code that was generated at run time, and has a name all the same.
    let is_generated =
        |frame: &&Frame| stacks.module(frame).is_some_and(|module| module.short_name() == GENERATED);
    let is_named = stacks.frames.iter().filter(is_generated).any(|frame| !frame.names.is_empty());
    match files.iter().find_map(|file| python_version(file)) {
        _ if is_named => None,
        Some(minor) if minor < PYTHON_TRAMPOLINES => Some(format!(
            "Python 3.{minor} does not tell its functions: sites are C functions; 3.{PYTHON_TRAMPOLINES} and later do"
        )),
        Some(_) => {
            Some("the functions of Python were not recorded: leave out --no-python, -E and -I".to_owned())
        }
        None if has("node") => {
            Some("the functions of Node have no names: record --jit gives them".to_owned())
        }
        None if has("libjvm.so") => {
            Some("the functions of Java have no names: record --jit gives them".to_owned())
        }
        None => None,
    }
}

/// From this minor version on CPython 3 has perf trampolines.
const PYTHON_TRAMPOLINES: u32 = 12;

/// The minor version in `python3.11` or `libpython3.11.so.1.0`.
fn python_version(file: &str) -> Option<u32> {
    let rest = file.strip_prefix("libpython3.").or_else(|| file.strip_prefix("python3."))?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}
