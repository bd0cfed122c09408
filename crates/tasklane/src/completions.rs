//! `tasklane completions`: what shells complete.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::ending::{DONE, Outcome};
use crate::show::print;

const EXAMPLES: &str = "\
Examples:
  tasklane completions bash > ~/.local/share/bash-completion/completions/tasklane
  tasklane completions zsh > ~/.zfunc/_tasklane
  tasklane completions fish > ~/.config/fish/completions/tasklane.fish";

/// Print what a shell needs to complete commands and flags.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// Which shell.
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Outcome {
        let mut text = Vec::new();
        clap_complete::generate(
            self.shell,
            &mut crate::Arguments::command(),
            "tasklane",
            &mut text,
        );
        print(&String::from_utf8(text)?)?;
        Ok(DONE)
    }
}
