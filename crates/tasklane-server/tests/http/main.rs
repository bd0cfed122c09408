//! The server from outside: a real listener, raw HTTP, and a clock that tests move.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation is the test's failure"
)]

mod audit;
mod authority;
mod authorization;
mod bad_input;
mod bounds;
mod breaker;
mod bulletin;
mod cancel;
mod client_certificate;
mod collector;
mod configuration;
mod connection;
mod depth;
mod events;
mod forgery;
mod form;
mod heartbeat;
mod kept;
mod key;
mod listener;
mod member;
mod metrics;
mod multiplex;
mod name;
mod operate;
mod poll;
mod rate;
mod reach;
mod settle;
mod shutdown;
mod site;
mod socket;
mod stall;
mod statistics;
mod submit;
mod time;
mod tls;
mod token;
mod trace;
mod wait;
