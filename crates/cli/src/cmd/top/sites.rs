//! The table of code that touches memory.
//!
//! In: the model and an area. Out: a row for each site, most faults first, or the reason why there is none.

use faultless_trace::measurement::{Count, Percent};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table, Wrap};

use super::model::Model;
use super::theme::Theme;

/// Lines that the sites, or the reason for their absence, take.
pub(super) fn lines(model: &Model, most: usize) -> usize {
    const REASON: usize = 5;
    match model.shown_sites().len() {
        0 => REASON,
        found => found.min(most),
    }
}

/// Draws the sites below a rule.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    let whose = match model.detail {
        Some(_) => "sites of this process ",
        None => "sites ",
    };
    let note = if model.sites.is_empty() { "" } else { " function < caller by frame pointers, sampled" };
    let block = Block::new()
        .borders(Borders::TOP)
        .border_style(theme.faint())
        .title(Line::styled(whose, theme.head()))
        .title(Line::styled(note, theme.faint()).right_aligned());
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let sites = model.shown_sites();
    if sites.is_empty() {
        let text = if model.missing.is_empty() {
            "none seen in this interval".to_owned()
        } else {
            model.missing.join("\n")
        };
        return frame
            .render_widget(Paragraph::new(text).style(theme.faint()).wrap(Wrap { trim: true }), inner);
    }
    let all: f64 = sites.iter().map(|site| site.faults).sum();
    let processes = model.detail.is_none() && inner.width >= 60;
    let modules = inner.width >= if processes { 100 } else { 60 };
    let rows = sites.iter().take(usize::from(inner.height)).map(|site| {
        let number = |text: String| Cell::from(Text::from(Line::from(text).right_aligned()));
        let mut function = vec![Span::raw(shorten(&site.function))];
        if let Some(caller) = &site.caller {
            function.push(Span::styled(format!(" < {}", shorten(caller)), theme.faint()));
        }
        let place = |text: &str| Cell::from(Span::styled(text.to_owned(), theme.faint()));
        let process = processes.then(|| place(model.name_of(site.pid)));
        let module = modules.then(|| place(&site.module));
        let cells = [
            number(Count(site.faults.round() as u64).to_string()),
            number(Percent(site.faults / all).to_string()),
            Cell::from(Line::from(function)),
        ];
        Row::new(cells.into_iter().chain(process).chain(module))
    });
    let widths = [Constraint::Length(9), Constraint::Length(6), Constraint::Fill(1)];
    let process = processes.then_some(Constraint::Length(15)); // the longest name of a task
    let module = modules.then_some(Constraint::Length(20));
    let widths = widths.into_iter().chain(process).chain(module);
    frame.render_widget(Table::new(rows, widths), inner);
}

/// A function's name without arguments and type parameters, reduced to the last two parts of its path.
fn shorten(name: &str) -> String {
    if name.starts_with(['<', '[', '(']) {
        return name.to_owned();
    }
    let (mut bare, mut depth) = (String::new(), 0_usize);
    for letter in name.chars() {
        match letter {
            '(' => break,
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => bare.push(letter),
            _ => {}
        }
    }
    let parts: Vec<&str> = bare.split("::").filter(|part| !part.is_empty()).collect();
    let last = parts.len().saturating_sub(2);
    parts.get(last..).map(|parts| parts.join("::")).filter(|short| !short.is_empty()).unwrap_or(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_their_last_two_parts() {
        assert_eq!(shorten("faultless::cmd::workload::pipeline::fill"), "pipeline::fill");
        assert_eq!(
            shorten("std::vector<int, std::allocator<int> >::resize(unsigned long)"),
            "vector::resize"
        );
        assert_eq!(shorten("memset"), "memset");
        assert_eq!(shorten("[kernel]"), "[kernel]");
        assert_eq!(shorten("operator<"), "operator");
        assert_eq!(shorten("::"), "::");
    }
}
