//! The network test: servers that share a store, their workers and their producers, each on a
//! machine of its own as far as the network can tell, while links between them are cut.
//!
//! Each machine is a network namespace. One of them holds two bridges: the *back* one joins servers
//! and store, the *front* one servers and clients. So a server can be cut off from its store alone,
//! or from its callers alone. The network of the machine that runs this is not touched.
//!
//! - [`space`] makes the namespaces, and sees to it that they go, however this ends
//! - [`cut`] what is done to which link, and for how long
//! - [`machine`] the processes on them: store, servers, and roles of this program; [`role`] each of
//!   these
//! - [`line`] a client that gives up; [`producer`], [`worker`] and [`follower`] use it
//! - [`convergence`] whether all servers do their work again, and how soon
//! - [`record`] what the roles were answered, line by line; [`look`] what the store holds in the
//!   end; [`judge`] compares the two
//! - [`run`] puts it together; [`figures`] what came of it

pub mod convergence;
pub mod cut;
pub mod figures;
pub mod follower;
pub mod judge;
pub mod line;
pub mod look;
pub mod machine;
pub mod producer;
pub mod record;
pub mod role;
pub mod run;
pub mod space;
pub mod worker;

/// Servers on the shared store.
pub const SERVERS: usize = 3;
/// Machines with workers: each has one that stays with its server, and one that goes about.
pub const WORKERS: usize = 3;
/// Machines with producers.
pub const PRODUCERS: usize = 2;

/// The store that the servers share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// PostgreSQL.
    Postgres,
    /// Redis.
    Redis,
}

impl Engine {
    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Redis => "redis",
        }
    }

    /// Reads its word.
    pub fn parse(word: &str) -> Result<Self, crate::Failure> {
        match word {
            "postgres" => Ok(Self::Postgres),
            "redis" => Ok(Self::Redis),
            _ => Err(format!("--store {word}: postgres, redis").into()),
        }
    }
}
