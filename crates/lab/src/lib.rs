//! The lab: the experiments of the five documents, on this machine, with their expected fault counts.
//!
//! In: experiments ([`Experiment`]: cells, phases, expected faults) and a [`Scope`]. Out: a [`Record`] of raw samples, one
//! process per sample, and [`Results`] with intervals.
//!
//! The structure forbids the errors that the documents made: everything an experiment does happens in a phase, every phase
//! is timed and counted alike (so a cost that was only moved shows), the count that follows from first principles stands
//! beside it, and a phase that was too fast to have happened, or returns another checksum than it must, is a violation.
//!
//! What it does not do: draw (`report`), print, or know what a document claims beyond its figures ([`claims`]).
#![forbid(unsafe_code)]

pub mod claims;
pub mod compare;
pub mod datafile;
pub mod experiment;
pub mod experiments;
pub mod process;
pub mod record;
pub mod results;
pub mod runner;
pub mod trial;

pub use experiment::{
    Cell, Chart, Document, Effort, Experiment, Measured, Phase, Refusal, Remark, Scope, Table, Trial,
};
pub use record::Record;
pub use results::Results;
pub use trial::Sample;
