//! Pseudo-random numbers, for pauses and for thinning.
//!
//! In: a seed. Out: xorshift64 (Marsaglia 2003). It does not serve cryptography.

/// The generator.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Any seed will do.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// The next number, never 0.
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
