//! Tests of a real server from outside, some of them under more load than it can carry.
//!
//! - [`site`] a server process with a store of its own, and what the system says of it
//! - [`home`] a folder, and a database where the store wants one, for as long as a proof runs
//! - [`server`] one that is ended and started again on a store that stays
//! - [`caller`] a client with one connection, which measures how long answers take
//! - [`flood`] producers that do not wait for each other: as many calls a second as they are told
//! - [`worker`] workers that claim, settle and send heartbeats meanwhile

pub mod caller;
pub mod flood;
pub mod home;
pub mod server;
pub mod site;
pub mod worker;
