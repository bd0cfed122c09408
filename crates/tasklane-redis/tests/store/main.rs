//! The Redis store on servers of its own: the conformance suite, the model test, and what only this
//! store promises.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on should stop"
)]

mod beside;
mod cluster;
mod condition;
mod conformance;
mod connection;
mod damage;
mod deep;
mod durable;
mod fixture;
mod list;
mod memory;
mod model;
mod restart;
mod sentinel;
mod several;
mod together;
mod traffic;
mod turmoil;
mod work;
