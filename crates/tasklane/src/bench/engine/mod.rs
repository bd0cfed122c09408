//! What makes the load: one thread, one write and one read for each call.
//!
//! It shares the cores with what it measures, so it is light: requests are made beforehand, answers
//! are scanned and not parsed. Knows nothing of what is measured.

mod alarm;
mod connection;
mod pool;
mod producer;
mod request;
mod socket;
mod stream;
mod worker;

pub(super) use connection::{Answer, LOST, header};
pub(super) use pool::Pool;
pub(super) use producer::Producer;
pub(super) use request::{Submissions, bare, post, task};
pub(super) use socket::Route;
pub(super) use stream::Stream;
pub(super) use worker::{Wish, Worker, text_after};
