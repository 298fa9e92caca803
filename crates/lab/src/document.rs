//! The five documents.

/// Which document a figure or a claim comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Document {
    /// "A queue of page faults", Arseny Kapoulkine, 2014.
    Queue,
    /// "Bringing The Hardware And Windows To Its Limits", Alois Kraus, 2017.
    Hardware,
    /// "Explicit Memset-Based Page Prefaulting Implementation Report", hakmem, 2025.
    Prefault,
    /// "Prezeroing V2: Why and When it works", Christoph Lameter, 2004.
    Prezeroing,
    /// "Oops All Page Faults!", 2025.
    Oops,
}

impl Document {
    /// All of them, in the order in which they are reported.
    pub const ALL: [Self; 5] = [Self::Queue, Self::Hardware, Self::Prefault, Self::Prezeroing, Self::Oops];

    /// Its title.
    pub fn title(self) -> &'static str {
        match self {
            Self::Queue => "A queue of page faults",
            Self::Hardware => "Bringing The Hardware And Windows To Its Limits",
            Self::Prefault => "Explicit Memset-Based Page Prefaulting Implementation Report",
            Self::Prezeroing => "Prezeroing V2: Why and When it works",
            Self::Oops => "Oops All Page Faults!",
        }
    }
}
