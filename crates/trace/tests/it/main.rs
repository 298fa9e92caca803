//! Whole observations through `Stat::from_observation`.

mod odd;
mod scenario;
mod truth;
