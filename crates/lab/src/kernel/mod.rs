//! The kernel lab: a Linux kernel with and without the prezeroing patch, counted instruction by instruction.
//!
//! In: a plan ([`plan`]), what the guest printed ([`guest`]), and what the plugin counted ([`counts`]). Out: cells
//! with their quantities ([`session`]), the functions that took them ([`functions`]), and tables ([`tables`]).
//!
//! QEMU emulates the processor, and its clock counts instructions. So two runs give the same bytes. An emulated
//! `rep stosb` counts each byte as an instruction. So path instructions, cleared bytes and cache misses are kept apart
//! from the beginning.
//!
//! It starts no program: `faultless lab kernel` does, on a checkout of this repository. Nothing of `kernel/` is
//! embedded here.

pub mod charts;
pub mod counts;
pub mod cpio;
pub mod found;
pub mod functions;
pub mod guest;
pub mod limits;
pub mod plan;
pub mod session;
pub mod tables;
mod work;
