//! The store on PostgreSQL: any number of servers share one database.
//!
//! [`PostgresStore`] is the contract of `tasklane-store` over a few connections. A call is one
//! transaction: it locks the tasks it is about, lets core decide on what it read, and writes all
//! that follows from it before it commits. Nothing is kept between transactions that another
//! server could make wrong, and nothing in a connection's session, so that poolers may stand in
//! between.
//!
//! Nothing here knows of HTTP.

mod address;

mod connection;
mod fault;
mod floor;
mod gauge;
mod held;
mod lanes;
mod options;
mod rows;
mod schema;
mod server;
mod session;
mod store;
mod system;
#[cfg(feature = "test-server")]
pub mod test_server;
mod timeline;
mod tls;
mod view;

pub use options::Options;
pub use store::PostgresStore;
