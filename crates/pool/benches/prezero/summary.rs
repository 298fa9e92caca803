//! The tables: raw samples -> medians over rounds, the arms side by side, then the columns of the old tables.
//!
//! In: the text of a CSV as `main` writes it. Out: text. It knows nothing about how the samples came about.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use crate::cell::{ARMS, Arm, Cell, Pause, SAMPLE, Sample, Setting};

/// Below this share of its time on a processor a thread was disturbed by others.
const RAN_LEAST: f64 = 0.95;
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

fn write_all(out: &mut String, all: &BTreeMap<Setting, Arms>) -> fmt::Result {
    writeln!(
        out,
        "1. ns per page delivered, medians over rounds. Waits: elapsed time of the requesting thread in get, touch and"
    )?;
    writeln!(
        out,
        "   free. CPU: of the whole process, the scrubber included, pauses not. A ratio is ahead / on-get of the same round,"
    )?;
    writeln!(
        out,
        "   median [least most]; where nothing was zeroed ahead (hit below 1 %), there is none. *: threads lacked a processor."
    )?;
    let mut before = None;
    for (setting, arms) in all {
        let title = Setting { lines: 0, ..*setting };
        if before.replace(title) != Some(title) {
            compare_title(out, title)?;
        }
        compare_line(out, *setting, arms)?;
    }
    writeln!(
        out,
        "\n2. As the old tables, per GiB delivered: User, System and Wall of the requesting threads in s, scrub CPU and total CPU"
    )?;
    writeln!(
        out,
        "   beside them; Gb as delivered in a round. \"flt\" counts pages delivered; faults are those the kernel counted, expected those that had to be."
    )?;
    before = None;
    for (setting, arms) in all {
        let title = Setting { lines: 0, ..*setting };
        if before.replace(title) != Some(title) {
            old_title(out, title)?;
        }
        for (arm, samples) in arms {
            old_line(out, *arm, *setting, samples)?;
        }
    }
    gets(out, all)
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

fn compare_title(out: &mut String, title: Setting) -> fmt::Result {
    writeln!(out, "\n{}", heading(title))?;
    write!(out, "CLine |{:>37} |{:>40} |", "waits", "CPU")?;
    writeln!(out, "{:>7}{:>9} |{:>20}{:>20}", "ahead", "scrubbed", "waits", "CPU")?;
    write!(out, "      |")?;
    ARMS.iter().try_for_each(|arm| write!(out, "{:>7}", arm.name()))?;
    write!(out, "   |")?;
    ARMS.iter().try_for_each(|arm| write!(out, "{:>8}", arm.name()))?;
    writeln!(out, " |{:>7}{:>9} |{:>20}{:>20}", "hit %", "/page", "ratio", "ratio")
}

fn compare_line(out: &mut String, setting: Setting, arms: &Arms) -> fmt::Result {
    let disturbed = arms.iter().any(|(arm, rounds)| median(rounds, |sample| ran(*arm, sample)) < RAN_LEAST);
    write!(out, "{:>5} |", setting.lines)?;
    for arm in ARMS {
        write!(out, "{:>7}", figure(arms, arm, waits_ns))?;
    }
    write!(out, " {} |", if disturbed { '*' } else { ' ' })?;
    for arm in ARMS {
        write!(out, "{:>8}", figure(arms, arm, cpu_ns))?;
    }
    let hit = arms.get(&Arm::Ahead).map_or(0.0, |rounds| median(rounds, hit));
    let scrubbed = |sample: &Sample| sample.get("scrubbed_pages") / sample.get("pages");
    let scrubbed = arms.get(&Arm::Ahead).map_or(0.0, |rounds| median(rounds, scrubbed));
    write!(out, " |{:>7.1}{scrubbed:>9.2} |", hit * 100.0)?;
    if hit < 0.01 {
        return writeln!(out, "{:>20}{:>20}  nothing zeroed ahead", "-", "-");
    }
    let (waits, cpu) = (ratios(arms, waits_ns), ratios(arms, cpu_ns));
    writeln!(out, "{:>20}{:>20}  {}", spread(&waits), spread(&cpu), says(&waits, &cpu))
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

fn old_title(out: &mut String, title: Setting) -> fmt::Result {
    writeln!(out, "\n{}", heading(title))?;
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
    writeln!(
        out,
        "\n3. The get of a Zeroed block (arm stock; limit 20 ns per page, no fault), ns per page: the call, and with one write per page"
    )?;
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

/// Ahead over on-get, round by round, sorted.
fn ratios(arms: &Arms, of: fn(&Sample) -> f64) -> Vec<f64> {
    let (Some(ahead), Some(on_get)) = (arms.get(&Arm::Ahead), arms.get(&Arm::OnGet)) else {
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
