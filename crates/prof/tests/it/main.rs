//! `faultless-prof` on real programs, one test program for both verbs. `price` is separate: it forks, and
//! charges the CPU time of the whole process.

mod in_kernel;
mod observe;
mod program;
mod record;
