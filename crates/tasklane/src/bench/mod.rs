//! `tasklane bench`: a load for a server, and how it bears it.
//!
//! - [`flag`] and [`plan`] say what to do
//! - [`engine`] makes requests and reads answers
//! - [`scenario`] are the loads
//! - [`figure`] counts and shows

mod engine;
mod figure;
mod flag;
mod plan;
mod scenario;
mod stop;

use anyhow::Context;
use tasklane_client::Client;
use tasklane_client::call::Retries;
use tokio::task::block_in_place;

use crate::ending::{self, DONE, not_as_it_should_be};
use crate::show::many;
use figure::{Left, Report};
pub(crate) use flag::Arguments;
use flag::{Output, Scenario};
use plan::Plan;
use scenario::Outcome;

pub(crate) async fn run(arguments: &Arguments) -> ending::Outcome {
    stop::listen();
    let target = arguments.server.target()?;
    // Patient: what it cancels may be a lot.
    let client = target.builder().retries(Retries::default()).build()?;
    if arguments.scenario == Scenario::Clean {
        clean(&client, &arguments.queue).await?;
        return Ok(DONE);
    }
    let plan = Plan::new(arguments, &target)?;
    let queued = usize::try_from(arguments.queued)?;
    // One thread that never waits for others: the load has it for itself.
    let (filled, outcome) = block_in_place(|| {
        let filled = scenario::fill(&plan, queued)?;
        anyhow::Ok((filled, scenario::run(&plan)?))
    })?;
    let Outcome { meters, submitted, completed } = outcome;
    let mut left = Left {
        queue: plan.queue.clone(),
        waiting: (submitted + filled).saturating_sub(completed),
        ended: completed,
    };
    if arguments.clean {
        left.ended += clean(&client, &plan.queue).await?;
        left.waiting = 0;
    }
    let report = Report {
        scenario: plan.scenario.name(),
        server: plan.route.server.clone(),
        measures: meters.into_iter().map(figure::Meter::figures).collect(),
        left,
    };
    match arguments.output {
        Output::Text => print!("{}", report.text()),
        Output::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        Output::Line => print!("{}", report.lines()),
    }
    Ok(if report.wrong() > 0 { not_as_it_should_be() } else { DONE })
}

/// Cancels what waits, and says so.
async fn clean(client: &Client, queue: &str) -> anyhow::Result<u64> {
    let cancelled = scenario::clean(client, queue).await;
    let cancelled = cancelled.context("what waits could not be cancelled")?;
    eprintln!("Cancelled {} waiting in the queue {queue}.", many(cancelled, "task"));
    Ok(cancelled)
}
