//! The proofs themselves, in small.

mod bite;
mod counts;
mod crash;
mod faults;
mod name;
