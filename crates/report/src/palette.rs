//! Styles for terminals, named by meaning and not by colour. Switched off, they add nothing.

/// Whether text is styled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette(pub(crate) bool);

impl Palette {
    /// The answer, and section heads.
    pub(crate) fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Less important text.
    pub(crate) fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Time lost.
    pub(crate) fn bad(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    /// Time that can be saved.
    pub(crate) fn good(self, text: &str) -> String {
        self.paint("1;32", text)
    }

    /// Needs attention.
    pub(crate) fn warn(self, text: &str) -> String {
        self.paint("33", text)
    }

    /// Bars.
    pub(crate) fn bar(self, text: &str) -> String {
        self.paint("34", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.0 && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
