//! Every number of this crate that someone chose, with its unit, the reason and the source.

/// Half-width of an interval, as a share of the figure, up to which the figure is given with it; beyond, the range alone. Chosen: a
/// reader takes the first figure of "40 ± 15" for the answer, which is then wrong by more than a third.
pub(crate) const SPREAD_MAX: f64 = 0.3;
/// Half-width, as a share of the figure, below which three digits show no difference.
pub(crate) const SPREAD_SHOWN: f64 = 0.001;
/// Times from the lower end of a count's interval to the upper one from which on a row can't be told from nothing.
pub(crate) const NOTHING_RATIO: f64 = 10.0;
/// Share of all faults from which on a row is shown even if it can't be told from nothing. Chosen: its range says where to look.
pub(crate) const NEGLIGIBLE_BELOW: f64 = 0.1;
/// Share of the time, 0 to 1, from which on it is shown as well. Chosen: a table whose rows leave out more than a tenth or so has no answer.
pub(crate) const NEGLIGIBLE_TIME: f64 = 0.02;
/// Rows of `stat` by kind: what a screen of 24 lines has room for beside the answer and what to do next.
pub(crate) const KINDS_SHOWN: usize = 8;
/// Share of faults and of their time below which a kind is told with others. Chosen: nobody acts on less.
pub(crate) const KIND_FROM: f64 = 0.01;
/// An upper bound of the avoidable share, 0 to 1, below which it is hardly any whatever the lower one says.
pub(crate) const UNKNOWN_FROM: f64 = 0.1;
/// An upper bound of the share of CPU time in faults, 0 to 1, below which there is nothing to do about them. Chosen: a cure takes away
/// half of them or so, and a gain below 2 % does not count.
pub(crate) const WORTH_FROM: f64 = 0.03;
/// The same of the time, in seconds. Chosen: less is below what a run varies by from one to the next.
pub(crate) const WORTH_FROM_SECONDS: f64 = 1e-3;
