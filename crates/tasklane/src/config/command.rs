//! `tasklane config`: look at a configuration without running a server.

use std::process::ExitCode;

use clap::Subcommand;

use super::flag::Flags;
use super::load::{Loaded, Wrong, load};
use super::source::Origin;
use super::{page, print, template};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what is wrong, with its place; exit code 1 if anything is.
    Check(Flags),
    /// Show every value in force, and where it comes from. Secrets are hidden.
    Print(Flags),
    /// Print a commented file with every setting and its default.
    Default,
    /// Print the page of the documentation.
    #[command(hide = true)]
    Page,
}

pub(crate) const EXAMPLE: &str = "\
Example:
  tasklane config default > tasklane.toml    # every setting, commented out
  tasklane config check --config tasklane.toml
  tasklane config print --config tasklane.toml --lease-ms 60000";

pub(crate) fn run(command: &Command) -> ExitCode {
    let loaded = match command {
        Command::Default => return show(&template::template()),
        Command::Page => return show(&page::page()),
        Command::Check(flags) | Command::Print(flags) => load(&flags.sources()),
    };
    let loaded = loaded.and_then(|loaded| match command {
        Command::Check(_) => match loaded.effective.tokens.read() {
            Ok(_) => Ok(loaded),
            Err(wrong) => Err(Wrong(vec![wrong])),
        },
        _ => Ok(loaded),
    });
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(wrong) => {
            eprintln!("{wrong}");
            return ExitCode::FAILURE;
        }
    };
    for warning in &loaded.warnings {
        eprintln!("warning: {warning}");
    }
    match command {
        Command::Check(_) => show(&format!("{}\n", summary(&loaded))),
        _ => show(&print::print(&loaded)),
    }
}

/// A reader that has gone away is no failure.
fn show(text: &str) -> ExitCode {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn summary(loaded: &Loaded) -> String {
    let count = |of: fn(&Origin) -> bool| loaded.origins.values().filter(|at| of(at)).count();
    format!(
        "all is well; set by the file: {}, by the environment: {}, by flags: {}",
        count(|origin| matches!(origin, Origin::File(..))),
        count(|origin| matches!(origin, Origin::Environment(_))),
        count(|origin| matches!(origin, Origin::Flag(_))),
    )
}
