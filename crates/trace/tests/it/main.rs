//! Whole observations through `Stat::from_observation`, and runs through `Diff`.

mod diff;
mod odd;
mod runs;
mod recorded;
mod scenario;
mod sites;
mod truth;
