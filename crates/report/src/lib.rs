//! Data to text. Pure: no clock, no files, no system calls, no printing.
//!
//! `stat` and `advice` turn an answer into what a terminal or a program reads, `svg` into pictures.
#![forbid(unsafe_code)]

pub mod advice;
mod palette;
pub mod stat;
pub mod svg;
mod table;
