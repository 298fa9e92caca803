//! Whole observations through `Stat::from_observation`, and runs through `Diff`.

mod diff;
mod odd;
mod reconcile;
mod recorded;
mod runs;
mod scenario;
mod sites;
mod truth;
mod views;
