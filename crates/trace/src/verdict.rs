//! The verdict on a document's claim: `lab` reaches it, `report` prints it.

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds here, with our figures.
    Reproduced,
    /// It does not hold here.
    Refuted,
    /// The measurement does not tell.
    CannotSay,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Reproduced, Self::Refuted, Self::CannotSay];

    /// As words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Refuted => "refuted here",
            Self::CannotSay => "cannot say",
        }
    }
}
