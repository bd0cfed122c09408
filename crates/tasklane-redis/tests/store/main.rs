//! The Redis store on a server of its own: the conformance suite, the model test, and what only
//! this store promises.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod conformance;
mod durable;
mod fixture;
mod model;
mod server;
mod several;
