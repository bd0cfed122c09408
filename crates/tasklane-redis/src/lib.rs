//! The store of Tasklane on Redis, for servers that share one.
//!
//! [`RedisStore`] implements the contract of `tasklane-store`. Calls are queued to one writer per
//! server. What has gathered there is decided together: one script reads what is needed and not
//! known, with the time; core decides on it; another script writes, but only if nothing else was
//! written since. Otherwise all of it is done again. Nothing is ever locked: `turn` is a courtesy
//! among servers.
//!
//! - `keys` the layout: every key and what it holds
//! - `script` the two scripts; `request`, `read`, `writes` how they are asked; `link` the way
//!   there, `wait` what the answer to a write waits for
//! - `snapshot` what was read, `known` what of it is still known after a write; `session` one file
//!   per verb: what is decided on it
//! - `address`, `place`, `source`, `line` where a server is and how it is reached; `condition` whether tasks
//!   are safe there, `ready` what follows from that; `epoch` whether it may have forgotten some
//! - `writer` and `inbox` the loop around all this; `look` reads that nobody decides on;
//!   `watch` what other servers have written, `signal` what is told of it
//!
//! Nothing here knows of HTTP, and nothing here decides: it calls `tasklane-core`.

mod address;
mod catalog;
mod condition;
mod epoch;
mod fault;
mod flight;
mod heads;
mod inbox;
mod keys;
mod known;
mod line;
mod link;
mod look;
mod options;
mod place;
mod read;
mod ready;
mod request;
mod session;
mod shared;
mod signal;
mod snapshot;
mod sorted;
mod source;
mod store;
mod stored;
mod system;
#[cfg(feature = "test-server")]
pub mod test_server;
mod told;
mod trail;
mod value;
mod wait;
mod watch;
mod writer;
mod writes;

pub use address::Address;
pub use options::{Mode, Options};
pub use store::RedisStore;
