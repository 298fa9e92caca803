//! The tables: raw samples -> medians over rounds, the arms side by side, then the columns of the old tables.
//!
//! In: the text of a CSV as `main` writes it. Out: text. It knows nothing about how the samples came about.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use crate::cell::{ARMS, Arm, Cell, Pause, SAMPLE, Sample, Setting};

/// Below this share of its time on a processor a thread was disturbed by others.
const RAN_LEAST: f64 = 0.95;
/// Below this share of hits nothing can be said about them.
const HIT_LEAST: f64 = 0.01;
/// Units of the tables.
const NS: f64 = 1e9;
const GIB: f64 = (1_u64 << 30) as f64;

/// The samples of one setting: by arm, then by round.
type Arms = BTreeMap<Arm, BTreeMap<u64, Sample>>;

/// The tables of a record.
pub(crate) fn summary(text: &str) -> Result<String, String> {
    let all = read(text)?;
    let mut out = String::new();
    write_all(&mut out, &all).map_err(|error| error.to_string())?;
    Ok(out)
}

fn read(text: &str) -> Result<BTreeMap<Setting, Arms>, String> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let header: Vec<&str> = lines.next().ok_or("the file is empty")?.split(',').collect();
    let first = header.iter().position(|name| *name == "arm").ok_or("no column arm")?;
    let last = header.iter().position(|name| *name == SAMPLE[0]).ok_or("no sample")?;
    let mut all: BTreeMap<Setting, Arms> = BTreeMap::new();
    for line in lines {
        let words: Vec<&str> = line.split(',').collect();
        let cell: Cell = words.get(first..last).ok_or("a line is too short")?.join(",").parse()?;
        let round = words[0].parse().map_err(|_| format!("{}: no round", words[0]))?;
        let sample = Sample::parse(&header, &words)?;
        all.entry(cell.setting).or_default().entry(cell.arm).or_default().insert(round, sample);
    }
    Ok(all)
}

/// What precedes the tables.
const COMPARE: &str = "\
1. ns per page delivered, medians over rounds. Waits: elapsed time of the requesting thread in get, touch and free. CPU: of the
   whole process, the scrubber included, pauses not. *: a thread lacked a processor for more than 5 % of its time.
   kernel: base pages; thp: huge pages; on-get: a pool that zeroes when asked; ahead: a pool whose keeper zeroes ahead of need on an
   idle processor; thread: the same by a thread that takes any processor; stock: all zeroed before each burst.
";
const VERDICTS: &str = "
2. Zeroed ahead against zeroed on get: ratios of the same round, median [least most] over rounds. Hit: gets served from zeroed
   memory. Zeroed: pages zeroed ahead per page delivered. Below 1 % of hits there is nothing to compare.
";
const OLD: &str = "
3. As the old tables, per GiB delivered: User, System and Wall of the requesting threads in s, then the scrubber's CPU and the whole
   process's; pauses left out. Gb as delivered in a round of the time given. flt counts pages delivered; faults are those that
   the kernel counted for the requesting threads, expected those that had to be.
";
const GETS: &str = "
4. The get of a Zeroed block (arm stock; at most 20 ns per page and no fault), ns per page: the call alone, and with one write
   per page.
";

fn write_all(out: &mut String, all: &BTreeMap<Setting, Arms>) -> fmt::Result {
    out.push_str(COMPARE);
    table(out, all, compare_title, compare_line)?;
    out.push_str(VERDICTS);
    table(out, all, verdict_title, verdict_lines)?;
    out.push_str(OLD);
    table(out, all, old_title, |out, setting, arms| {
        arms.iter().try_for_each(|(arm, rounds)| old_line(out, *arm, setting, rounds))
    })?;
    out.push_str(GETS);
    gets(out, all)
}

/// A part of the table for every setting, the lines touched left out.
fn table(
    out: &mut String,
    all: &BTreeMap<Setting, Arms>,
    title: fn(&mut String) -> fmt::Result,
    lines: fn(&mut String, Setting, &Arms) -> fmt::Result,
) -> fmt::Result {
    let mut before = None;
    for (setting, arms) in all {
        let part = Setting { lines: 0, ..*setting };
        if before.replace(part) != Some(part) {
            writeln!(out, "\n{}", heading(part))?;
            title(out)?;
        }
        lines(out, *setting, arms)?;
    }
    Ok(())
}

fn heading(title: Setting) -> String {
    let pause = match title.pause {
        Pause::NONE => "no pause".to_owned(),
        Pause::Compute(us) => format!("{us} us of computing between gets"),
        Pause::Wait(us) => format!("{us} us of sleep between gets"),
    };
    format!(
        "{} KiB blocks, {} alive per thread, {pause}, threads: {}",
        title.block_kib, title.alive, title.threads
    )
}

fn compare_title(out: &mut String) -> fmt::Result {
    write!(out, "CLine  waits:")?;
    ARMS.iter().try_for_each(|arm| write!(out, "{:>8}", arm.name()))?;
    write!(out, "     CPU:")?;
    ARMS.iter().try_for_each(|arm| write!(out, "{:>8}", arm.name()))?;
    writeln!(out)
}

fn compare_line(out: &mut String, setting: Setting, arms: &Arms) -> fmt::Result {
    let disturbed = arms.iter().any(|(arm, rounds)| median(rounds, |sample| ran(*arm, sample)) < RAN_LEAST);
    write!(out, "{:>5} {}      ", setting.lines, if disturbed { '*' } else { ' ' })?;
    ARMS.iter().try_for_each(|arm| write!(out, "{:>8}", figure(arms, *arm, waits_ns)))?;
    write!(out, "         ")?;
    ARMS.iter().try_for_each(|arm| write!(out, "{:>8}", figure(arms, *arm, cpu_ns)))?;
    writeln!(out)
}

fn verdict_title(out: &mut String) -> fmt::Result {
    writeln!(out, "CLine {:<8}{:>7}{:>8}{:>20}{:>20}", "arm", "hit %", "zeroed", "waits", "CPU")
}

fn verdict_lines(out: &mut String, setting: Setting, arms: &Arms) -> fmt::Result {
    for arm in [Arm::Ahead, Arm::Thread, Arm::Stock] {
        let Some(rounds) = arms.get(&arm) else { continue };
        let hit = median(rounds, hit);
        let zeroed = median(rounds, |sample| sample.get("scrubbed_pages") / sample.get("pages"));
        write!(out, "{:>5} {:<8}{:>7.1}{zeroed:>8.2}", setting.lines, arm.name(), hit * 100.0)?;
        if hit < HIT_LEAST {
            writeln!(out, "{:>20}{:>20}  nothing was zeroed ahead", "-", "-")?;
            continue;
        }
        let (waits, cpu) = (ratios(arms, arm, waits_ns), ratios(arms, arm, cpu_ns));
        writeln!(out, "{:>20}{:>20}  {}", spread(&waits), spread(&cpu), says(&waits, &cpu))?;
    }
    Ok(())
}

/// What the ratios mean.
fn says(waits: &[f64], cpu: &[f64]) -> &'static str {
    let below = |ratios: &[f64]| !ratios.is_empty() && ratios.iter().all(|&ratio| ratio < 1.0);
    let above = |ratios: &[f64]| !ratios.is_empty() && ratios.iter().all(|&ratio| ratio > 1.0);
    match () {
        () if below(waits) && below(cpu) => "pays",
        () if below(waits) && above(cpu) => "waits less, costs more",
        () if below(waits) => "waits less",
        () if above(waits) => "does not pay",
        () => "no difference",
    }
}

fn old_title(out: &mut String) -> fmt::Result {
    writeln!(
        out,
        "{:<7}{:>6}{:>4}{:>4}{:>6}{:>8}{:>8}{:>8}{:>13}{:>13}{:>10}{:>10}{:>7}{:>7}{:>8}{:>8}{:>8}",
        "arm",
        "Gb",
        "Rep",
        "Thr",
        "CLine",
        "User",
        "System",
        "Wall",
        "flt/cpu/s",
        "fault/wsec",
        "faults",
        "expected",
        "hit %",
        "get ns",
        "scrub",
        "total",
        ""
    )
}

fn old_line(out: &mut String, arm: Arm, setting: Setting, rounds: &BTreeMap<u64, Sample>) -> fmt::Result {
    let page = faultless_os::page::size() as f64;
    let gib = |sample: &Sample| sample.get("pages") * page / GIB;
    let per_gib = |of: fn(&Sample) -> f64| median(rounds, move |sample| of(sample) / gib(sample));
    // Computing between gets is user time; so is the zeroing that the `stock` arm does in the requesting thread.
    let user = if arm == Arm::Stock {
        |sample: &Sample| sample.get("user_s") - sample.get("scrub_cpu_s")
    } else {
        |sample: &Sample| sample.get("user_s") - sample.get("pause_s")
    };
    let wall = median(rounds, |sample| own_s(sample) / setting.threads as f64 / gib(sample));
    let total = per_gib(|sample| sample.get("total_cpu_s") - sample.get("pause_s"));
    let system = per_gib(|sample| sample.get("system_s"));
    let rate = |seconds: f64| 1.0 / seconds * GIB / page;
    let surprises = rounds.values().filter(|sample| sample.surprise(setting.threads).is_some()).count();
    write!(
        out,
        "{:<7}{:>6.2}{:>4}{:>4}{:>6}{:>8.3}{system:>8.3}{wall:>8.3}",
        arm.name(),
        median(rounds, gib),
        rounds.len(),
        setting.threads,
        setting.lines,
        per_gib(user)
    )?;
    write!(
        out,
        "{:>13.0}{:>13.0}{:>10.0}{:>10.0}",
        rate((per_gib(user) + system).max(f64::MIN_POSITIVE)),
        rate(wall),
        median(rounds, |sample| sample.get("faults")),
        median(rounds, |sample| sample.get("expected_faults")),
    )?;
    writeln!(
        out,
        "{:>7.1}{:>7.2}{:>8.3}{total:>8.3}  {}",
        median(rounds, hit) * 100.0,
        median(rounds, |sample| sample.get("get_s") / sample.get("pages") * NS),
        per_gib(|sample| sample.get("scrub_cpu_s")),
        if surprises > 0 { format!("faults off in {surprises} rounds") } else { String::new() },
    )
}

/// The get of a block that is zeroed already, by itself.
fn gets(out: &mut String, all: &BTreeMap<Setting, Arms>) -> fmt::Result {
    for (setting, arms) in all {
        let Some(rounds) = arms.get(&Arm::Stock).filter(|_| setting.lines == 1) else { continue };
        let get = |sample: &Sample| sample.get("get_s") / sample.get("pages") * NS;
        let touched =
            |sample: &Sample| (sample.get("get_s") + sample.get("touch_s")) / sample.get("pages") * NS;
        writeln!(
            out,
            "{:<70} get {:>6.2} worst {:>6.2}   touched {:>6.2}   hit {:>5.1} %   faults {}",
            heading(*setting),
            median(rounds, get),
            rounds.values().map(get).fold(0.0, f64::max),
            median(rounds, touched),
            median(rounds, hit) * 100.0,
            rounds.values().map(|sample| sample.get("faults")).sum::<f64>(),
        )?;
    }
    Ok(())
}

/// Elapsed time of the requesting threads, without pauses and their own scrubbing.
fn own_s(sample: &Sample) -> f64 {
    sample.get("get_s") + sample.get("touch_s") + sample.get("free_s")
}

fn waits_ns(sample: &Sample) -> f64 {
    own_s(sample) / sample.get("pages") * NS
}

fn cpu_ns(sample: &Sample) -> f64 {
    (sample.get("total_cpu_s") - sample.get("pause_s")) / sample.get("pages") * NS
}

fn hit(sample: &Sample) -> f64 {
    sample.get("hits") / sample.get("gets").max(1.0)
}

/// The share of their time that requesting threads had a processor.
fn ran(arm: Arm, sample: &Sample) -> f64 {
    let scrub = if arm == Arm::Stock { sample.get("scrub_cpu_s") } else { 0.0 };
    (sample.get("user_s") + sample.get("system_s")) / (own_s(sample) + sample.get("pause_s") + scrub)
}

fn figure(arms: &Arms, arm: Arm, of: impl Fn(&Sample) -> f64) -> String {
    arms.get(&arm).map_or("-".to_owned(), |rounds| format!("{:.1}", median(rounds, of)))
}

/// An arm over on-get, round by round, sorted.
fn ratios(arms: &Arms, arm: Arm, of: fn(&Sample) -> f64) -> Vec<f64> {
    let (Some(ahead), Some(on_get)) = (arms.get(&arm), arms.get(&Arm::OnGet)) else {
        return Vec::new();
    };
    let both = ahead.iter().filter_map(|(round, sample)| Some(of(sample) / of(on_get.get(round)?)));
    let mut ratios: Vec<f64> = both.collect();
    ratios.sort_by(f64::total_cmp);
    ratios
}

fn spread(sorted: &[f64]) -> String {
    match sorted {
        [] => "-".to_owned(),
        [least, .., most] => format!("{:.2} [{least:.2} {most:.2}]", middle(sorted)),
        [one] => format!("{one:.2}"),
    }
}

fn median(rounds: &BTreeMap<u64, Sample>, of: impl Fn(&Sample) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.values().map(of).collect();
    values.sort_by(f64::total_cmp);
    middle(&values)
}

/// The median of sorted values.
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}
