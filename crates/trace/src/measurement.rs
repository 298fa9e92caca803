//! Medians, spreads and bootstrap intervals.
