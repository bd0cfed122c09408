//! Operators' calls.

pub(super) mod audit;
pub(super) mod key;
pub(super) mod maintenance;
pub(super) mod queue;
pub(super) mod task;
pub(super) mod worker;
