//! Whole observations through `Stat::from_observation`.

mod odd;
mod recorded;
mod scenario;
mod sites;
mod truth;
