//! The verdict on a document's claim: `lab` reaches it, `report` prints it.

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds here, with our figures.
    Reproduced,
    /// It does not hold here.
    Refuted,
    /// Not measured here: a model, or an emulated kernel, agrees with it.
    Agrees,
    /// Not measured here: a model, or an emulated kernel, gives something else.
    Differs,
    /// The measurement does not tell.
    CannotSay,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Reproduced, Self::Refuted, Self::Agrees, Self::Differs, Self::CannotSay];

    /// As words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Refuted => "refuted here",
            Self::Agrees => "modelled, agrees",
            Self::Differs => "modelled, differs",
            Self::CannotSay => "cannot say",
        }
    }
}
