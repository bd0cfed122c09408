//! The client against a real server on a real listener, and against scripts of what may go wrong.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed expectation is the test's failure"
)]

mod access;
mod dead_letter;
mod docs;
mod drain;
mod events;
mod handler;
mod lease;
mod operator;
mod outage;
mod process;
mod producer;
mod protocol;
mod retry;
mod routes;
mod script;
mod shift;
mod site;
mod tls;
