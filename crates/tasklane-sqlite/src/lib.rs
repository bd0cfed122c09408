//! The embedded store of Tasklane: one SQLite database, one writer thread, group commit.
//!
//! [`SqliteStore`] implements the contract of `tasklane-store`. Calls are queued to a single
//! writer thread; whatever arrived while one commit ran becomes the next transaction, and answers
//! go out only after its sync. Reads run on threads of their own, on snapshots.
//!
//! - `schema` the tables, and how an older file becomes a newer one
//! - `writer` the thread and its inbox; `session` one file per verb, what runs inside a transaction
//! - `board` what the writer remembers of lanes, queues, leases and workers: hints, made anew from
//!   the tables after any failure
//! - `reader` lookups, lists, feed and check; `backup` copies and restores
//!
//! Nothing here knows of HTTP, and nothing here decides: it calls `tasklane-core`.

mod backup;
mod board;
mod check;
mod ended;
mod fault;
mod lanes;
mod options;
pub mod queue;
mod reader;
mod rows;
mod schema;
mod session;
mod store;
mod system;
#[cfg(test)]
mod tests;
mod writer;

pub use backup::restore;
pub use options::{Durability, Options};
pub use queue::Queue;
pub use store::SqliteStore;
pub use system::{SystemClock, SystemRandom};
pub use {tasklane_core, tasklane_store};
