//! From a process to what was observed of it.
#![forbid(unsafe_code)]
