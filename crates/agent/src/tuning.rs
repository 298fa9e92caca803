//! Numbers that were chosen, with unit and reason.

use std::time::Duration;

/// Where scrapes are answered. The port is free in the list of Prometheus's default port allocations.
pub(crate) const LISTEN: &str = "127.0.0.1:9478";
/// Shortest interval: a poll takes up to 10 ms.
pub(crate) const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Longest interval. Prometheus calls a series stale after 5 minutes.
pub(crate) const INTERVAL_MAX: Duration = Duration::from_secs(300);
/// Ticks of the live view in an interval: each empties its rings, every fifth times faults for 5 ms.
pub(crate) const TICKS: u32 = 15;
/// Below this part of the budget the interval narrows again.
pub(crate) const NARROW_BELOW: f64 = 0.25;

/// Rounds for which a group that has ended, or that others have displaced, keeps its series: some scrapes see its last
/// figures.
pub(crate) const KEEP_ROUNDS: u32 = 8;
/// How much of a group's weight is of the last round; the rest is of those before.
pub(crate) const WEIGHT_NEW: f64 = 0.3;
/// How much heavier than the lightest group with series another one must be to displace it: they must not take turns.
pub(crate) const DISPLACE_RATIO: f64 = 2.0;
/// Displacements in a round, as a part of the groups with series: bounds the series of a day.
pub(crate) const DISPLACED_PART: usize = 8;

/// Rounds between two readings of a process's control group. It is also read in its first two rounds, as managers move a
/// process right after they have made it. Reading it takes 15 us.
pub(crate) const REREAD_ROUNDS: u32 = 8;
/// Rounds between two looks at whether groups without processes are gone.
pub(crate) const SWEEP_ROUNDS: u32 = 16;
/// Most control groups that are known. A machine with more than these has other worries.
pub(crate) const GROUPS_MAX: usize = 20_000;
/// Longest value of a label, bytes.
pub(crate) const LABEL_BYTES_MAX: usize = 256;

/// Length of a recording. A mechanism that takes a hundredth of the CPU time shows within it.
pub(crate) const RECORD_SPAN: Duration = Duration::from_secs(2);
/// A recorded program loses at least this much of a processor in faults: there is nothing to cure in the others.
pub(crate) const RECORD_FROM: f64 = 0.001;
/// Longest time for each of a recording's steps. Names from a gigabyte of debug information take half of it.
pub(crate) const RECORD_MAX: Duration = Duration::from_secs(60);
/// Largest recording: single faults end there, counts go on.
pub(crate) const RECORD_SIZE: &str = "64M";

/// Connections at a time. Each takes a thread.
pub(crate) const CONNECTIONS_MAX: usize = 8;
/// Longest head of a request, bytes.
pub(crate) const HEAD_BYTES_MAX: usize = 8 << 10;
/// Longest time until the head of a request is there: who connects and says nothing must not keep others out.
pub(crate) const HEAD_MAX: Duration = Duration::from_secs(2);
/// Longest time for a request and its answer.
pub(crate) const REQUEST_MAX: Duration = Duration::from_secs(10);

/// Batches kept for an absent receiver. With the usual interval that is an hour.
pub(crate) const SPOOL_BATCHES_MAX: usize = 240;
/// Services whose functions are pushed in a round, those with most samples: bounds the requests.
pub(crate) const PROFILES_MAX: usize = 20;
/// Longest time for one push.
pub(crate) const PUSH_MAX: Duration = Duration::from_secs(10);
/// First and longest pause after a failed push. It doubles, and varies by half so that a fleet does not return in step.
pub(crate) const RETRY_FIRST: Duration = Duration::from_secs(1);
pub(crate) const RETRY_MAX: Duration = Duration::from_secs(120);
/// Time to send what is left at the end. systemd kills after 90 s, Kubernetes after 30 s.
pub(crate) const FLUSH_MAX: Duration = Duration::from_secs(5);
