//! Which of the exact counts a fault, or a row of faults, is part of.

use crate::kind::Kind;

/// An exact count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Minor faults of user mode.
    User,
    /// Minor faults of kernel mode.
    Kernel,
    /// Major faults.
    Major,
}

impl Mode {
    /// That of a fault of the profile.
    pub(super) fn of(kind: Kind, kernel: bool) -> Self {
        match (kind, kernel) {
            (Kind::Major, _) => Self::Major,
            (_, true) => Self::Kernel,
            (_, false) => Self::User,
        }
    }

    /// That of a row; `None` if its faults are in none.
    pub(super) fn of_row(kind: Kind) -> Option<Self> {
        match kind {
            Kind::Major => Some(Self::Major),
            Kind::KernelMode => Some(Self::Kernel),
            kind => kind.is_user().then_some(Self::User),
        }
    }
}
