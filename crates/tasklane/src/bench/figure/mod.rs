//! What is counted and how it is shown. Knows answers, and nothing of scenarios.

mod chart;
mod histogram;
mod meter;
mod processor;
mod progress;
mod report;
mod tally;

pub(super) use meter::Meter;
pub(super) use progress::{Progress, Whole};
pub(super) use report::{Left, Report};
