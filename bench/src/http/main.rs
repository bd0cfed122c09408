//! Load for a server over HTTP: `http SCENARIO --url http://HOST:PORT [options]`.
//!
//! | scenario | does |
//! |---|---|
//! | `fill` | submits `--queued` tasks in batches of 1,000 and ends |
//! | `submit` | one task a request, or `--batch` of them, as fast as `--connections` allow |
//! | `drain` | `--workers` settle `--batch` tasks and claim as many in one call, for `--tasks` tasks |
//! | `pickup` | one worker long-polls while `--rate` tasks a second are submitted |
//! | `events` | one reader of `/api/v1/events` while `--rate` tasks a second are submitted |
//! | `mixed` | submits and drains at once for `--seconds` |
//!
//! It shares the cores with what it measures, so it is light: one thread, one write and one read
//! for each call, requests made beforehand, answers scanned and not parsed. It is a closed loop:
//! each connection has one call under way; `pickup` and `events` send by the clock instead.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a benchmark that fails should stop"
)]

mod connection;
mod drain;
mod events;
mod meter;
mod mixed;
mod pickup;
mod pool;
mod producer;
mod request;
mod settings;
mod stream;
mod submit;
mod worker;

use settings::{Scenario, Settings};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let settings = match Settings::parse(std::env::args().skip(1)) {
        Ok(settings) => settings,
        Err(problem) => {
            eprintln!("{problem}");
            std::process::exit(2);
        }
    };
    submit::fill(&settings, settings.queued);
    match settings.scenario {
        Scenario::Fill => println!("fill: tasks={}", settings.queued),
        Scenario::Submit => submit::run(&settings),
        Scenario::Drain => drain::run(&settings),
        Scenario::Pickup => pickup::run(&settings),
        Scenario::Events => events::run(&settings),
        Scenario::Mixed => mixed::run(&settings),
    }
}
