//! A check as text.
//!
//! In: a [`Report`]. Out: the verdict, a line for each program, and the kinds whose counts are off.
//!
//! It does not judge (`check`).

use faultless_report::table::{WIDTH, wrap};
use faultless_trace::measurement::{Count, Nanos, Percent};
use faultless_trace::stat::Interval;

use super::report::{Accuracy, HALF_WIDTH, HOLDING_SHARE, KIND_ERROR, LIMITS, ProgramReport, Report};

/// The whole text.
pub(super) fn text(report: &Report) -> String {
    let host = &report.host;
    let head = format!(
        "Measured time divided by the true time: median of {} rounds with its 95 % interval, and how many of the verb's own intervals hold the \
         truth. Limits: medians from {} to {}, {} of the intervals, and a median half-width of at most {}. The truth is \
         what the same program took for its touches in the plain runs before and after each run.",
        report.rounds,
        LIMITS.0,
        LIMITS.1,
        Percent(HOLDING_SHARE),
        Percent(HALF_WIDTH)
    );
    let mut lines = wrap("", &report.verdict, WIDTH);
    lines.extend(wrap(
        "",
        &format!("Linux {}, {}, {}", host.kernel, host.cpu, Count(host.cpus.into()).of("processor")),
        WIDTH,
    ));
    lines.push(String::new());
    lines.extend(wrap("", &head, WIDTH));
    lines.push(String::new());
    let column = report.programs.iter().map(|row| row.program.len()).max().unwrap_or(0).max("program".len());
    lines.push(format!(
        "{:column$}  {:>9}  {:>21}  {:>11}  {:>21}  {:>11}",
        "program", "truth", "stat", "hold", "record", "hold"
    ));
    for row in &report.programs {
        if let Some(reason) = &row.cannot_say {
            lines.push(format!("{:column$}  cannot say: {reason}", row.program));
            continue;
        }
        let truth = Nanos(row.truth_ns).to_string();
        let (stat, record) = (cells(&row.stat), cells(&row.record));
        lines.push(format!(
            "{:column$}  {truth:>9}  {:>21}  {:>11}  {:>21}  {:>11}",
            row.program, stat.0, stat.1, record.0, record.1
        ));
    }
    lines.push(String::new());
    lines.extend(wrap("", &yardstick(report), WIDTH));
    let notes = report.programs.iter().flat_map(notes);
    let notes: Vec<String> = notes.flat_map(|note| wrap("  ", &note, WIDTH)).collect();
    if !notes.is_empty() {
        lines.extend([
            String::new(),
            format!("Counts of kinds that are off by more than {}", Percent(KIND_ERROR)),
        ]);
        lines.extend(notes);
    }
    lines.join("\n") + "\n"
}

/// How many intervals hold that surround a plain run instead of the verb's figure.
fn yardstick(report: &Report) -> String {
    let arms = report.programs.iter().flat_map(|row| [&row.stat, &row.record]);
    let (holds, of) =
        arms.fold((0, 0), |(holds, of), arm| (holds + arm.plain_holds, of + arm.plain_intervals));
    format!(
        "The machine's speed changes between runs, which no interval of one run knows. A plain run says the truth in {holds} \
         of {of} rounds with intervals as wide. It would need ± {} for {} of them.",
        Percent(report.plain_half_width.unwrap_or(0.0)),
        Percent(HOLDING_SHARE)
    )
}

fn cells(arm: &Accuracy) -> (String, String) {
    match arm.ratio {
        Some(Interval { value, low, high }) => {
            let half_width = Percent(arm.half_width).to_string();
            let holds = format!("{}/{} ± {half_width:>4}", arm.holds, arm.intervals);
            (format!("{value:.2} ({low:.2} to {high:.2})"), holds)
        }
        None => ("not known".into(), "-".into()),
    }
}

/// Kinds whose counts are wrong by more than [`KIND_ERROR`].
pub(super) fn notes(row: &ProgramReport) -> Vec<String> {
    let off = [("stat", &row.stat), ("record", &row.record)].map(|(verb, arm)| {
        let (kind, error, said) = arm.worst.filter(|(_, error, _)| *error > KIND_ERROR)?;
        let (_, faults) = row.faults.iter().find(|(found, _)| *found == kind)?;
        Some(format!(
            "{}, {verb}: {} instead of {} ({}), off by {}",
            row.program,
            Count(said),
            Count(*faults),
            kind.words(),
            Percent(error)
        ))
    });
    off.into_iter().flatten().collect()
}
