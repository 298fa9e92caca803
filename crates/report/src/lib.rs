//! Data to text. Pure: no clock, no files, no system calls, no printing.
//!
//! `stat` and `advice` turn an answer into what a terminal or a program reads, `lab` into pages, `svg` into pictures, `timeline` into a page
//! to look around in, `table` lays text out.
//! `stat` and `advice` turn an answer into what a terminal or a program reads, `lab` into pages, `diff` and `flame` recordings into
//! tables and flame graphs, `svg` into pictures, `table` lays text out.
#![forbid(unsafe_code)]

pub mod advice;
pub mod diff;
pub mod flame;
pub mod lab;
mod palette;
pub mod profile;
pub mod stat;
pub mod svg;
pub mod table;
pub mod timeline;
