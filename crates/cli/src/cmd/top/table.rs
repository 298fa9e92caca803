//! The table of processes or threads.
//!
//! In: the model and an area. Out: the columns and rows that fit, the chosen row among them.

use faultless_prof::live::Task;
use faultless_trace::measurement::{Bytes, Count, Nanos, Percent};
use faultless_trace::stat::Point;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Row, Table};

use super::model::{Model, cpu_ns, share};
use super::theme::Theme;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Pid,
    Tid,
    Name,
    Faults,
    Time,
    Cpu,
    Share,
    Avoidable,
    Keep,
    Major,
    Anonymous,
}

impl Column {
    /// In the order of the screen.
    const ALL: [Self; 11] = [
        Self::Pid,
        Self::Tid,
        Self::Name,
        Self::Faults,
        Self::Time,
        Self::Cpu,
        Self::Share,
        Self::Avoidable,
        Self::Keep,
        Self::Major,
        Self::Anonymous,
    ];

    fn head(self) -> &'static str {
        match self {
            Self::Pid => "PID",
            Self::Tid => "TID",
            Self::Name => "COMMAND",
            Self::Faults => "FAULTS/S",
            Self::Time => "TIME/S",
            Self::Cpu => "CPU",
            Self::Share => "IN FAULTS",
            Self::Avoidable => "AVOIDABLE",
            Self::Keep => "KEEP",
            Self::Major => "MAJOR/S",
            Self::Anonymous => "ANON",
        }
    }

    /// Width of the column, and the smallest screen width that shows it.
    fn width(self) -> (u16, u16) {
        match self {
            Self::Pid | Self::Tid => (7, 0),
            Self::Name => (8, 0),
            Self::Faults => (9, 0),
            Self::Time => (8, 0),
            Self::Cpu => (6, 60),
            Self::Share => (9, 50),
            Self::Avoidable => (9, 70),
            Self::Keep => (8, 78),
            Self::Major => (7, 90),
            Self::Anonymous => (8, 100),
        }
    }

    fn is_shown(self, width: u16, threads: bool) -> bool {
        width >= self.width().1 && self.exists(threads)
    }

    fn exists(self, threads: bool) -> bool {
        let of_processes = matches!(self, Self::Avoidable | Self::Keep | Self::Anonymous);
        (self != Self::Tid || threads) && !(of_processes && threads)
    }

    /// Whether it says whose row it is.
    fn is_name(self) -> bool {
        matches!(self, Self::Pid | Self::Tid | Self::Name)
    }

    fn cell(self, task: &Task, model: &Model, theme: Theme) -> (String, Style) {
        let plain = |text: String| (text, Style::new());
        let known = |text: Option<String>| text.map_or(("-".to_owned(), theme.faint()), plain);
        match self {
            Self::Pid => plain(task.pid.to_string()),
            Self::Tid => plain(task.tid.to_string()),
            Self::Name => plain(task.name.clone()),
            Self::Faults => plain(Count(model.per_s(task.faults as f64).round() as u64).to_string()),
            Self::Time => plain(Nanos(model.per_s(task.fault_ns)).to_string()),
            Self::Cpu => plain(Percent(model.per_s(cpu_ns(task)) / 1e9).to_string()),
            Self::Share => (Percent(share(task)).to_string(), theme.share(share(task))),
            Self::Avoidable => match &task.avoidable {
                Some(point) => (range(point), if point.low >= HALF { theme.good() } else { Style::new() }),
                None => known(None),
            },
            Self::Keep => known(task.avoidable.map(|point| Bytes(point.keep_bytes).to_string())),
            Self::Major => plain(Count(model.per_s(task.major_faults as f64).round() as u64).to_string()),
            Self::Anonymous => known(task.anon_bytes.map(|bytes| Bytes(bytes).to_string())),
        }
    }
}

/// Shares from here on are coloured.
const HALF: f64 = 0.5;

/// `94-97 %`.
fn range(point: &Point) -> String {
    let whole = |share: f64| format!("{:.0}", share * 100.0);
    let (low, high) = (whole(point.low), whole(point.high));
    if low == high { format!("{high} %") } else { format!("{low}-{high} %") }
}

/// The columns that fit a width, then those of further tables with all that does not.
pub(super) fn parts(width: u16, threads: bool) -> Vec<Vec<Column>> {
    let shown = shown(width, threads);
    let names = || Column::ALL.into_iter().filter(|column| column.is_name() && column.exists(threads));
    let least = |columns: &[Column]| columns.iter().map(|column| column.width().0 + 1).sum::<u16>() - 1;
    let left: Vec<Column> =
        Column::ALL.into_iter().filter(|column| column.exists(threads) && !shown.contains(column)).collect();
    let mut further: Vec<Vec<Column>> = Vec::new();
    for column in left {
        match further.last_mut() {
            Some(last) if least(last) + 1 + column.width().0 <= width => last.push(column),
            _ => further.push(names().chain([column]).collect()),
        }
    }
    std::iter::once(shown).chain(further).collect()
}

fn shown(width: u16, threads: bool) -> Vec<Column> {
    Column::ALL.into_iter().filter(|column| column.is_shown(width, threads)).collect()
}

/// Draws the table. With `choose`, the chosen row is marked.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &mut Model, theme: Theme, choose: bool) {
    let columns = shown(area.width, model.shows_threads());
    draw_columns(frame, area, model, theme, choose, &columns);
}

/// The same with these columns.
pub(super) fn draw_columns(
    frame: &mut Frame<'_>,
    area: Rect,
    model: &mut Model,
    theme: Theme,
    choose: bool,
    columns: &[Column],
) {
    let fits = usize::from(area.height.saturating_sub(1));
    model.page = fits.max(1);
    let selected = model.selected();
    let rows = model.rows();
    let first =
        if choose { selected.saturating_sub(fits / 2).min(rows.len().saturating_sub(fits)) } else { 0 };
    let shown = rows.iter().enumerate().skip(first).take(fits);
    let body = shown.map(|(index, task)| {
        let style = match (choose && index == selected, task.faults) {
            (true, _) => theme.chosen(),
            (false, 0) => theme.faint(),
            (false, _) => Style::new(),
        };
        Row::new(columns.iter().map(|column| {
            let (text, style) = column.cell(task, model, theme);
            aligned(*column, text).style(style)
        }))
        .style(style)
    });
    let widths = columns.iter().map(|column| match column {
        Column::Name => Constraint::Fill(1),
        _ => Constraint::Length(column.width().0),
    });
    let head = Row::new(columns.iter().map(|column| aligned(*column, column.head().to_owned())));
    frame.render_widget(Table::new(body, widths).header(head.style(theme.head())), area);
}

/// Names to the left, figures to the right.
fn aligned<'a>(column: Column, text: String) -> Cell<'a> {
    let line = Line::from(text);
    Cell::from(Text::from(if column == Column::Name { line } else { line.right_aligned() }))
}
