//! Data to text. Pure: no clock, no files, no system calls, no printing.
//!
//! `stat` turns an answer into what a terminal or a program reads, `svg` into pictures.
#![forbid(unsafe_code)]

mod palette;
pub mod stat;
pub mod svg;
mod table;
