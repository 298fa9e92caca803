//! Forecasts and the validation as text and as a page.

use faultless_lab::predict::document::{REPEATED, Score};
use faultless_lab::predict::validate::{Check, Validation};
use faultless_lab::predict::{Forecast, Parameters, Question};
use faultless_report::lab::Prediction;
use faultless_report::lab::page::{Table, TableRow};
use faultless_report::svg::{Line, Plot, Point};
use faultless_trace::stat::Interval;

use super::Compared;

mod record;

pub(super) use record::counted;

/// Names of the columns of a forecast, without units.
const HEADS: [&str; 9] = [
    "nodes",
    "threads",
    "without M/s",
    "stocked M/s",
    "stocked, times",
    "sustained, times",
    "hits %",
    "p99 us, without",
    "p99 us, stocked",
];

/// Two significant digits, or three if the first is a 1.
fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".into();
    }
    let power = value.abs().log10().floor();
    let digits = if value.abs() / 10_f64.powf(power) < 2.0 { 2.0 } else { 1.0 };
    let decimals = (digits - power).clamp(0.0, 9.0) as usize;
    let step = 10_f64.powf(power - digits);
    format!("{:.decimals$}", (value / step).round() * step)
}

/// A range; one number only if both ends are the same.
fn range(interval: Interval, times: f64) -> String {
    let [low, high] = [interval.low, interval.high].map(|end| short(end * times));
    if interval.low < interval.high { format!("{low} to {high}") } else { low }
}

fn row(forecast: &Forecast) -> Vec<String> {
    vec![
        forecast.nodes.to_string(),
        forecast.threads.to_string(),
        range(forecast.without_per_s, 1e-6),
        range(forecast.stocked_per_s, 1e-6),
        range(forecast.stocked_gain, 1.0),
        range(forecast.sustained_gain, 1.0),
        range(forecast.hit_ratio, 100.0),
        range(forecast.without_p99_ns, 1e-3),
        range(forecast.stocked_p99_ns, 1e-3),
    ]
}

/// Rows in columns, two blanks apart, the first `left` aligned to the left.
fn columns(rows: &[Vec<String>], left: usize) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, &width))| {
            if at < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(|row| line(row) + "\n").collect()
}

fn set_up(question: &Question) -> String {
    let vma =
        if question.shares_vma { "all threads fault in one VMA" } else { "each thread has its own VMA" };
    let lines = if question.lines == 1 { "1 line" } else { &format!("{} lines", question.lines) };
    format!("{vma}; {lines} touched of each page; {} processors a node", question.processors)
}

/// How to read a forecast.
fn how(question: &Question) -> [String; 4] {
    [
        format!("A range holds 90 % of {} samples of the parameters. It is a model's, not measured.", question.samples),
        "Runs are short: a ratio within 6 % of 1 is no difference.".into(),
        "Stocked: every fault finds a zeroed page. Sustained: faults and unmaps without a pause, scrubbers beside them."
            .into(),
        "Times: faults per second compared with the same work without prezeroing. p99: latency of a fault.".into(),
    ]
}

/// A forecast as text.
pub(super) fn forecast(question: &Question, forecasts: &[Forecast]) -> String {
    let mut rows = vec![HEADS.map(str::to_owned).to_vec()];
    rows.extend(forecasts.iter().map(row));
    let (answer, how) = (answer_of(forecasts), how(question).join("\n"));
    format!("{answer}\nModel: {}.\n\n{}\n{how}", set_up(question), columns(&rows, 0))
}

/// The answer in one sentence: the least and the greatest end of all ranges.
fn answer_of(forecasts: &[Forecast]) -> String {
    let span = |of: fn(&Forecast) -> Interval| {
        let (low, high) =
            (forecasts.iter().map(|found| of(found).low), forecasts.iter().map(|found| of(found).high));
        let (low, high) = (low.fold(f64::MAX, f64::min), high.fold(f64::MIN, f64::max));
        range(Interval { value: low, low, high }, 1.0)
    };
    format!(
        "While zeroed pages last, prezeroing gives {} times as many faults per second; without a pause, {} times.",
        span(|found| found.stocked_gain),
        span(|found| found.sustained_gain)
    )
}

fn plot(
    id: &str,
    title: &str,
    y_label: &str,
    question: &Question,
    of: impl Fn(&Forecast) -> Interval,
    forecasts: &[Forecast],
) -> Plot {
    let line = |nodes: &usize| Line {
        name: format!("{nodes} nodes").replace("1 nodes", "1 node"),
        is_document: false,
        points: forecasts
            .iter()
            .filter(|forecast| forecast.nodes == *nodes)
            .map(|forecast| {
                let Interval { value, low, high } = of(forecast);
                Point { x: forecast.threads.to_string(), value, low, high }
            })
            .collect(),
    };
    let lines = question.nodes.iter().map(line).filter(|line| !line.points.is_empty()).collect();
    Plot {
        id: id.into(),
        title: title.into(),
        x_label: "threads".into(),
        y_label: y_label.into(),
        lines,
        remark: "Whiskers hold 90 % of the samples; marks are medians of samples, no forecasts.".into(),
        ..Plot::default()
    }
}

/// A forecast as a page.
pub(super) fn forecast_page(
    question: &Question,
    parameters: &Parameters,
    forecasts: &[Forecast],
    counted: Option<&Compared>,
) -> String {
    let picture =
        |id, title, label, of: fn(&Forecast) -> Interval| plot(id, title, label, question, of, forecasts);
    let table = Table {
        id: "forecast".into(),
        title: "All ranges".into(),
        heads: HEADS.map(str::to_owned).to_vec(),
        rows: forecasts.iter().map(|found| TableRow { is_document: false, texts: row(found) }).collect(),
        remark: String::new(),
    };
    let shown = parameters.all().into_iter().map(|(name, range)| {
        let text = if range.low == range.high {
            range.low.to_string()
        } else {
            format!("{} to {}", range.low, range.high)
        };
        (name.to_owned(), text)
    });
    Prediction {
        title: "What prezeroing would change".into(),
        lead: vec![answer_of(forecasts), format!("Model: {}.", set_up(question))],
        plots: vec![
            picture(
                "stocked",
                "Stocked: times as many faults",
                "faults per second, with / without",
                |found| found.stocked_gain,
            ),
            picture(
                "sustained",
                "Sustained: times as many faults",
                "faults per second, with / without",
                |found| found.sustained_gain,
            ),
            picture("hits", "Sustained: hit ratio", "share of faults that find a zeroed page", |found| {
                found.hit_ratio
            }),
            picture("p99", "Stocked: slow faults", "latency that one fault in 100 exceeds, ns", |found| {
                found.stocked_p99_ns
            }),
        ],
        tables: std::iter::once(table).chain(counted.map(record::tables).unwrap_or_default()).collect(),
        parameters: shown.collect(),
        how: how(question).to_vec(),
    }
    .html()
}

const VALIDATION_HEADS: [&str; 6] = ["", "role", "predicted", "±", "reference", "holds"];

/// What a check says, in columns.
fn checked(check: &Check) -> Vec<String> {
    let Interval { low, high, .. } = check.predicted;
    let half =
        if low < high { format!("{:.0} %", (high - low) / (high + low) * 100.0) } else { String::new() };
    let figure = |value: f64| if value >= 1000.0 { format!("{value:.0}") } else { format!("{value:.3}") };
    let predicted = if low < high { format!("{} to {}", figure(low), figure(high)) } else { figure(low) };
    vec![
        check.name.clone(),
        check.role.words().into(),
        predicted,
        half,
        figure(check.reference),
        if check.holds { "yes" } else { "no" }.into(),
    ]
}

/// The checks of one group, in order.
fn groups(validation: &Validation) -> Vec<(&'static str, Vec<Vec<String>>)> {
    let mut groups: Vec<(&'static str, Vec<Vec<String>>)> = Vec::new();
    for check in &validation.checks {
        match groups.last_mut() {
            Some((name, rows)) if *name == check.group => rows.push(checked(check)),
            _ => groups.push((check.group, vec![checked(check)])),
        }
    }
    groups
}

/// The answer in one sentence, and what it rests on.
fn answer(validation: &Validation) -> Vec<String> {
    let of_all = validation.document.iter().filter(|row| !row.is_fitted).count();
    let scored = |score: &Score| {
        format!(
            "{} of the {of_all} held-out rows are inside intervals of at most ±25 %; the widest is ±{:.0} %, and the \
             furthest median is {:.0} % off.",
            score.holding,
            score.widest * 100.0,
            score.furthest * 100.0
        )
    };
    let (main, others): (Vec<&Score>, Vec<&Score>) =
        validation.scores.iter().partition(|score| score.repeated == REPEATED);
    let mut sentences: Vec<String> = main.into_iter().map(scored).collect();
    sentences.push(format!(
        "{} of {} parameter sets reproduce the fitted rows, as much as {:.0} of equal weight. The fit reads no held-out row.",
        validation.kept, validation.tried, validation.effective
    ));
    sentences.extend(others.into_iter().map(|score| {
        let (percent, assumed) = (score.repeated * 100.0, REPEATED * 100.0);
        format!("If rates repeat within {percent:.0} % instead of {assumed:.0} %: {}", scored(score))
    }));
    sentences
}

/// The validation as text.
pub(super) fn validation(validation: &Validation) -> String {
    let groups = groups(validation);
    let heads = VALIDATION_HEADS.map(str::to_owned).to_vec();
    let mut rows = Vec::new();
    for (name, checks) in &groups {
        let mut head = heads.clone();
        head[0] = (*name).to_owned();
        rows.push(head);
        rows.extend(checks.iter().map(|row| {
            let mut row = row.clone();
            row[0] = format!("  {}", row[0]);
            row
        }));
        rows.push(Vec::new());
    }
    format!("{}\n{}", columns(&rows, 2), answer(validation).join("\n"))
}

/// The validation as a page.
pub(super) fn validation_page(validation: &Validation) -> String {
    let tables = groups(validation).into_iter().map(|(name, rows)| Table {
        title: name.to_owned(),
        heads: VALIDATION_HEADS.map(|head| if head.is_empty() { "row" } else { head }.to_owned()).to_vec(),
        rows: rows.into_iter().map(|texts| TableRow { is_document: false, texts }).collect(),
        ..Table::default()
    });
    let row = |is_lines: bool| {
        let rows = validation.document.iter().filter(move |row| row.row.contains("line") == is_lines);
        rows.filter(|row| row.row.starts_with("with,"))
    };
    let number = |name: &str| name.split(' ').nth(1).unwrap_or_default().to_owned();
    let picture = |id: &str, title: &str, x_label: &str, is_lines: bool| Plot {
        id: id.into(),
        title: title.into(),
        x_label: x_label.into(),
        y_label: "faults per second".into(),
        lines: vec![
            Line {
                name: "model".into(),
                is_document: false,
                points: row(is_lines)
                    .map(|row| {
                        let Interval { value, low, high } = row.per_wall_s;
                        Point { x: number(row.row), value, low, high }
                    })
                    .collect(),
            },
            Line {
                name: "document".into(),
                is_document: true,
                points: row(is_lines)
                    .map(|row| {
                        let value = row.document_per_wall_s;
                        Point { x: number(row.row), value, low: value, high: value }
                    })
                    .collect(),
            },
        ],
        ..Plot::default()
    };
    Prediction {
        title: "The model against what is known".into(),
        lead: answer(validation),
        plots: vec![
            picture("threads", "Prezeroing V2, patched, by threads", "threads", false),
            picture("lines", "Prezeroing V2, patched, by lines", "cache lines touched", true),
        ],
        tables: tables.collect(),
        ..Prediction::default()
    }
    .html()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_read_with_few_digits() {
        let range = |low, high| range(Interval { value: low, low, high }, 1.0);
        assert_eq!(
            (range(1.234, 5.678), range(0.0123, 0.3)),
            ("1.23 to 5.7".into(), "0.0123 to 0.30".into())
        );
        assert_eq!((range(1234.0, 98765.0), range(0.0, 0.0)), ("1230 to 99000".into(), "0".into()));
    }

    #[test]
    fn columns_are_aligned() {
        let rows =
            [vec!["a".to_owned(), "1".to_owned()], vec!["bcd".to_owned(), "10".to_owned()], Vec::new()];
        assert_eq!(columns(&rows, 1), "a     1\nbcd  10\n\n");
    }
}
