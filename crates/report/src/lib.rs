//! Data to text. Pure: no clock, no files, no system calls, no printing.
#![forbid(unsafe_code)]
