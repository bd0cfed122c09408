//! Keys and the feed in memory, on the model and on a store that fails.

mod access;
mod faulty;
mod feed;
mod notice;

pub(super) use notice::notice;
