//! Tasklane's client, and what servers and clients say to each other.
//!
//! - [`wire`] holds every body of the HTTP interface as a type: the server reads and writes these
//!   and nothing else, so a client that uses them cannot drift from it.
//! - [`Client`] makes the calls: typed, retried where that is safe, with its connections kept.
//! - [`worker`] runs handlers for tasks.
//!
//! ```no_run
//! use tasklane_client::{Client, NewTask, Priority};
//!
//! # async fn example() -> Result<(), tasklane_client::Error> {
//! let client = Client::from_env()?;
//! let email = NewTask::new("email.send").payload(&"to: ada").priority(Priority::High);
//! let submitted = client.submit(email).await?;
//! let task = client.wait(submitted.id, std::time::Duration::from_secs(30)).await?;
//! println!("{} is {}", task.id.0, task.state.0);
//! # Ok(())
//! # }
//! ```
//!
//! The feature `client` (on by default) brings calls and workers; without it only [`wire`] is
//! there. The feature `tls` brings https, and `trust` for others that call. Nothing here knows of a store or a server's inside.

#[cfg(feature = "client")]
pub mod call;
#[cfg(feature = "client")]
pub mod limits;
#[cfg(feature = "tls")]
pub mod trust;
pub mod wire;
#[cfg(feature = "client")]
pub mod worker;

#[cfg(feature = "client")]
pub use call::{Client, Error, ErrorClass, NewTask, Submitted};
pub use tasklane_core::{ErrorKind, LeaseToken, Priority, StateName, TaskId, Timestamp, WorkerId};
