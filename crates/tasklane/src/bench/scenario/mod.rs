//! The loads. Each gives what it measured and what it did to the server.

mod clean;
mod drain;
mod latency;
mod mixed;
mod submit;

use super::figure::Meter;
use super::flag::Scenario;
use super::plan::Plan;

pub(super) use clean::clean;
pub(super) use submit::fill;

/// What came of a load.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) meters: Vec<Meter>,
    /// Tasks that the server has taken.
    pub(super) submitted: u64,
    /// Tasks that were completed.
    pub(super) completed: u64,
}

pub(super) fn run(plan: &Plan) -> anyhow::Result<Outcome> {
    match plan.scenario {
        Scenario::Submit => submit::run(plan),
        Scenario::Drain => drain::run(plan),
        Scenario::EndToEnd => mixed::end_to_end(plan),
        Scenario::Latency => latency::run(plan),
        Scenario::Overload => mixed::overload(plan),
        Scenario::Fill | Scenario::Clean => Ok(Outcome::default()),
    }
}
