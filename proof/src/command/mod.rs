//! The proofs as they are called: each reads its arguments, runs, tells what came of it, and says what
//! to end with.

pub(crate) mod bite;
pub(crate) mod churn;
pub(crate) mod crash;
pub(crate) mod faults;
pub(crate) mod fuzz;
pub(crate) mod net;
pub(crate) mod overload;
pub(crate) mod soak;
