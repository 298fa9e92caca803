//! Data to text. Pure: no clock, no files, no system calls, no printing.
//!
//! `stat`, `advice` and `profile` turn an answer into what a terminal or a program reads, `lab` and `timeline` into pages, `diff` and
//! `flame` recordings into tables and flame graphs, `export` into other tools' formats; `svg` draws pictures, `table` lays text out.
#![forbid(unsafe_code)]

pub mod advice;
mod command;
pub mod diff;
pub mod export;
mod figure;
pub mod flame;
pub mod lab;
mod palette;
pub mod profile;
pub mod stat;
pub mod svg;
pub mod table;
pub mod timeline;
mod tuning;
