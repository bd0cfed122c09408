//! What live readers are told that is no event of the store: depths and figures, now and then.

use bytes::Bytes;
use tasklane_core::QueueName;

/// Everything told at one time. Only the last is kept: who missed one gets the next.
#[derive(Debug, Default)]
pub struct Bulletin {
    /// How many have been told with it.
    pub number: u64,
    /// In order.
    pub entries: Vec<Told>,
}

/// One thing told.
#[derive(Debug)]
pub struct Told {
    /// Whether it is other than in the bulletin before.
    pub is_news: bool,
    /// Its kind, as readers filter it.
    pub kind: &'static str,
    /// The queue it is about, if one.
    pub queue: Option<QueueName>,
    /// Its text, made once for all readers.
    pub text: Bytes,
}
