//! The lab: the experiments of the five documents on this machine, with the fault counts that they must take.
//!
//! In: experiments ([`Experiment`]: cells, phases, expected faults) and a [`Scope`]. Out: a [`Record`] of raw
//! samples, one process per sample, and [`Results`] with intervals.
//!
//! The structure rules out the errors of the documents. Everything that an experiment does happens in a phase.
//! Every phase is timed and counted alike, so a cost that was only moved shows. The count that follows from
//! first principles stands beside the measured one. A phase that was too fast, or that returns the wrong
//! checksum, is a violation.
//!
//! It does not draw (`report`) or print. It knows what a document says ([`claim`]), but not the document.
//!
//! ```
//! use faultless_lab::experiments;
//! assert_eq!(experiments::find("pipeline").unwrap().name(), "chunks"); // by its document's name
//! ```
#![forbid(unsafe_code)]

pub mod cell;
pub mod chosen;
pub mod claim;
pub mod compare;
pub mod document;
pub mod experiment;
pub mod experiments;
pub mod process;
pub mod record;
mod renamed;
pub mod results;
pub mod row;
pub mod runner;
pub mod sample;
pub mod trial;

pub use cell::{Cell, Refusal};
pub use chosen::Chosen;
pub use document::Document;
pub use experiment::{Chart, Effort, Experiment, Measured, Parameter, Part, Phase, Scope, Sheet, Trial};
pub use record::Record;
pub use results::Results;
pub use sample::Sample;
