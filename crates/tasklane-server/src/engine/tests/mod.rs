//! The feed in memory and its follower, on the model and on a store that fails.

mod faulty;
mod feed;
