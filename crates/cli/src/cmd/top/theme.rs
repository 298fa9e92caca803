//! The styles of the live view.

use ratatui::style::{Color, Modifier, Style};

/// Meanings and their styles. Without colour, styles differ in weight only.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    pub(super) colour: bool,
}

impl Theme {
    fn coloured(self, colour: Color, style: Style) -> Style {
        if self.colour { style.fg(colour) } else { style }
    }

    /// The subject of the view.
    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Secondary text.
    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Time lost.
    pub(super) fn bad(self) -> Style {
        self.coloured(Color::Red, self.strong())
    }

    /// Worth attention.
    pub(super) fn warn(self) -> Style {
        self.coloured(Color::Yellow, Style::new())
    }

    /// Possible gain.
    pub(super) fn good(self) -> Style {
        self.coloured(Color::Green, Style::new())
    }

    /// Heads of tables and sections.
    pub(super) fn head(self) -> Style {
        self.coloured(Color::Cyan, self.strong())
    }

    /// Bars.
    pub(super) fn bar(self) -> Style {
        self.coloured(Color::Blue, Style::new())
    }

    /// The chosen row.
    pub(super) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// A share of time, by its size.
    pub(super) fn share(self, share: f64) -> Style {
        const MUCH: f64 = 0.25;
        const SOME: f64 = 0.05;
        match share {
            share if share >= MUCH => self.bad(),
            share if share >= SOME => self.warn(),
            _ => Style::new(),
        }
    }
}
