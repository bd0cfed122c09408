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
mod listen;
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
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads())
        .global_queue_interval(ANSWERS_EVERY)
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => ending::end(runtime.block_on(run(command))),
        Err(error) => ending::end(Err(error.into())),
    }
}

/// Who was answered by the store has a turn after so many others: usually that is after some tens, and behind
/// a thousand connections that submit one by one 99 of 100 heartbeats took 47 to 67 ms. With this it was 15
/// to 21, with as many submissions.
const ANSWERS_EVERY: u32 = 1;

/// One processor is left to the writer of the store, and to the system, which carries what is sent and
/// synced. Beside them more threads only take turns: with one thread instead of two on two processors,
/// in turns, submissions over HTTP are 5 % faster beside an echo (24 rounds) and a drain on Redis 10 %
/// (three).
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |processors| processors.get() - 1).max(1)
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
