//! One frame of the live view.
//!
//! In: the model, and a screen of any size. Out: the drawn screen, or the same as plain text. Small screens
//! show less.

use std::fmt::Write;

use faultless_trace::measurement::{Count, Nanos, Percent};
use ratatui::backend::TestBackend;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph, RenderDirection, Sparkline};
use ratatui::{Frame, Terminal};

use super::model::{Model, share, whole};
use super::theme::Theme;
use super::{sites, table};

/// Sites are shown from this height on.
const SITES_FROM: u16 = 17;
/// Rows of the sparkline on a large screen.
const SPARK_ROWS: u16 = 4;

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, model: &mut Model, colour: bool) {
    let theme = Theme { colour };
    let area = frame.area();
    let roomy = area.height >= SITES_FROM;
    let sites = if roomy { ((area.height - 8) * 2 / 5).clamp(4, 14) } else { 0 };
    let spark = if roomy { SPARK_ROWS } else { 2 };
    let parts = [
        Constraint::Length(2),
        Constraint::Length(spark),
        Constraint::Min(2),
        Constraint::Length(sites),
        Constraint::Length(1),
    ];
    let [top, bars, rows, below, keys] = Layout::vertical(parts).areas(area);
    header(frame, top, model, theme);
    sparkline(frame, bars, model, theme);
    table::draw(frame, rows, model, theme, true);
    if sites > 0 {
        sites::draw(frame, below, model, theme);
    }
    frame.render_widget(footer(model, theme), keys);
    if model.help {
        help(frame, area, theme);
    }
}

/// One frame as text of this width; as many rows as there is content. What a narrow screen has no room for stands in
/// further lines and tables.
pub(super) fn text(model: &mut Model, width: u16) -> String {
    const ROWS_MAX: usize = 20;
    const WIDTH: std::ops::RangeInclusive<u16> = 40..=200;
    let width = width.clamp(*WIDTH.start(), *WIDTH.end());
    let theme = Theme { colour: false };
    let busy = model.rows().iter().filter(|task| task.faults > 0).count();
    let rows = busy.clamp(1, ROWS_MAX) as u16 + 1;
    let sites = sites::lines(model, ROWS_MAX) as u16 + 1;
    let mut head = summary(model, theme, width);
    if head.len() > 1 || !has_room_for_machine(model, theme, width) {
        head.push(Line::from(model.machine.clone()));
    }
    let further = head.split_off(1);
    let tables = table::parts(width, model.shows_threads());
    let parts = [2, further.len() as u16, 1].into_iter();
    let parts = parts.chain(tables.iter().flat_map(|_| [rows, 1])).chain([sites]);
    let parts: Vec<u16> = parts.collect();
    let backend = TestBackend::new(width, parts.iter().sum());
    let Ok(mut terminal) = Terminal::new(backend);
    let Ok(drawn) = terminal.draw(|frame| {
        let areas = Layout::vertical(parts.iter().map(|rows| Constraint::Length(*rows))).split(frame.area());
        header(frame, areas[0], model, theme);
        frame.render_widget(Paragraph::new(further), areas[1]);
        for (index, columns) in tables.iter().enumerate() {
            table::draw_columns(frame, areas[3 + 2 * index], model, theme, false, columns);
        }
        sites::draw(frame, areas[areas.len() - 1], model, theme);
    });
    let mut text = String::new();
    for row in drawn.buffer.content.chunks(usize::from(drawn.area.width).max(1)) {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn header(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    let [first, second] = Layout::vertical([Constraint::Length(1); 2]).areas(area);
    let left = title(model, theme);
    if has_room_for_machine(model, theme, first.width) {
        let machine = Paragraph::new(Line::styled(model.machine.as_str(), theme.faint()));
        frame.render_widget(machine.alignment(Alignment::Right), first);
    }
    frame.render_widget(left, first);
    frame.render_widget(summary(model, theme, second.width).swap_remove(0), second);
}

/// Whether the machine's name fits beside the title.
fn has_room_for_machine(model: &Model, theme: Theme, width: u16) -> bool {
    title(model, theme).width() + model.machine.len() + 2 <= usize::from(width)
}

fn title(model: &Model, theme: Theme) -> Line<'static> {
    let subject = match model.detail {
        Some(pid) => format!("{} ({pid})", model.name_of(pid)),
        None => model.subject.clone(),
    };
    let ended = match &model.interval.ended {
        Some(Some(exit)) => format!("  ended: {exit}"),
        Some(None) => "  ended".to_owned(),
        None if model.detail.is_some_and(|pid| model.task(pid).is_none()) => "  ended".to_owned(),
        None => String::new(),
    };
    Line::from(vec![
        Span::styled("faultless top", theme.head()),
        Span::raw("  "),
        Span::styled(subject, theme.strong()),
        Span::styled(ended, theme.warn()),
        Span::styled(if model.paused { "  paused" } else { "" }, theme.warn()),
    ])
}

/// The answer in one line, and less important parts that it has no room for in further ones. A screen has only the first.
fn summary<'a>(model: &Model, theme: Theme, width: u16) -> Vec<Line<'a>> {
    let interval = &model.interval;
    if interval.end_ns == 0 {
        return vec![Line::styled("waiting for the first interval ...", theme.faint())];
    }
    let of_process = model.detail.map(|pid| model.task(pid).cloned().unwrap_or_default());
    let task = of_process.unwrap_or_else(|| whole(interval));
    let share = share(&task);
    let rate = |count: u64| Count(model.per_s(count as f64).round() as u64);
    let mut spans = vec![
        Span::styled(format!("{} faults/s", rate(task.faults)), theme.strong()),
        Span::raw("  "),
        Span::styled(format!("{}/s", Nanos(model.per_s(task.fault_ns))), theme.share(share)),
        Span::raw("  "),
        Span::styled(format!("{} of CPU", Percent(share)), theme.share(share)),
    ];
    let source = match interval.timed {
        0 => "calibrated".to_owned(),
        timed => format!("{} timed", Count(timed as u64)),
    };
    let mut rest = vec![format!("{} each ({source})", Nanos(interval.price_ns))];
    if task.major_faults > 0 {
        rest.push(format!("{} major/s", rate(task.major_faults)));
    }
    if interval.lost > 0 {
        rest.push(format!("{} lost", Count(interval.lost).of("sample")));
    }
    let mut further: Vec<Line<'_>> = Vec::new();
    for text in rest {
        let used: usize = spans.iter().map(Span::width).sum();
        if used + 2 + text.len() <= usize::from(width) {
            spans.push(Span::styled(format!("  {text}"), theme.faint()));
        } else {
            further.push(Line::styled(text, theme.faint()));
        }
    }
    std::iter::once(Line::from(spans)).chain(further).collect()
}

fn sparkline(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    let shown = || model.history.iter().take(usize::from(area.width));
    let peak = shown().max().copied().unwrap_or(0);
    let title = if model.detail.is_some() { "faults/s of all " } else { "faults/s " };
    let block = Block::new()
        .borders(Borders::TOP)
        .border_style(theme.faint())
        .title(Line::styled(title, theme.head()))
        .title(Line::styled(format!(" peak {}", Count(peak)), theme.faint()).right_aligned());
    let bars = Sparkline::default()
        .block(block)
        .data(shown().copied())
        .max(peak.max(1))
        .direction(RenderDirection::RightToLeft)
        .style(theme.bar());
    frame.render_widget(bars, area);
}

fn footer<'a>(model: &Model, theme: Theme) -> Line<'a> {
    let sort = format!("sort: {}", model.sort.name());
    let list = if model.threads { "processes" } else { "threads" };
    let keys = match model.detail {
        Some(_) => {
            [("Esc", "back"), ("s", sort.as_str()), ("p", "pause"), ("?", "help"), ("q", "quit")].to_vec()
        }
        None => [
            ("q", "quit"),
            ("?", "help"),
            ("s", sort.as_str()),
            ("t", list),
            ("Enter", "sites"),
            ("p", "pause"),
        ]
        .to_vec(),
    };
    let spans = keys.into_iter().flat_map(|(key, text)| {
        [Span::styled(key.to_owned(), theme.head()), Span::styled(format!(" {text}  "), theme.faint())]
    });
    Line::from(spans.collect::<Vec<_>>())
}

const HELP: &str = "\
up down PgUp PgDn  choose a row
Enter  sites and threads of it     Esc  back
F T S P M  sort by faults, time, share, CPU, memory
s < >      the next or the last of these
t H  threads or processes
p    pause        q  quit

FAULTS/S   minor and major page faults
TIME/S     faults times the price of one
CPU        of one processor
IN FAULTS  share of its CPU time
AVOIDABLE  faults saved by keeping freed pages,
KEEP       at most so much of them";

fn help(frame: &mut Frame<'_>, area: Rect, theme: Theme) {
    let width = HELP.lines().map(str::len).max().unwrap_or(0) as u16 + 4;
    let height = HELP.lines().count() as u16 + 2;
    let [middle] =
        Layout::vertical([Constraint::Length(height)]).flex(ratatui::layout::Flex::Center).areas(area);
    let [middle] =
        Layout::horizontal([Constraint::Length(width)]).flex(ratatui::layout::Flex::Center).areas(middle);
    let block = Block::bordered()
        .title(Line::styled(" help ", theme.head()))
        .padding(ratatui::widgets::Padding::horizontal(1));
    frame.render_widget(Clear, middle);
    frame.render_widget(Paragraph::new(HELP).block(block), middle);
}

#[cfg(test)]
mod tests;
