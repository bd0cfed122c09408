//! Reads: nothing here waits for the writer, and nothing here is decided on.

mod check;
mod feed;
mod list;
mod stats;
mod task;

pub(crate) use feed::Entry;
