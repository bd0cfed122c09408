//! `tasklane`: the server, and everything that operators and producers ask of it, in one binary.

mod advice;
mod audit;
mod bench;
mod completions;
mod config;
mod connection;
mod consent;
mod dev;
mod doctor;
mod ending;
mod keys;
mod log;
mod machine;
mod page;
mod place;
mod serve;
mod show;
mod store;
mod top;
mod value;
mod verb;
mod worker;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use ending::Outcome;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXAMPLES: &str = "\
Examples:
  tasklane dev                                             # try it: server, worker, sample tasks
  tasklane serve                                           # a server on this machine
  tasklane submit email.send '{\"to\": \"ada@example.org\"}'
  tasklane list --state pending
  tasklane explain ID                                      # why it is not running yet
  tasklane dlq summary                                     # what goes wrong";

/// A task queue: submit tasks over HTTP, let workers claim them by priority, lose nothing.
#[derive(Debug, Parser)]
#[command(name = "tasklane", version, propagate_version = true)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", ending::CODES))]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Dev(dev::Arguments),
    /// Run a server.
    #[command(after_help = serve::EXAMPLE)]
    Serve(config::Flags),
    Worker(worker::Arguments),
    Submit(verb::Submit),
    Get(verb::Get),
    List(verb::List),
    Wait(verb::Wait),
    Cancel(verb::Cancel),
    Retry(verb::Retry),
    History(verb::History),
    Explain(verb::Explain),
    #[command(name = "dlq")]
    DeadLetters(verb::DeadLetters),
    Queues(verb::Queues),
    Pause(verb::Pause),
    Resume(verb::Resume),
    Purge(verb::Purge),
    Workers(verb::Workers),
    Drain(verb::Drain),
    Stats(verb::Stats),
    Events(verb::Events),
    Backup(verb::Backup),
    Restore(verb::Restore),
    Check(verb::Check),
    Keys(keys::Arguments),
    Audit(audit::Arguments),
    /// Look at settings: what is wrong, what is in force, what there is.
    #[command(subcommand, after_help = config::EXAMPLE)]
    Config(config::Command),
    /// Watch a server on the terminal: queues, workers, failures, events.
    Top(top::Arguments),
    /// Make a load for a server and measure how it bears it.
    Bench(bench::Arguments),
    Doctor(doctor::Arguments),
    Completions(completions::Completions),
    /// Print the page of the documentation.
    #[command(hide = true)]
    Page,
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    // A thread for each processor. With one less, submissions were 5 % faster on two of them, but under ten
    // times the load 99 of 100 heartbeats took 50 to 67 ms where they take 17 (docs/performance.md).
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => ending::end(runtime.block_on(run(command))),
        Err(error) => ending::end(Err(error.into())),
    }
}

async fn run(command: Command) -> Outcome {
    match command {
        Command::Dev(arguments) => dev::run(&arguments).await,
        Command::Serve(flags) => serve::run(&flags).await,
        Command::Worker(arguments) => worker::run(&arguments).await,
        Command::Submit(verb) => verb.run().await,
        Command::Get(verb) => verb.run().await,
        Command::List(verb) => verb.run().await,
        Command::Wait(verb) => verb.run().await,
        Command::Cancel(verb) => verb.run().await,
        Command::Retry(verb) => verb.run().await,
        Command::History(verb) => verb.run().await,
        Command::Explain(verb) => verb.run().await,
        Command::DeadLetters(verb) => verb.run().await,
        Command::Queues(verb) => verb.run().await,
        Command::Pause(verb) => verb.run().await,
        Command::Resume(verb) => verb.run().await,
        Command::Purge(verb) => verb.run().await,
        Command::Workers(verb) => verb.run().await,
        Command::Drain(verb) => verb.run().await,
        Command::Stats(verb) => verb.run().await,
        Command::Events(verb) => verb.run().await,
        Command::Backup(verb) => verb.run().await,
        Command::Restore(verb) => verb.run().await,
        Command::Check(verb) => verb.run().await,
        Command::Keys(arguments) => keys::run(&arguments).await,
        Command::Audit(arguments) => audit::run(&arguments).await,
        Command::Config(command) => Ok(config::run(&command)),
        Command::Top(arguments) => top::run(&arguments).await,
        Command::Bench(arguments) => bench::run(&arguments).await,
        Command::Doctor(arguments) => doctor::run(&arguments).await,
        Command::Completions(completions) => completions.run(),
        Command::Page => page::run(),
    }
}
