//! The avoidable curve.
