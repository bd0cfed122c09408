//! `tasklane`: the server and, later, everything else in one binary.

mod audit;
mod bench;
mod config;
mod doctor;
mod keys;
mod log;
mod machine;
mod place;
mod reach;
mod remote;
mod serve;
mod store;
mod top;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A task queue: submit tasks over HTTP, let workers claim them by priority, lose nothing.
#[derive(Debug, Parser)]
#[command(name = "tasklane", version, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a server.
    #[command(after_help = serve::EXAMPLE)]
    Serve(config::Flags),
    /// Look at settings: what is wrong, what is in force, what there is.
    #[command(subcommand, after_help = config::EXAMPLE)]
    Config(config::Command),
    /// Make, list and revoke API keys.
    Keys(keys::Arguments),
    /// Look at the audit log, and verify that nobody changed it.
    Audit(audit::Arguments),
    /// Watch a server on the terminal: queues, workers, failures, events.
    Top(top::Arguments),
    /// Make a load for a server and measure how it bears it.
    Bench(bench::Arguments),
    /// Look at a running server: what is wrong, and what to do.
    Doctor(doctor::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve(flags) => done(serve::run(&flags)),
        Command::Config(command) => return config::run(&command),
        Command::Keys(arguments) => done(keys::run(&arguments)),
        Command::Audit(arguments) => done(audit::run(&arguments)),
        Command::Top(arguments) => top::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tasklane: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A command that has done what it should.
fn done(outcome: anyhow::Result<()>) -> anyhow::Result<ExitCode> {
    outcome.map(|()| ExitCode::SUCCESS)
}
