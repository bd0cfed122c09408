//! Calls: one method of [`Client`] for each of the HTTP interface.
//!
//! Knows how to reach a server and how to ask again; nothing of handlers and leases.

mod access;
mod backoff;
mod builder;
mod chance;
mod client;
mod connect;
mod dead_letter;
mod error;
mod events;
mod frame;
mod queue;
mod request;
mod send;
mod server;
mod submission;
mod task;
#[cfg(feature = "tls")]
mod tls;
mod worker;

pub use access::ListAudit;
pub(crate) use backoff::Backoff;
pub use backoff::Retries;
pub use builder::ClientBuilder;
pub use chance::task_id;
pub use client::Client;
pub use dead_letter::ListDeadLetters;
pub use error::{Error, ErrorClass};
pub use events::{EventFilter, Events};
pub use submission::NewTask;
pub use task::{ListTasks, Look, Submitted};
pub use worker::ListWorkers;
