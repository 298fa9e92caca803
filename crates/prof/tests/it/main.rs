//! `faultless-prof` on real programs, one test program for both of its verbs. `price` is one of its own: it forks, and charges the
//! CPU time of the whole process.

mod observe;
mod program;
mod record;
