//! The lifecycle of a task, tested from outside: facts one by one, and laws over random lives.

#![expect(clippy::unwrap_used, reason = "a harness that fails loudly is what a test wants")]
#![expect(clippy::panic, reason = "a harness that fails loudly is what a test wants")]

mod admission;
mod cancel;
mod claim;
mod diagram;
mod fail;
mod illegal;
mod lapse;
mod law;
mod life;
mod operate;
mod settle;
mod step;
mod trail;
