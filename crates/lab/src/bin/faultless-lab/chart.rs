//! An experiment's charts: cells to lines of points.
//!
//! In: a chart, and the cells that were measured. Out: a plot: one line per combination of the parameters that differ, named
//! by their values, and the document's points.

use std::collections::BTreeSet;

use faultless_lab::results::{Quantities, values};
use faultless_lab::{Cell, Chart, Measured};
use faultless_report::svg::{Line, Plot, Point};
use faultless_trace::measurement::median_interval;

use faultless_lab::cell::natural_cmp;

/// The plot of a chart; `cells` are in the order in which lines and points are wanted.
pub(crate) fn plot(chart: &Chart, cells: &Measured) -> Plot {
    let all = cells.iter().map(|&(cell, quantities)| (cell, points(chart, cell, quantities)));
    let drawn: Vec<(&Cell, Vec<Point>)> = all.filter(|(_, points)| !points.is_empty()).collect();
    let telling = telling(chart, &drawn);
    let mut lines: Vec<Line> = Vec::new();
    for (cell, points) in drawn {
        let parts = telling.iter().filter_map(|name| Some(part(name, cell.text(name).ok()?)));
        let name = parts.collect::<Vec<_>>().join(", ");
        let name = if name.is_empty() { "measured".to_owned() } else { name };
        add(&mut lines, &name, false, points);
    }
    let is_words = lines.iter().flat_map(|line| &line.points).any(|point| point.x.parse::<f64>().is_err());
    // Without anything of ours there is nothing to hold the document's against.
    let theirs = if lines.is_empty() { Vec::new() } else { (chart.document)() };
    for (name, x, value) in theirs {
        let point = |x: String| vec![Point { x, value, low: value, high: value }];
        if is_words {
            add(&mut lines, "", true, point(name.to_owned()));
        } else {
            add(&mut lines, name, true, point(x.to_string()));
        }
    }
    if !is_words {
        lines.iter_mut().for_each(|line| line.points.sort_by(|a, b| natural_cmp(&a.x, &b.x)));
    }
    Plot {
        id: chart.id.into(),
        title: chart.title.into(),
        x_label: chart.x_label.into(),
        y_label: chart.y_label.into(),
        x_is_bytes: chart.x_label.ends_with(" in bytes"),
        lines,
        remark: chart.remark.into(),
    }
}

/// What a cell adds to a chart: a point, or one for each of the chart's parts.
fn points(chart: &Chart, cell: &Cell, quantities: &Quantities) -> Vec<Point> {
    let point = |x: String, samples: &[f64]| {
        let found = median_interval(samples)?;
        let [low, high] = match found.high {
            f64::MAX => [f64::NAN; 2],
            high => [found.low, high],
        };
        Some(Point { x, value: found.value, low, high })
    };
    if !chart.parts.is_empty() {
        let of_part = |(word, phase, quantity): &(&str, &str, &str)| {
            point((*word).to_owned(), values(quantities, phase, quantity)?)
        };
        return chart.parts.iter().filter_map(of_part).collect();
    }
    let Ok(x) = cell.text(chart.x) else { return Vec::new() };
    let x = (chart.place)(cell, quantities).map_or_else(|| x.to_owned(), |place| place.to_string());
    point(x, &(chart.values)(cell, quantities)).into_iter().collect()
}

fn add(lines: &mut Vec<Line>, name: &str, is_document: bool, points: Vec<Point>) {
    match lines.iter_mut().find(|line| line.is_document == is_document && line.name == name) {
        Some(line) => line.points.extend(points),
        None => lines.push(Line { name: name.into(), is_document, points }),
    }
}

/// The parameters that distinguish the cells, without the one along the axis.
fn telling(chart: &Chart, drawn: &[(&Cell, Vec<Point>)]) -> Vec<String> {
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in drawn.iter().flat_map(|(cell, _)| &cell.parameters) {
        if name != chart.x && !names.contains(&name) {
            names.push(name);
        }
    }
    let differs = |name: &&String| {
        let values: BTreeSet<Option<&str>> = drawn.iter().map(|(cell, _)| cell.text(name).ok()).collect();
        values.len() > 1
    };
    names.into_iter().filter(differs).cloned().collect()
}

/// A parameter in a legend, with its name if the value needs one.
fn part(name: &str, value: &str) -> String {
    match (name, value) {
        ("mib", _) => format!("{value} MiB"),
        ("threads", "1") => "1 thread".to_owned(),
        ("threads", _) => format!("{value} threads"),
        ("page", "base") => "base pages".to_owned(),
        ("beside", _) => format!("{value} beside"),
        (_, "on" | "off" | "yes" | "no" | "true" | "false" | "none") => format!("{name} {value}"),
        _ if value.parse::<f64>().is_ok() => format!("{name} {value}"),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHART: Chart = Chart {
        id: "c",
        title: "t",
        x: "threads",
        x_label: "threads",
        y_label: "ns",
        values: |_, found| values(found, "p", "wall_ns").unwrap_or_default().to_vec(),
        document: || vec![("read", 4.0, 2.0)],
        ..Chart::BLANK
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

    #[test]
    fn a_cell_may_have_a_row_for_each_of_its_parts() {
        const PARTS: Chart =
            Chart { x: "part", parts: &[("wall", "p", "wall_ns"), ("none", "p", "cpu_ns")], ..CHART };
        let plot = plot(&PARTS, &[(&Cell::of("phases"), &quantities(2.0))]);
        let words: Vec<_> = plot.lines[0].points.iter().map(|point| point.x.as_str()).collect();
        assert_eq!((words, plot.lines.len()), (vec!["wall"], 2));
    }
}
