//! Results -> text, JSON, HTML, SVG, or another tool's format.
//!
//! In: the answers of `faultless_trace`, or the lab's plain tables. Out: strings and streams. This crate has
//! no clock, opens no file, makes no system call, prints nothing, and decides nothing.
//!
//! | module | for |
//! |---|---|
//! | [`stat`], [`advice`], [`compare`], [`check`], [`profile`] | the answers of `stat`, `advise`, `compare`, `check` and `report` |
//! | [`diff`], [`flame`], [`timeline`] | views of recordings |
//! | [`export`] | formats of other tools |
//! | [`lab`] | records of the lab |
//! | [`selected`] | what a filter left of a run |
//! | [`svg`], [`table`] | pictures; columns and wrapped lines |
//! | [`json`], [`json_line`] | any answer as a document |
#![forbid(unsafe_code)]

pub mod advice;
pub mod check;
pub mod compare;
pub mod diff;
pub mod export;
mod figure;
pub mod flame;
mod frame;
pub mod lab;
mod palette;
pub mod profile;
pub mod selected;
pub mod stat;
pub mod svg;
pub mod table;
mod text;
pub mod timeline;
mod tuning;
mod why;

pub use text::{command, json, json_line};
