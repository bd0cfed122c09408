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

use std::process::ExitCode;

use anyhow::Context;
use tasklane_client::{Error, ErrorClass};

use crate::place::wait;
use figure::{Left, Report};
pub(crate) use flag::Arguments;
use flag::{Output, Scenario};
use plan::Plan;
use scenario::Outcome;

const USAGE: u8 = 2;
/// The server cannot be reached.
const UNREACHABLE: u8 = 4;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    stop::listen();
    let error = match measure(arguments) {
        Ok(code) => return Ok(code),
        Err(error) => error,
    };
    let code = match error.downcast_ref::<Error>().map(Error::class) {
        Some(ErrorClass::Usage) => USAGE,
        Some(ErrorClass::Unreachable) => UNREACHABLE,
        _ => return Err(error),
    };
    eprintln!("tasklane: {error:#}");
    Ok(ExitCode::from(code))
}

fn measure(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let plan = Plan::new(arguments)?;
    if plan.scenario == Scenario::Clean {
        clean(arguments)?;
        return Ok(ExitCode::SUCCESS);
    }
    let queued = usize::try_from(arguments.queued)?;
    let filled = scenario::fill(&plan, queued)?;
    let Outcome { meters, submitted, completed } = scenario::run(&plan)?;
    let mut left = Left {
        queue: plan.queue.clone(),
        waiting: (submitted + filled).saturating_sub(completed),
        ended: completed,
    };
    if arguments.clean {
        left.ended += clean(arguments)?;
        left.waiting = 0;
    }
    let report = Report {
        scenario: plan.scenario.name(),
        server: arguments.server.url().to_owned(),
        measures: meters.into_iter().map(figure::Meter::figures).collect(),
        left,
    };
    match arguments.output {
        Output::Text => print!("{}", report.text()),
        Output::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        Output::Line => print!("{}", report.lines()),
    }
    Ok(if report.wrong() > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Cancels what waits, and says so.
fn clean(arguments: &Arguments) -> anyhow::Result<u64> {
    let client = arguments.server.client()?.build()?;
    let cancelled = wait(async { scenario::clean(&client, &arguments.queue).await })
        .context("what waits could not be cancelled")?;
    eprintln!("Cancelled {cancelled} tasks that waited in the queue {}.", arguments.queue);
    Ok(cancelled)
}
