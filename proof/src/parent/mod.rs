//! The process that kills: it puts load on a child, kills it, starts it again, and looks.
//!
//! - `line` calls and their way into the history; `load`, `producer` and `worker` who makes them
//! - `life` one life of the child; `look` what is checked between two lives
//! - `several` children that share a database, and a follower of its feed; `database` is that one
//! - here: the run as a whole
//!
//! A run is cut into chapters, each with a store and a history of its own, so that the time of a
//! look does not grow with the length of the run.

pub(crate) mod database;
mod life;
mod line;
mod load;
mod look;
mod producer;
mod several;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use tasklane_core::{Random as _, SeededRandom};

use crate::Failure;
use crate::checker::{Counts, Violation};
use crate::history::History;
use crate::place::Place;
use crate::report::Report;
use crate::still::Watch;
use database::Database;
use life::{Kill, Lived, live};
use load::Load;

/// What to run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The program that is a child when its arguments say so.
    pub program: PathBuf,
    /// Where stores and histories are made; must be there.
    pub folder: PathBuf,
    /// How many times to kill.
    pub restarts: u64,
    /// What all decisions follow from. The timing of the machine does not.
    pub seed: u64,
    /// Tasks submitted before the first kill of a chapter.
    pub tasks: u64,
    /// Restarts between two looks.
    pub look_every: u64,
    /// Restarts of one store.
    pub chapter: u64,
    /// Which store.
    pub engine: Engine,
    /// How many children at a time, where they can share a store.
    pub servers: usize,
}

/// A store that can be tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// In files.
    Sqlite,
    /// In a database of the run's own, which is restarted too.
    Postgres,
    /// The same on Redis.
    Redis,
}

impl Engine {
    /// What an argument means.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        match text {
            "sqlite" => Ok(Self::Sqlite),
            "postgres" => Ok(Self::Postgres),
            "redis" => Ok(Self::Redis),
            _ => Err(format!("--store {text}: sqlite, postgres, redis").into()),
        }
    }
}

/// Who watches a run.
pub trait Observer: Send {
    /// A child was killed.
    fn killed(&mut self, report: &Report) {
        let _ = report;
    }

    /// Nobody has the store open: a test may lay hands on it here.
    fn between(&mut self, store: &Path, history: &Path) -> Result<(), Failure> {
        let _ = (store, history);
        Ok(())
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Its figures.
    pub report: Report,
    /// What the store did and must not; the run stopped at the first look that found any.
    pub violations: Vec<Violation>,
    /// The store and its history, kept if there is something to look at.
    pub kept: Option<PathBuf>,
}

/// Runs the whole test.
pub fn run(settings: &Settings, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
    if let Some(database) = Database::start(settings.engine)? {
        return several::run(settings, &database, observer);
    }
    let started = Instant::now();
    let mut random = SeededRandom::new(settings.seed);
    let mut report = Report { seed: settings.seed, ..Report::default() };
    let watch = Watch::begin(&settings.folder)?;
    let mut number = 0;
    while report.restarts < settings.restarts {
        number += 1;
        let mut chapter = Chapter::begin(
            settings,
            number,
            SeededRandom::new(random.next_u64()),
            &mut report,
            &watch,
        )?;
        let violations = chapter.run(observer)?;
        let folder = chapter.folder;
        report.took = started.elapsed();
        if !violations.is_empty() {
            report.add_violations(&violations);
            return Ok(Outcome { report, violations, kept: Some(folder) });
        }
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(Outcome { report, violations: Vec::new(), kept: None })
}

/// One store, its history and its clients.
struct Chapter<'a> {
    settings: &'a Settings,
    report: &'a mut Report,
    watch: &'a Watch,
    random: SeededRandom,
    folder: PathBuf,
    history: Mutex<History>,
    load: Load,
    /// What the last look at this store found.
    seen: (u64, Counts),
}

impl<'a> Chapter<'a> {
    fn begin(
        settings: &'a Settings,
        number: u64,
        mut random: SeededRandom,
        report: &'a mut Report,
        watch: &'a Watch,
    ) -> Result<Self, Failure> {
        let folder = settings.folder.join(format!("chapter-{number}"));
        std::fs::create_dir(&folder)?;
        let history = Mutex::new(History::create(&folder.join("history"))?);
        let load = Load::new();
        if settings.tasks > 0 {
            let store = Place::Folder(folder.join("store"));
            look::fill(&store, &history, &load.known, settings.tasks, &mut random)?;
        }
        let seen = (0, Counts::default());
        Ok(Self { settings, report, watch, random, folder, history, load, seen })
    }

    fn run(&mut self, observer: &mut dyn Observer) -> Result<Vec<Violation>, Failure> {
        let (store, history) = (self.folder.join("store"), self.folder.join("history"));
        let left = self.settings.restarts - self.report.restarts;
        let restarts = left.min(self.settings.chapter.max(1));
        for restart in 1..=restarts {
            if let Some(violation) = self.live(&store)? {
                return Ok(vec![violation]);
            }
            observer.between(&store, &history)?;
            if restart.is_multiple_of(self.settings.look_every.max(1)) || restart == restarts {
                let violations = self.look(&store, &history)?;
                if !violations.is_empty() {
                    return Ok(violations);
                }
            }
            observer.killed(self.report);
        }
        Ok(Vec::new())
    }

    fn live(&mut self, store: &Path) -> Result<Option<Violation>, Failure> {
        let kill = Kill::choose(&mut self.random);
        let mut random = SeededRandom::new(self.random.next_u64());
        let program = &self.settings.program;
        let store = &Place::Folder(store.to_owned());
        let began = Instant::now();
        let lived = live(program, store, &self.history, &mut self.load, kill, &mut random)?;
        self.report.restarts += 1;
        match lived {
            Lived::KilledWhileOpening => self.report.killed_while_opening += 1,
            Lived::Killed(ready_after) => {
                let still = self.watch.stood_still(began, began + ready_after);
                self.report.was_ready(ready_after, still);
            }
            Lived::EndedByItself(how) => {
                let what = format!("the child of restart {}: {how}", self.report.restarts);
                return Ok(Some(Violation::trouble(what)));
            }
        }
        Ok(None)
    }

    fn look(&mut self, store: &Path, history: &Path) -> Result<Vec<Violation>, Failure> {
        let looked = match look::look(&Place::Folder(store.to_owned()), &self.history, history) {
            Ok(looked) => looked,
            // A store that cannot be opened, read or drained has broken its word too.
            Err(failure) => return Ok(vec![Violation::trouble(failure.to_string())]),
        };
        let counts = looked.verdict.counts;
        self.report.looks += 1;
        let tasks = looked.content.len() as u64;
        self.report.tasks += tasks.saturating_sub(self.seen.0);
        let under_load = looked.before.minus(&self.seen.1);
        self.report.completions_under_load += under_load.completions;
        self.report.counts.add(&counts.minus(&self.seen.1));
        self.seen = (tasks, counts);
        Ok(looked.verdict.violations)
    }
}
