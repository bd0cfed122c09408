//! `tasklane`: the server and, later, everything else in one binary.

mod log;
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
    Serve(serve::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tasklane: {error:#}");
            ExitCode::FAILURE
        }
    }
}
