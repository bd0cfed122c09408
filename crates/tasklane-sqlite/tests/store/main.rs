//! The embedded store: the conformance suite and the model test, in memory and on disk, and what
//! only this store promises.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod conformance;
mod fixture;
mod model;
mod neighbour;
mod queue;
