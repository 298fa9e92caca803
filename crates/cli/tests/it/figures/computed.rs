//! The named computations of record/INDEX.toml: `COMPUTATION ARGUMENTS | FORMAT` -> the text of a cell.
//!
//! | computation | value |
//! |---|---|
//! | `median COLUMN [K=V]...` | median of a column with its 95 % bootstrap interval |
//! | `ratio COLUMN K=A/B [K=V]...` | median over rounds of A / B, with its interval |
//! | `medians COLUMN K=A/B [K=V]...` | median of A / median of B, no interval |
//! | `spread COLUMN [K=V]...` | most / least |
//! | `extremes COLUMN [K=V]...` | least to most |
//! | `count [K=V]...`, `distinct COLUMN,COLUMN` | rows; different values |
//! | `share K=V of [K=V]...` | how many rows of how many |
//! | `true_ratio program=P verb=V` | of ordinary.csv: reported time / the program's own, as bench/ordinary.py says |
//! | `json PATH`, `json_range PATH`, `json_of PATH PATH` | a number or value, low, high; median with least and most; sum of sum |
//! | `= TEXT` | a cell without a figure |
//! | `lines TEXT` | lines of a text that begin so (blanks aside) |
//!
//! Formats: `plain`, `count`, `interval`, `times`, `percent` of change, `share` and `share_interval` of a whole; units scale.
//!
//! A column may be a sum or a quotient (`user_s+sys_s`, `a/b`). `time_s` is the body's time, if any.

use faultless_trace::measurement::Percent;

use super::{BTreeMap, BTreeSet, Value};

type Record = BTreeMap<String, String>;

pub(crate) enum File {
    Rows(Vec<Record>),
    Json(Value),
    Text(String),
}

/// Value, low, high.
type Figure = (f64, f64, f64);

impl File {
    pub(crate) fn read(name: &str, text: &str) -> Self {
        if name.contains(".csv") {
            let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
            let names: Vec<String> =
                reader.headers().unwrap().iter().map(|name| name.replace(' ', "_")).collect();
            let rows = reader
                .records()
                .map(|row| names.iter().cloned().zip(row.unwrap().iter().map(str::to_owned)).collect());
            Self::Rows(rows.collect())
        } else if name.contains(".json") {
            Self::Json(serde_json::from_str(text).unwrap())
        } else {
            Self::Text(text.to_owned())
        }
    }

    pub(crate) fn compute(&self, key: &str, figure: &str) -> String {
        // A cell without a figure.
        if let Some(text) = figure.strip_prefix("= ") {
            assert!(
                !text.contains(|c: char| c.is_ascii_digit()),
                "INDEX.toml: `{key}` has a figure that nobody computes: {text}"
            );
            return text.to_owned();
        }
        let (what, format) = figure.split_once(" | ").unwrap_or((figure, "count"));
        let mut words = what.split_whitespace();
        let name = words.next().unwrap();
        let words: Vec<&str> = words.collect();
        let done = match (self, name) {
            (Self::Rows(rows), "share") => Some(share(rows, &words)),
            (Self::Rows(rows), _) => {
                rows_figure(rows, name, &words, format).map(|figure| print(figure, format))
            }
            (Self::Json(json), "json_of") => {
                Some(format!("{} of {}", sum(json, words[0]), sum(json, words[1])))
            }
            (Self::Json(json), _) => json_figure(json, name, words[0]).map(|figure| print(figure, format)),
            (Self::Text(text), "lines") => {
                let lines =
                    text.lines().filter(|line| line.trim_start().starts_with(&words.join(" "))).count();
                Some(print((lines as f64, 0.0, 0.0), format))
            }
            _ => None,
        };
        done.unwrap_or_else(|| panic!("INDEX.toml: `{key}` cannot compute `{figure}`"))
    }
}

fn rows_figure(rows: &[Record], name: &str, words: &[&str], format: &str) -> Option<Figure> {
    // Bootstrapping takes time: only for formats that print both ends.
    let bare = ["count", "plain", "mib", "ms", "us", "ns"].contains(&format);
    let exact = |value: f64| Some((value, value, value));
    match name {
        "count" => exact(chosen(rows, words).len() as f64),
        "distinct" => {
            let columns: Vec<&str> = words[0].split(',').collect();
            exact(
                rows.iter()
                    .map(|row| columns.iter().map(|name| &row[*name]).collect::<Vec<_>>())
                    .collect::<BTreeSet<_>>()
                    .len() as f64,
            )
        }
        "median" if bare => exact(median(column(&chosen(rows, &words[1..]), words[0]))),
        "median" => Some(interval(&column(&chosen(rows, &words[1..]), words[0]))),
        "spread" | "extremes" => {
            let values = sorted(column(&chosen(rows, &words[1..]), words[0]));
            let (least, most) = (*values.first()?, *values.last()?);
            if name == "spread" { exact(most / least) } else { Some((median(values), least, most)) }
        }
        "medians" | "ratio" => {
            let (key, (top, bottom)) =
                words[1].split_once('=').map(|(key, arms)| (key, arms.split_once('/').unwrap()))?;
            let of = |arm| chosen(rows, &[&[format!("{key}={arm}").as_str()], &words[2..]].concat());
            let (top, bottom) = (of(top), of(bottom));
            if name == "medians" {
                return exact(median(column(&top, words[0])) / median(column(&bottom, words[0])));
            }
            let by_round = |rows: &[&Record]| {
                rows.iter().map(|row| (row["round"].parse().unwrap(), value(row, words[0]))).collect()
            };
            let (top, bottom): (BTreeMap<u32, f64>, BTreeMap<u32, f64>) = (by_round(&top), by_round(&bottom));
            let ratios: Vec<f64> =
                top.iter().filter_map(|(round, value)| Some(value / bottom.get(round)?)).collect();
            // Too few values for a 95 % interval: bench/harness/limits.py.
            let few = ratios.len() < 5 && format.starts_with("most");
            let open = few.then_some((0.0, f64::NEG_INFINITY, f64::INFINITY));
            (!ratios.is_empty()).then(|| open.unwrap_or_else(|| interval(&ratios)))
        }
        "true_ratio" => Some(true_ratio(rows, words)),
        _ => None,
    }
}

/// Reported time divided by the program's own. A verb lengthens the program's own time; the median effect is
/// subtracted.
fn true_ratio(rows: &[Record], words: &[&str]) -> Figure {
    let said = chosen(rows, words);
    let plain = chosen(rows, &[words[0], "verb=plain"]);
    let each = |row: &Record| value(row, "own_s") / value(row, "own_faults");
    let longer = median(said.iter().zip(&plain).map(|(row, before)| each(row) / each(before)).collect());
    let ratios: Vec<f64> =
        said.iter().map(|row| value(row, "seconds") / (value(row, "own_s") / longer)).collect();
    interval(&ratios)
}

fn share(rows: &[Record], words: &[&str]) -> String {
    let all = chosen(rows, words.get(2..).unwrap_or_default()); // after `of`
    let (key, wanted) = words[0].split_once('=').unwrap();
    // Questions that were not asked do not count.
    let asked: Vec<_> = all.into_iter().filter(|row| !row[key].is_empty()).collect();
    format!(
        "{} of {}",
        grouped(asked.iter().filter(|row| row[key] == wanted).count() as f64),
        grouped(asked.len() as f64)
    )
}

/// Rows with all these values; `_` stands for a blank.
fn chosen<'a>(rows: &'a [Record], filters: &[&str]) -> Vec<&'a Record> {
    let holds = |row: &Record, filter: &str| {
        let (key, wanted) =
            filter.split_once('=').unwrap_or_else(|| panic!("INDEX.toml: no filter: {filter}"));
        row[key] == wanted || wanted.contains('_') && row[key].replace(' ', "_") == wanted
    };
    rows.iter().filter(|row| filters.iter().all(|filter| holds(row, filter))).collect()
}

fn column(rows: &[&Record], name: &str) -> Vec<f64> {
    assert!(!rows.is_empty(), "INDEX.toml: no rows for {name}");
    rows.iter().map(|row| value(row, name)).collect()
}

fn value(row: &Record, name: &str) -> f64 {
    let one = |name: &str| -> f64 {
        let name = if name == "time_s" && !row["body_s"].is_empty() { "body_s" } else { name };
        let name = if name == "time_s" { "wall_s" } else { name };
        row.get(name)
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(|| panic!("INDEX.toml: no number {name} in {row:?}"))
    };
    let total = |names: &str| names.split('+').map(one).sum::<f64>();
    match name.split_once('/') {
        Some((top, bottom)) => total(top) / total(bottom),
        None => total(name),
    }
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn median(mut values: Vec<f64>) -> f64 {
    let (half, is_odd) = (values.len() / 2, values.len() % 2 == 1);
    let (below, &mut middle, _) = values.select_nth_unstable_by(half, f64::total_cmp);
    let before = below.iter().copied().max_by(f64::total_cmp);
    before.filter(|_| !is_odd).map_or(middle, |before| (before + middle) / 2.0)
}

/// Median with its 95 % bootstrap interval, as bench/harness/figures.py draws it.
fn interval(values: &[f64]) -> Figure {
    let mut state = 1_u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        values[((state >> 33) % values.len() as u64) as usize]
    };
    let drawn = sorted((0..2000).map(|_| median((0..values.len()).map(|_| draw()).collect())).collect());
    (median(values.to_vec()), drawn[50], drawn[1949])
}

/// The values at a path; `*` stands for every element.
fn at<'a>(json: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut found = vec![json];
    for step in path.split('.') {
        found = found
            .into_iter()
            .flat_map(|value| match (value, step) {
                (Value::Array(all), "*") => all.iter().collect(),
                (Value::Array(all), _) => all.get(step.parse::<usize>().unwrap()).into_iter().collect(),
                (value, _) => value.get(step).into_iter().collect::<Vec<_>>(),
            })
            .collect();
    }
    found
}

fn sum(json: &Value, path: &str) -> f64 {
    at(json, path).iter().filter_map(|value| value.as_f64()).sum()
}

fn json_figure(json: &Value, name: &str, path: &str) -> Option<Figure> {
    let found = at(json, path);
    if name == "json_range" {
        let values = sorted(found.iter().filter_map(|value| value.as_f64()).collect());
        let (least, most) = (*values.first()?, *values.last()?);
        return Some((median(values), least, most));
    }
    let found = *found.first()?;
    let number = |name: &str| found.get(name).and_then(Value::as_f64);
    Some(match found.as_f64() {
        Some(value) => (value, value, value),
        None => (number("value")?, number("low")?, number("high")?),
    })
}

/// Three digits, at least two of them after the point below 10.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => grouped(value),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Digits in groups of three.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap()).collect();
    groups.join(" ")
}

fn print((value, low, high): Figure, format: &str) -> String {
    let (name, limit) = format.split_once(' ').unwrap_or((format, ""));
    let scaled = |factor: f64| digits(value * factor);
    let change = |value: f64| format!("{:+.0}", (value - 1.0) * 100.0).replace("-0", "0").replace("+0", "0");
    match name {
        "count" => grouped(value),
        "plain" => digits(value),
        "mib" => grouped(value / 1024.0),
        "ms" => scaled(1e3),
        "us" => scaled(1e6),
        "ns" => scaled(1e9),
        // As the program prints a share.
        "share" => Percent(value).to_string(),
        "share_interval" => {
            format!("{} % ({} to {})", digits(value * 1e2), digits(low * 1e2), digits(high * 1e2))
        }
        "interval" => format!("{} ({} to {})", digits(value), digits(low), digits(high)),
        "interval_ms" => format!("{} ({} to {})", scaled(1e3), digits(low * 1e3), digits(high * 1e3)),
        "times" => format!("{}x ({} to {})", digits(value), digits(low), digits(high)),
        "percent" => format!("{} % ({} to {})", change(value), change(low), change(high)),
        // Within the limit, beyond it, or undecided.
        "most" => {
            let most: f64 = limit.parse().unwrap();
            (if high <= most {
                "holds"
            } else if low > most {
                "fails"
            } else {
                "cannot say"
            })
            .to_owned()
        }
        _ => panic!("INDEX.toml: no format {format}"),
    }
}

#[test]
fn intervals_are_those_of_the_harness() {
    // bench/tests/test_harness.py has the same numbers.
    assert_eq!(interval(&[1.0, 2.0, 3.0, 4.0, 10.0]), (3.0, 1.0, 10.0));
    assert_eq!(interval(&(0..15).map(|n| f64::from(n * n % 17)).collect::<Vec<_>>()), (9.0, 4.0, 13.0));
}
