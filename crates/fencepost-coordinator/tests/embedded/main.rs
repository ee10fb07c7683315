//! Stories of the embedded coordinator, on its own terms and under everything that a disk, a clock, a signal or a
//! second process can do to it.

mod calls;
mod common;
mod crash;
mod outage;
mod start;
