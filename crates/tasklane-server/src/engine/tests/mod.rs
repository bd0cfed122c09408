//! Keys, the feed and waiting polls in memory, on the model and on a store that fails.

mod access;
mod faulty;
mod feed;
mod notice;
mod parking;
mod readiness;

pub(crate) use faulty::Faulty;
pub(super) use notice::notice;
