//! The terminal of the live view.
//!
//! In: keys, signals, the time. Out: frames. The terminal is restored at the end, on an error, a panic or a
//! request to end, and while the view is stopped (Ctrl-Z or SIGTSTP).
//!
//! It does not decide what is shown (`model`, `frame`).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use super::frame;
use super::model::{Action, Model};
use faultless_console::{Failure, reason};
use faultless_os::spawn;
use faultless_prof::live::Live;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, enable_raw_mode};
use signal_hook::consts::SIGTSTP;

/// Restores the terminal when dropped.
struct TerminalGuard;

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows the live view until a key or signal ends it.
pub(super) fn run(live: &mut Live, model: &mut Model, delay: Duration) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let taken = TerminalGuard;
    let shown = signal_hook::flag::register(SIGTSTP, stop.clone())
        .and_then(|_| ratatui::try_init())
        .and_then(|mut terminal| show(&mut terminal, live, model, delay, &stop));
    drop(taken);
    shown.map_err(|error| {
        Failure(format!("the terminal: {}; use --once or --json without one", reason(&error)))
    })
}

fn show(
    terminal: &mut DefaultTerminal,
    live: &mut Live,
    model: &mut Model,
    delay: Duration,
    stop: &AtomicBool,
) -> io::Result<()> {
    let colour = std::env::var_os("NO_COLOR").is_none();
    let mut due = Instant::now() + delay.min(Duration::from_millis(300));
    while !spawn::asked_to_end() {
        if stop.swap(false, SeqCst) {
            pause(terminal)?;
        }
        terminal.draw(|frame| frame::draw(frame, model, colour))?;
        loop {
            let rest = due.saturating_duration_since(Instant::now());
            if event::poll(rest.min(Duration::from_nanos(live.pause_ns())))? {
                match act(event::read()?, model, stop) {
                    Some(Action::Quit) => return Ok(()),
                    Some(Action::Focus(pid)) => live.focus(pid),
                    Some(Action::Draw) | None => {}
                }
                break;
            }
            live.tick();
            if Instant::now() >= due {
                model.take(live.poll(model.threads_wanted()));
                due = Instant::now() + delay;
                break;
            }
            if spawn::asked_to_end() || stop.load(SeqCst) {
                break;
            }
        }
    }
    Ok(())
}

/// The action for a terminal event. `None`: nothing, or a redraw.
fn act(event: Event, model: &mut Model, stop: &AtomicBool) -> Option<Action> {
    let Event::Key(key) = event else { return None };
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        match key.code {
            KeyCode::Char('c' | 'd') => return Some(Action::Quit),
            KeyCode::Char('z') => stop.store(true, SeqCst),
            _ => {}
        }
        return None;
    }
    Some(model.key(key.code))
}

/// Restores the terminal, stops this process as the signal does by default, and takes the terminal again
/// afterwards.
fn pause(terminal: &mut DefaultTerminal) -> io::Result<()> {
    ratatui::try_restore()?;
    terminal.show_cursor()?;
    signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen)?;
    terminal.clear()
}
