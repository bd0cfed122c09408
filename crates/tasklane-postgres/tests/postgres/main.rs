//! The store on PostgreSQL: the conformance suite and the model test on a real server, and what
//! only this store promises.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod bytes;
mod conformance;
mod failover;
mod failures;
mod fixture;
mod memory;
mod model;
mod network;
mod outage;
mod partitions;
mod refusals;
mod requests;
mod restore;
mod servers;
mod tls;
mod together;
