//! The cases, by topic: each is one behaviour, and its name is the fact it shows.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test support: a failed expectation is the test's failure"
)]

pub mod aging;
pub mod api_key;
pub mod audit;
pub mod bad_input;
pub mod call;
pub mod cancel;
pub mod claim_order;
pub mod dead_letter;
pub mod feed;
pub mod hint;
pub mod idempotency;
pub mod lease;
pub mod list;
pub mod ordering_key;
pub mod overdue;
pub mod prune;
pub mod queue;
pub mod recovery;
pub mod reopen;
pub mod retry;
pub mod schedule;
pub mod settle;
pub mod stats;
pub mod submit;
pub mod timeout;
pub mod trail;
pub mod worker;
