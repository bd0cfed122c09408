//! `tasklane`: the server and, later, everything else in one binary.

mod audit;
mod config;
mod keys;
mod log;
mod place;
mod remote;
mod serve;
mod store;

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
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve(flags) => serve::run(&flags),
        Command::Config(command) => return config::run(&command),
        Command::Keys(arguments) => keys::run(&arguments),
        Command::Audit(arguments) => audit::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tasklane: {error:#}");
            ExitCode::FAILURE
        }
    }
}
