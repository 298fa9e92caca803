//! What the documents claim, and whether it holds here.
//!
//! In: results. Out: for each quantitative claim the document's figure, ours, a verdict, and one line of
//! explanation where they differ. The claims are data: one TOML file per document, see `file`. What they are
//! judged by is computed by formulas over named cells (`formula`, `arm`).

mod arm;
mod claim;
mod file;
mod finding;
mod formula;
mod rounds;
mod special;
mod tally;
#[cfg(test)]
mod tests;

pub use claim::Claim;
pub use faultless_trace::verdict::Verdict;
pub use finding::Finding;
pub use tally::tally;

use crate::cell::Refusal;

/// All claims, document by document.
///
/// # Errors
/// A claim file is wrong: which one, in which line and why. A test of this crate reads them all.
pub fn all() -> Result<Vec<Claim>, Refusal> {
    let read = |(name, document, text)| file::read(name, document, text).map_err(Refusal);
    let claims: Result<Vec<Vec<Claim>>, Refusal> = file::FILES.into_iter().map(read).collect();
    Ok(claims?.into_iter().flatten().collect())
}
