//! The code that touches.
//!
//! In: the model and the room. Out: a row for each site, most faults first, or why there is none.

use faultless_trace::measurement::{Count, Percent};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table, Wrap};

use super::frame::Theme;
use super::model::Model;

/// Lines that the sites, or the reason for their absence, take at most.
pub(super) fn lines(model: &Model, most: usize) -> usize {
    const REASON: usize = 3;
    match model.shown_sites().len() {
        0 => REASON,
        found => found.min(most),
    }
}

/// Draws them below a line.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    let whose = match model.detail {
        Some(_) => "sites of this process ",
        None => "sites ",
    };
    let note = if model.sites.is_empty() { "" } else { " function < caller, from samples" };
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
    let [inner] = Layout::vertical([Constraint::Fill(1)]).areas(inner);
    let all: f64 = sites.iter().map(|site| site.faults).sum();
    let wide = inner.width >= 60;
    let rows = sites.iter().take(usize::from(inner.height)).map(|site| {
        let number = |text: String| Cell::from(Text::from(Line::from(text).right_aligned()));
        let mut function = vec![Span::raw(shorten(&site.function))];
        if let Some(caller) = &site.caller {
            function.push(Span::styled(format!(" < {}", shorten(caller)), theme.faint()));
        }
        let mut cells = vec![
            number(Count(site.faults.round() as u64).to_string()),
            number(Percent(site.faults / all).to_string()),
            Cell::from(Line::from(function)),
        ];
        if wide {
            let place = match model.detail {
                Some(_) => site.module.clone(),
                None if site.module == model.name_of(site.pid) => site.module.clone(),
                None => format!("{} in {}", site.module, model.name_of(site.pid)),
            };
            cells.push(Cell::from(Span::styled(place, theme.faint())));
        }
        Row::new(cells)
    });
    let mut widths = vec![Constraint::Length(9), Constraint::Length(6), Constraint::Fill(3)];
    if wide {
        widths.push(Constraint::Fill(2));
    }
    frame.render_widget(Table::new(rows, widths), inner);
}

/// A function's name without arguments, parameters of types, and all but the last two parts of its path.
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
        assert_eq!(shorten("+0x3f10"), "+0x3f10");
        assert_eq!(shorten("operator<"), "operator");
        assert_eq!(shorten("::"), "::");
    }
}
