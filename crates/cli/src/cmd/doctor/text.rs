//! The report as text, no wider than asked.

use faultless_console::sink::columns;
use faultless_report::table::{SCREEN, WIDTH, hang, wrap};
use faultless_trace::measurement::{Bytes, Count, Nanos};

use super::report::{PriceRecord, Report};
use super::row::{Grade, Row};

/// Nothing can be laid out in fewer columns; the terminal breaks longer lines.
const NARROWEST: usize = 32;

/// The width to fill: the reader's, at most [`WIDTH`]; a pipe is read on a screen.
pub(super) fn width() -> usize {
    columns(None).map_or(SCREEN, |columns| columns.clamp(NARROWEST, WIDTH))
}

/// The whole text, the verdict first.
pub(super) fn render(report: &Report, width: usize) -> String {
    let host = &report.host;
    let known = |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
    let number = |n: u64, text: String| if n == 0 { "unknown".to_owned() } else { text };
    let machine = format!(
        "Linux {}, {}, {}, {}",
        known(&host.kernel),
        known(&host.cpu),
        if host.cpus == 0 { "unknown processors".into() } else { Count(host.cpus.into()).of("processor") },
        number(host.memory_bytes, Bytes(host.memory_bytes).to_string())
    );
    let mut lines = wrap("", &report.verdict, width);
    lines.extend(wrap("", &machine, width));
    lines.extend(prices(&report.prices, width));
    lines.extend(settings(&report.settings, width));
    lines.extend(["".into(), "What faultless can do here".into()]);
    for capability in &report.capabilities {
        let mark = if capability.here { "  yes  " } else { "  no   " };
        lines.extend(wrap(mark, &format!("{}: {}", capability.what, capability.why), width));
        if let Some(change) = &capability.change {
            lines.extend(wrap("       needs: ", change, width));
        }
    }
    lines.join("\n") + "\n"
}

/// Figures come first in a line, so that the text beside them can wrap.
fn prices(prices: &[PriceRecord], width: usize) -> Vec<String> {
    if prices.is_empty() {
        return Vec::new();
    }
    let rounds = prices.iter().find(|price| price.id == "first_touch").map_or(0, |price| price.rounds);
    let head = format!("Prices (median of {rounds} rounds ± median deviation; guest-warm memory)");
    let mut lines = vec![String::new()];
    lines.extend(wrap("", &head, width));
    let figures: Vec<_> = prices.iter().map(figures).collect();
    let widest = |texts: &mut dyn Iterator<Item = &String>| texts.map(String::len).max().unwrap_or(0);
    let median = widest(&mut figures.iter().flatten().map(|(median, _)| median));
    let deviation = widest(&mut figures.iter().flatten().map(|(_, deviation)| deviation));
    for (price, figures) in prices.iter().zip(&figures) {
        let (first, text) = match figures {
            Some((value, spread)) => {
                (format!("  {value:>median$} ± {spread:<deviation$}  "), price.what.clone())
            }
            None => {
                let reason = price.cannot_say.as_deref().unwrap_or("not measured");
                let column = "  ".len() + median + " ± ".chars().count() + deviation;
                (format!("{:<column$}  ", "  cannot say"), format!("{}: {reason}", price.what))
            }
        };
        lines.extend(wrap(&first, &text, width));
    }
    lines
}

/// The median and the median deviation of the rounds. A deviation below the clock's resolution reads "less
/// than the resolution".
fn figures(price: &PriceRecord) -> Option<(String, String)> {
    let deviation = match (price.mad_ns?, price.resolution_ns?) {
        // Figures are multiples of half a step, except for rounding.
        (mad, step) if mad < 0.9 * step => format!("<{}", Nanos(step)),
        (mad, _) => Nanos(mad).to_string(),
    };
    Some((Nanos(price.median_ns?).to_string(), deviation))
}

fn settings(rows: &[Row], width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (grade, title) in
        [(Grade::Act, "Costs time here"), (Grade::Note, "Worth knowing"), (Grade::Good, "As it should be")]
    {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.grade == grade).collect();
        if !rows.is_empty() {
            lines.extend(["".into(), title.into()]);
        }
        for row in rows {
            if grade == Grade::Good {
                let text = format!("{} = {}: {}", row.setting, row.value, row.meaning);
                lines.extend(hang("  ", 6, &text, width));
                continue;
            }
            lines.extend(hang("  ", 6, &format!("{} = {}", row.setting, row.value), width));
            lines.extend(wrap("      ", &row.meaning, width));
            lines.extend(row.advice.iter().flat_map(|advice| wrap("      -> ", advice, width)));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(median_ns: Option<f64>, mad_ns: f64) -> PriceRecord {
        PriceRecord {
            id: "first_touch".into(),
            what: "first touch (write) of a base page".into(),
            page_bytes: 4096,
            median_ns,
            mad_ns: median_ns.map(|_| mad_ns),
            min_ns: median_ns,
            resolution_ns: median_ns.map(|_| 10.0),
            rounds: 11,
            cannot_say: median_ns.is_none().then(|| "denied".into()),
        }
    }

    #[test]
    fn good_rows_are_one_line_and_urgent_ones_come_first() {
        let rows = [
            Row::new("good", "1", Grade::Good, "fine"),
            Row::new("bad", "2", Grade::Act, "slow").advice("change it"),
        ];
        let out = settings(&rows, WIDTH).join("\n");
        assert!(out.find("bad = 2").unwrap() < out.find("good = 1: fine").unwrap(), "{out}");
        assert!(out.contains("-> change it"));
    }

    #[test]
    fn a_deviation_below_the_step_of_the_clock_is_not_called_zero() {
        let lines = prices(&[price(Some(160.0), 0.0), price(Some(160.0), 9.999)], WIDTH);
        assert!(lines[2].contains("160 ns ± <10 ns  first"), "{lines:?}");
        assert!(lines[3].contains("160 ns ± 10 ns "), "{lines:?}");
    }

    #[test]
    fn narrow_prices_wrap_beside_their_figures() {
        let lines = prices(&[price(Some(1210.0), 40.0), price(None, 0.0)], 40);
        let text = lines.join("\n");
        assert!(lines.iter().all(|line| line.chars().count() <= 40), "{text}");
        let begin = |line: &String| line.len() - line.trim_start().len();
        let figure = lines.iter().position(|line| line.contains("1.21 us")).unwrap();
        let before = lines[figure].split("first").next().unwrap();
        assert_eq!(before.chars().count(), begin(&lines[figure + 1]), "{text}");
        assert!(text.contains("cannot say"), "{text}");
    }
}
