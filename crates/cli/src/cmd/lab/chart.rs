//! An experiment's charts: cells to lines of points.
//!
//! In: a chart, and the cells that were measured. Out: a plot: one line per combination of the parameters that differ, named
//! by their values, and the document's points.

use std::collections::BTreeSet;

use faultless_lab::results::Quantities;
use faultless_lab::{Cell, Chart};
use faultless_report::svg::{Line, Plot, Point};
use faultless_trace::measurement::median_interval;

use super::report::natural_text;

/// The plot of a chart; `cells` are in the order in which lines and points are wanted.
pub(super) fn plot(chart: &Chart, cells: &[(&Cell, &Quantities)]) -> Plot {
    let drawn: Vec<(&Cell, Point)> = cells
        .iter()
        .filter_map(|&(cell, quantities)| {
            let x = cell.text(chart.x).ok()?.to_owned();
            let found = median_interval(&(chart.values)(cell, quantities))?;
            let [low, high] = match found.high {
                f64::MAX => [f64::NAN; 2],
                high => [found.low, high],
            };
            Some((cell, Point { x, value: found.value, low, high }))
        })
        .collect();
    let telling = telling(chart.x, &drawn);
    let mut lines: Vec<Line> = Vec::new();
    for (cell, point) in drawn {
        let parts = telling.iter().filter_map(|name| Some(part(name, cell.text(name).ok()?)));
        let name = parts.collect::<Vec<_>>().join(", ");
        let name = if name.is_empty() { "measured".to_owned() } else { name };
        add(&mut lines, &name, false, point);
    }
    let is_words = lines.iter().flat_map(|line| &line.points).any(|point| point.x.parse::<f64>().is_err());
    for &(name, x, value) in chart.document {
        let point = |x: String| Point { x, value, low: value, high: value };
        match is_words {
            true => add(&mut lines, "", true, point(name.to_owned())),
            false => add(&mut lines, name, true, point(x.to_string())),
        }
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| natural_text(&a.x, &b.x));
    }
    Plot {
        id: chart.id.into(),
        title: chart.title.into(),
        x_label: chart.x_label.into(),
        y_label: chart.y_label.into(),
        x_is_bytes: chart.x.ends_with("bytes"),
        lines,
    }
}

fn add(lines: &mut Vec<Line>, name: &str, is_document: bool, point: Point) {
    match lines.iter_mut().find(|line| line.is_document == is_document && line.name == name) {
        Some(line) => line.points.push(point),
        None => lines.push(Line { name: name.into(), is_document, points: vec![point] }),
    }
}

/// Parameters beside the one along the axis of which the cells have different values.
fn telling(x: &str, drawn: &[(&Cell, Point)]) -> Vec<String> {
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in drawn.iter().flat_map(|(cell, _)| &cell.parameters) {
        if name != x && !names.contains(&name) {
            names.push(name);
        }
    }
    let differs = |name: &&String| {
        let values: BTreeSet<Option<&str>> = drawn.iter().map(|(cell, _)| cell.text(name).ok()).collect();
        values.len() > 1
    };
    names.into_iter().filter(differs).cloned().collect()
}

/// A parameter in a legend: what it is where the value alone does not say it.
fn part(name: &str, value: &str) -> String {
    match (name, value) {
        ("mib", _) => format!("{value} MiB"),
        ("threads", "1") => "1 thread".to_owned(),
        ("threads", _) => format!("{value} threads"),
        (_, "on" | "off" | "yes" | "no" | "true" | "false" | "none") => format!("{name} {value}"),
        _ if value.parse::<f64>().is_ok() => format!("{name} {value}"),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultless_lab::results::values;

    const CHART: Chart = Chart {
        id: "c",
        title: "t",
        x: "threads",
        x_label: "threads",
        y_label: "ns",
        values: |_, found| values(found, "p", "wall_ns").unwrap_or_default().to_vec(),
        document: &[("read", 4.0, 2.0)],
    };

    fn quantities(value: f64) -> Quantities {
        [(("p".to_owned(), "wall_ns".to_owned()), vec![value; 3])].into()
    }

    #[test]
    fn lines_are_told_apart_by_what_differs() {
        let cell = |access: &str, threads: u32| {
            Cell::of("touch").with("access", access).with("mib", 64).with("threads", threads)
        };
        let cells = [(cell("read", 16), 1.0), (cell("read", 2), 3.0), (cell("write", 2), 5.0)];
        let found: Vec<_> = cells.iter().map(|(_, value)| quantities(*value)).collect();
        let cells: Vec<_> = cells.iter().map(|(cell, _)| cell).zip(&found).collect();
        let plot = plot(&CHART, &cells);
        let names: Vec<_> = plot.lines.iter().map(|line| (line.name.as_str(), line.is_document)).collect();
        assert_eq!(names, [("read", false), ("write", false), ("read", true)]);
        let places: Vec<_> = plot.lines[0].points.iter().map(|point| point.x.as_str()).collect();
        assert_eq!(places, ["2", "16"], "by their value");
    }

    #[test]
    fn a_document_names_rows_where_words_are_along_the_axis() {
        let cell = Cell::of("touch").with("threads", "many");
        let plot = plot(&CHART, &[(&cell, &quantities(1.0))]);
        assert_eq!(plot.lines[0].name, "measured");
        assert_eq!((plot.lines[1].name.as_str(), plot.lines[1].points[0].x.as_str()), ("", "read"));
    }
}
