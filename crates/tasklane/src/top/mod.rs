//! `tasklane top`: a server's tasks, queues and workers on a terminal, as they are.
//!
//! - [`look`] asks the server, follows its events, and does what an operator wants
//! - [`state`] is what is known and what keys do; pure
//! - [`view`] draws it; pure
//! - [`screen`] is the terminal, and the loop between all of them

mod look;
mod screen;
mod state;
mod view;

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use tasklane_client::call::Retries;

use crate::connection::Connection;
use crate::ending::{DONE, Outcome, usage};

/// How long the server may take for an answer before it counts as away.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

const KEYS: &str = "\
Examples:
  tasklane top
  tasklane top --server http://queue.example.org:7170 --every 5

Keys: Tab next panel, arrows or j and k choose, / filter, p pause or resume the queue, d drain the
worker, r replay the dead letter (each asks first), e every event or only what is notable, ? help,
q quit.

It needs a key with the scope read; what keys do needs operate.";

#[derive(Debug, Args)]
#[command(after_help = KEYS)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: Connection,
    /// Seconds between two looks at the server.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    every: f64,
}

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    if !(0.1..=60.0).contains(&arguments.every) {
        return Err(usage(format!("--every {}: give 0.1 to 60 seconds", arguments.every)));
    }
    let every = Duration::from_secs_f64(arguments.every);
    let target = arguments.server.target()?;
    let builder = target.builder().timeout(ANSWER_WITHIN);
    let client = builder.connect_timeout(ANSWER_WITHIN).retries(Retries::NONE).build()?;
    // Its stream comes back by itself, soon after the server does.
    let patient = Retries { retries_max: u32::MAX, delay_max: every, ..Retries::default() };
    let follower = target.builder().retries(patient).build()?;
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(usage("`tasklane top` draws on a terminal, and this is none"));
    }
    screen::run(client, follower, every).await?;
    Ok(DONE)
}
