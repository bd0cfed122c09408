//! The proofs themselves, in small.

mod bite;
mod crash;
mod faults;
mod name;
