//! The embedded store: the conformance suite and the model test, in memory and on disk, and what
//! only this store promises.

mod conformance;
mod fixture;
mod model;
