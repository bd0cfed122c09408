//! Workers: handlers by type, run as tasks come.
//!
//! A [`Worker`] registers with a server, claims as many tasks as it has room for, runs their
//! handlers, renews their leases and reports what came of them. Handlers are told to stop when
//! their task is cancelled, its lease is lost or its time is up; what they do besides is theirs.
//!
//! ```no_run
//! use tasklane_client::worker::{Context, TaskError, Worker};
//! use tasklane_client::Client;
//!
//! async fn greet(context: Context, name: String) -> Result<String, TaskError> {
//!     context.progress(50.0, "thinking of something");
//!     Ok(format!("hello {name}, for the {}. time", context.attempt()))
//! }
//!
//! # async fn example() -> Result<(), tasklane_client::Error> {
//! let worker = Worker::builder(Client::from_env()?).capacity(10).handle("greet", greet).build()?;
//! worker.run(std::future::pending()).await
//! # }
//! ```
//!
//! One task owns everything a worker knows ([`Worker::run`]); calls and attempts are tasks of
//! their own that tell it how they ended.

mod answer;
mod attempt;
mod breaker;
mod builder;
mod context;
mod crew;
mod floor;
mod handler;
mod outcome;
mod progress;
mod turn;

pub use breaker::BreakerSettings;
pub use builder::WorkerBuilder;
pub use context::{Context, StopReason};
pub use crew::Worker;
pub use progress::Progress;
pub use tasklane_core::TaskError;
