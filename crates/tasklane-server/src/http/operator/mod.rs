//! Operators' calls.

pub(super) mod maintenance;
pub(super) mod queue;
pub(super) mod task;
pub(super) mod worker;
