//! The malloc interposer.
