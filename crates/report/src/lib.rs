//! Data to text. Pure: no clock, no files, no system calls, no printing.
//!
//! `export` writes other tools' formats;
//! `stat` and `advice` turn an answer into what a terminal or a program reads, `lab` into pages, `svg` into pictures, `table` lays text out.
#![forbid(unsafe_code)]

pub mod advice;
pub mod export;
pub mod lab;
mod palette;
pub mod stat;
pub mod svg;
pub mod table;
