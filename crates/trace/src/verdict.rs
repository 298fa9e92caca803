//! The verdict on a document's claim: `lab` reaches it, `report` prints it.

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds here, with our figures.
    Reproduced,
    /// It does not hold here.
    Refuted,
    /// Nothing was measured: the figure comes from a model, which the explanation names.
    Modelled,
    /// The measurement does not tell.
    CannotSay,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Reproduced, Self::Refuted, Self::Modelled, Self::CannotSay];

    /// As words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Refuted => "refuted here",
            Self::Modelled => "modelled",
            Self::CannotSay => "cannot say",
        }
    }
}
