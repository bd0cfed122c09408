//! The proofs themselves, in small.

mod backup;
mod bite;
mod counts;
mod crash;
mod faults;
mod name;
