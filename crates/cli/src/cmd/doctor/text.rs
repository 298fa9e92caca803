//! The report as text.

use std::fmt::Write;

use faultless_os::page::Bytes;

use super::row::{Grade, Row};
use super::{PriceRecord, Report};

/// Everything, the verdict first.
pub(super) fn render(report: &Report) -> String {
    let mut out = format!("{}\n", report.verdict);
    let host = &report.host;
    let known = |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
    let number = |n: u64, text: String| if n == 0 { "unknown".to_owned() } else { text };
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "Linux {}, {}, {} processors, {}",
        known(&host.kernel),
        known(&host.cpu),
        number(host.cpus.into(), host.cpus.to_string()),
        number(host.memory_bytes, Bytes(usize::try_from(host.memory_bytes).unwrap_or(0)).to_string())
    );
    prices(&mut out, &report.prices);
    settings(&mut out, &report.settings);
    out.push_str("\nWhat faultless can do here\n");
    for capability in &report.capabilities {
        let mark = if capability.here { "yes" } else { "no " };
        let _ = writeln!(out, "  {mark}  {}: {}", capability.what, capability.why);
        if let Some(change) = &capability.change {
            let _ = writeln!(out, "       needs: {change}");
        }
    }
    out
}

fn prices(out: &mut String, prices: &[PriceRecord]) {
    if prices.is_empty() {
        return;
    }
    let rounds = prices.iter().find(|price| price.id == "first_touch").map_or(0, |price| price.rounds);
    let _ = writeln!(out, "\nPrices (median of {rounds} rounds +- median deviation; guest-warm memory)");
    for price in prices {
        let _ = match (price.median_ns, &price.cannot_say) {
            (Some(median), _) => {
                writeln!(
                    out,
                    "  {:<56} {:>9}  +- {}",
                    price.what,
                    ns(median),
                    ns(price.mad_ns.unwrap_or(0.0))
                )
            }
            (None, reason) => {
                let reason = reason.as_deref().unwrap_or("not measured");
                writeln!(out, "  {:<56} cannot say: {reason}", price.what)
            }
        };
    }
}

fn settings(out: &mut String, rows: &[Row]) {
    for (grade, title) in [(Grade::Act, "Costs time here"), (Grade::Note, "Worth knowing")] {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.grade == grade).collect();
        if !rows.is_empty() {
            let _ = writeln!(out, "\n{title}");
        }
        for row in rows {
            let _ = writeln!(out, "  {} = {}\n      {}", row.setting, row.value, row.meaning);
            if let Some(advice) = &row.advice {
                let _ = writeln!(out, "      -> {advice}");
            }
        }
    }
    let good: Vec<&Row> = rows.iter().filter(|row| row.grade == Grade::Good).collect();
    if !good.is_empty() {
        out.push_str("\nAs it should be\n");
    }
    for row in good {
        let _ = writeln!(out, "  {} = {}: {}", row.setting, row.value, row.meaning);
    }
}

/// A time in the unit that reads best, three digits.
pub(super) fn ns(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 999.5 => (ns, "ns"),
        ns if ns < 999_500.0 => (ns / 1e3, "us"),
        _ => (ns / 1e6, "ms"),
    };
    let digits = match value {
        value if unit == "ns" && value >= 9.95 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_the_best_unit() {
        assert_eq!(ns(1.23), "1.23 ns");
        assert_eq!(ns(125.4), "125 ns");
        assert_eq!(ns(999.6), "1.00 us");
        assert_eq!(ns(1252.0), "1.25 us");
        assert_eq!(ns(90_400.0), "90.4 us");
        assert_eq!(ns(2_500_000.0), "2.50 ms");
    }

    #[test]
    fn good_rows_are_one_line_and_urgent_ones_come_first() {
        let rows = [
            Row::new("good", "1", Grade::Good, "fine"),
            Row::new("bad", "2", Grade::Act, "slow").advice("change it"),
        ];
        let mut out = String::new();
        settings(&mut out, &rows);
        assert!(out.find("bad = 2").unwrap() < out.find("good = 1: fine").unwrap(), "{out}");
        assert!(out.contains("-> change it"));
    }
}
