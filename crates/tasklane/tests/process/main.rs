//! The binary and its workers as processes of their own, killed and stopped as machines do it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation is the test's failure"
)]

mod bench;
mod built_in;
mod canary;
mod cli;
mod client;
mod config;
mod dev;
mod docs;
mod doctor;
mod keys;
mod postgres;
mod recovery;
mod redis;
mod server;
mod setting;
mod signal;
mod slow;
mod terminal;
mod tls;
mod top;
mod worker;
