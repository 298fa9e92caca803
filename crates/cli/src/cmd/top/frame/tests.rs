//! Golden frames.

use insta::assert_snapshot;
use ratatui::crossterm::event::KeyCode;

use super::super::model::tests::model;
use super::*;

fn screen(model: &mut Model, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, model, true)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn an_ordinary_terminal_shows_processes_and_sites() {
    assert_snapshot!("80x24", screen(&mut model(), 80, 24));
}

#[test]
fn a_small_terminal_shows_what_matters_most() {
    assert_snapshot!("40x12", screen(&mut model(), 40, 12));
}

#[test]
fn a_wide_terminal_shows_all_columns() {
    assert_snapshot!("140x30", screen(&mut model(), 140, 30));
}

#[test]
fn a_process_that_is_looked_into_shows_its_threads_and_sites() {
    let mut model = model();
    model.key(KeyCode::Enter);
    assert_snapshot!("detail", screen(&mut model, 80, 24));
}

#[test]
fn help_explains_keys_and_columns() {
    let mut model = model();
    model.key(KeyCode::Char('?'));
    assert_snapshot!("help", screen(&mut model, 80, 24));
}

#[test]
fn plain_text_holds_the_same_figures() {
    assert_snapshot!("text", text(&mut model(), 100));
}

#[test]
fn a_narrow_reader_gets_narrow_lines_with_every_figure() {
    let is_figure = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let figures = |text: &str| -> std::collections::BTreeSet<String> {
        text.split_whitespace().filter(is_figure).map(str::to_owned).collect()
    };
    let wide = figures(&text(&mut model(), 140));
    for width in [40, 60, 80] {
        let narrow = text(&mut model(), width);
        assert!(narrow.lines().all(|line| line.chars().count() <= usize::from(width)), "{narrow}");
        assert!(wide.is_subset(&figures(&narrow)), "{width}: {narrow}");
        assert!(narrow.contains("Linux 6.18.44, 2 CPUs"), "{narrow}");
    }
}

#[test]
fn nothing_to_show_says_why() {
    let mut model = model();
    model.sites.clear();
    model.missing = vec!["no stacks of faults: perf_event_open(): Permission denied; run as root".into()];
    model.interval.timed = 0;
    assert_snapshot!("denied", text(&mut model, 80));
}

#[test]
fn no_size_of_the_screen_is_too_small_to_draw() {
    for (width, height) in [(1, 1), (3, 2), (10, 5), (39, 17), (200, 60)] {
        for key in ['x', '?'] {
            let mut model = model();
            model.key(KeyCode::Char(key));
            screen(&mut model, width, height);
        }
    }
}
