//! Tasklane's server: what stands between HTTP and a store.
//!
//! - [`engine`] carries out verbs: it gathers concurrent calls into batches, parks polls until
//!   there is something for them, knows workers, and follows the feed.
//! - [`maintenance`] looks at the clock: due tasks, lost leases, retention.
//! - [`http`] reads requests, calls the engine, writes answers.
//! - [`tls`] keeps connections from being overheard.
//! - [`trace`] tells a collector of some calls.
//!
//! A store is seen only through the contract of `tasklane-store`; the engine knows nothing of
//! HTTP; handlers know nothing of a store's inside.

mod address;
mod aside;
mod attend;
pub mod engine;
pub mod http;
pub mod limits;
pub mod maintenance;
mod metrics;
mod server;
mod settings;
pub mod tls;
pub mod token;
pub mod trace;

pub use address::{Network, NotANetwork};
pub use server::{Server, ServerError};
pub use settings::{
    Authentication, BreakerSettings, HealthSettings, QueueDefaults, Rate, RateLimits, Settings,
};
