//! Whether something that cannot be undone is really meant.

use std::io::{IsTerminal, Write};

use anyhow::{Context, bail};
use clap::Args;

use crate::ending::usage;

#[derive(Debug, Args)]
pub(crate) struct Consent {
    /// Do it without asking.
    #[arg(short, long)]
    yes: bool,
}

impl Consent {
    /// Asks at a terminal; elsewhere only `--yes` will do.
    pub(crate) fn ask(&self, what: &str) -> anyhow::Result<()> {
        if self.yes {
            return Ok(());
        }
        let (input, error) = (std::io::stdin(), std::io::stderr());
        if !input.is_terminal() || !error.is_terminal() {
            return Err(usage(format!(
                "{what}: this cannot be undone, and there is no terminal to ask at.\n  → give --yes"
            )));
        }
        eprint!("{what}. This cannot be undone. Go on? [y/N] ");
        error.lock().flush().context("cannot ask")?;
        let mut answer = String::new();
        input.read_line(&mut answer).context("cannot read the answer")?;
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => bail!("nothing was done"),
        }
    }
}
