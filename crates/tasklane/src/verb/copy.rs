//! `backup`, `restore` and `check`.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use tasklane_client::wire::{BackedUp, Seconds};
use tasklane_sqlite::SqliteStore;
use tasklane_store::{Finding, StoreError};

use crate::advice::DAMAGED;
use crate::config::shown_address;
use crate::ending::{DONE, Outcome, not_as_it_should_be, usage};
use crate::machine;
use crate::place::{Place, StorePlace, Where};
use crate::show::{Cell, Format, List, Shown, Table, age, seconds};

const BACKUP_EXAMPLES: &str = "\
Examples:
  tasklane backup /var/backups/tasklane-1.db --server http://127.0.0.1:7170
      while the server serves; the file is on the server's machine
  tasklane backup copy.db --store sqlite:./tasklane-data
      without a server

A copy is of one moment. tasklane restore makes a store of it.";

/// Copy a store to a new file, while it serves.
#[derive(Debug, Args)]
#[command(after_help = BACKUP_EXAMPLES)]
pub(crate) struct Backup {
    /// A new file; of a server, on its machine.
    #[arg(value_name = "FILE")]
    to: String,
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    shown: Shown,
}

impl Backup {
    pub(crate) async fn run(&self) -> Outcome {
        let copied = match self.place.open().await? {
            Place::Server(client) => client.back_up(&self.to).await?,
            Place::Store(store) => {
                let started = Instant::now();
                store.backup(self.to.as_ref()).await?;
                BackedUp { to: self.to.as_str().into(), took_seconds: Seconds(started.elapsed()) }
            }
        };
        let took = seconds(copied.took_seconds);
        self.shown.one(&copied, |_| format!("copied to {} in {took}\n", copied.to))?;
        Ok(DONE)
    }
}

const RESTORE_EXAMPLES: &str = "\
Examples:
  tasklane restore copy.db --store sqlite:./tasklane-data-2
  tasklane serve --store sqlite:./tasklane-data-2

The folder must be empty or not there yet: nothing is written over. What was completed after the
copy was made may run again; leases of then are void.";

/// Make a new store from a copy.
#[derive(Debug, Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub(crate) struct Restore {
    /// What tasklane backup has written.
    #[arg(value_name = "FILE")]
    copy: PathBuf,
    #[command(flatten)]
    store: StorePlace,
    #[command(flatten)]
    shown: Shown,
}

/// A store that was made.
#[derive(Debug, Serialize)]
struct Restored {
    store: String,
    took_seconds: Seconds,
}

impl Restore {
    pub(crate) async fn run(&self) -> Outcome {
        let (address, options) = self.store.address()?;
        let Some(folder) = machine::folder(&address) else {
            return Err(usage("only a store in files can be restored: give --store sqlite:FOLDER"));
        };
        let started = Instant::now();
        let copied = tasklane_sqlite::restore(&self.copy, &folder, &options).await;
        copied.with_context(|| format!("cannot restore {}", self.copy.display()))?;
        let took = started.elapsed();
        let made = Restored { store: address, took_seconds: Seconds(took) };
        self.shown.one(&made, |_| format!("restored to {} in {}\n", made.store, age(took)))?;
        Ok(DONE)
    }
}

const CHECK_EXAMPLES: &str = "\
Examples:
  tasklane check                                  # ./tasklane-data, while no server has it open
  tasklane check --store sqlite:./tasklane-data-2
  tasklane restore copy.db --store sqlite:./try && tasklane check --store sqlite:./try

It reads everything: SQLite's own check, counts, and each task against its trail. Exit code 1 if
anything contradicts itself.";

/// Look for damage in a store.
#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub(crate) struct Check {
    #[command(flatten)]
    store: StorePlace,
    #[command(flatten)]
    shown: Shown,
}

/// A contradiction.
#[derive(Debug, Serialize)]
struct Found {
    place: String,
    problem: String,
}

impl Check {
    pub(crate) async fn run(&self) -> Outcome {
        let (address, _) = self.store.address()?;
        let shown = shown_address(&address);
        if machine::folder(&address).is_some_and(|folder| !SqliteStore::is_in(&folder)) {
            // Opening would make one, and find it well.
            let text = format!("there is no store at {shown}");
            return Err(crate::ending::Stop::NotFound(text).into());
        }
        let findings = match self.findings().await {
            Ok(findings) => findings,
            // What cannot even be opened is found, too.
            Err(error) => match error.downcast_ref() {
                Some(StoreError::Corrupt(problem)) => {
                    vec![Found { place: "store".to_owned(), problem: problem.clone() }]
                }
                _ => return Err(error),
            },
        };
        if findings.is_empty() && self.shown.format() == Format::Table {
            crate::show::print(&format!("{shown} is whole\n"))?;
            return Ok(DONE);
        }
        let is_whole = findings.is_empty();
        self.shown.many(&List::whole("findings", findings), |findings| {
            Table::of(&["PLACE", "PROBLEM"], findings, |found| {
                vec![Cell::new(&found.place), Cell::new(&found.problem)]
            })
        })?;
        if is_whole {
            return Ok(DONE);
        }
        eprintln!("  → {DAMAGED}");
        Ok(not_as_it_should_be())
    }

    async fn findings(&self) -> anyhow::Result<Vec<Found>> {
        let findings = self.store.open_alone().await?.check().await?;
        let found = |Finding { place, problem }: Finding| Found { place, problem };
        Ok(findings.into_iter().map(found).collect())
    }
}
