//! The crash test in small, on an honest store and on stores that somebody lays hands on.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use tasklane_core::{StateName, TaskId};
use tasklane_proof::Failure;
use tasklane_proof::checker::Class;
use tasklane_proof::history::{Answer, History, Operation, Record};
use tasklane_proof::parent::{Engine, Observer, Outcome, Settings, run};

#[test]
fn an_honest_store_keeps_every_promise() -> Result<(), Failure> {
    struct Nobody;
    impl Observer for Nobody {}
    let outcome = crash(12, 8, &mut Nobody)?;
    assert_eq!(outcome.violations, []);
    let report = outcome.report;
    assert_eq!((report.restarts, report.looks), (12, 2));
    assert!(report.counts.submits > 0, "{report:?}");
    Ok(())
}

#[test]
fn a_store_that_falls_back_to_an_older_self_is_caught() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let mut rollback = Rollback::new(folder.path().join("copy"));
    let outcome = crash(24, 1, &mut rollback)?;
    let missed = rollback.missed.ok_or("nothing was planted")?;
    let caught = |class| -> BTreeSet<TaskId> {
        let violations = outcome.violations.iter().filter(|one| one.class == class);
        violations.filter_map(|one| one.task).collect()
    };
    assert!(missed.admitted.is_subset(&caught(Class::Lost)), "{:#?}", outcome.violations);
    // Most are done again; one that was cancelled in the copy, or about to be, ends otherwise.
    let again = caught(Class::CompletedTwice);
    let otherwise = caught(Class::WentBackwards);
    assert!(missed.completed.iter().all(|task| again.contains(task) || otherwise.contains(task)));
    assert!(!again.is_empty(), "{:#?}", outcome.violations);
    assert!(again.is_subset(&caught(Class::ClaimedAfterCompletion)), "{:#?}", outcome.violations);
    // The older self is whole, so that its own check is blind: only the history tells.
    assert_eq!(caught(Class::Trouble), BTreeSet::new());
    assert_eq!(outcome.report.violations_of(Class::Trouble), 0, "{:#?}", outcome.violations);
    // And nothing is called lost that was there when the copy was made.
    assert!(caught(Class::Lost).is_disjoint(&missed.known_before));
    assert!(outcome.kept.is_some(), "what there is to look at is kept");
    Ok(())
}

#[test]
fn a_store_that_no_longer_opens_is_caught() -> Result<(), Failure> {
    struct Vandal;
    impl Observer for Vandal {
        fn between(&mut self, store: &Path, _: &Path) -> Result<(), Failure> {
            std::fs::create_dir_all(store)?;
            Ok(std::fs::write(store.join("tasklane.db"), "not a database ".repeat(1_000))?)
        }
    }
    let outcome = crash(24, 1, &mut Vandal)?;
    assert_eq!(outcome.violations.first().map(|one| one.class), Some(Class::Trouble));
    Ok(())
}

fn crash(restarts: u64, look_every: u64, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
    let folder = tempfile::tempdir()?;
    let settings = Settings {
        program: env!("CARGO_BIN_EXE_proof").into(),
        folder: folder.path().to_owned(),
        restarts,
        seed: 20_260_401,
        tasks: 60,
        look_every,
        chapter: 100,
        engine: Engine::Sqlite,
        servers: 1,
    };
    run(&settings, observer)
}

/// Copies the store after its first life, and puts the copy back once there is something to miss.
struct Rollback {
    copy: PathBuf,
    /// Lines of the history when the copy was made.
    copied_at: Option<usize>,
    missed: Option<Missed>,
}

/// What the outside world knows and the copy does not.
#[derive(Default)]
struct Missed {
    known_before: BTreeSet<TaskId>,
    /// Admitted after the copy was made.
    admitted: BTreeSet<TaskId>,
    /// Known before, and completed after.
    completed: BTreeSet<TaskId>,
}

impl Rollback {
    const fn new(copy: PathBuf) -> Self {
        Self { copy, copied_at: None, missed: None }
    }
}

impl Observer for Rollback {
    fn between(&mut self, store: &Path, history: &Path) -> Result<(), Failure> {
        let history = History::read(history)?;
        let Some(copied_at) = self.copied_at else {
            copy_folder(store, &self.copy)?;
            self.copied_at = Some(history.len());
            return Ok(());
        };
        let missed = Missed::of(&history, copied_at);
        if self.missed.is_none() && !missed.admitted.is_empty() && !missed.completed.is_empty() {
            std::fs::remove_dir_all(store)?;
            copy_folder(&self.copy, store)?;
            self.missed = Some(missed);
        }
        Ok(())
    }
}

impl Missed {
    fn of(history: &[Record], copied_at: usize) -> Self {
        let mut missed = Self::default();
        let mut settles = HashMap::new();
        for (line, record) in history.iter().enumerate() {
            match record {
                Record::Intent { call, operation: Operation::Settle(hold, _) } => {
                    settles.insert(*call, hold.task);
                }
                Record::Answer { answer: Answer::Submitted(taken), .. } => {
                    for taken in taken.iter().filter(|taken| !taken.replayed) {
                        match line < copied_at {
                            true => missed.known_before.insert(taken.id),
                            false => missed.admitted.insert(taken.id),
                        };
                    }
                }
                Record::Answer { call, answer: Answer::Changed { state, repeated: false } }
                    if *state == StateName::Completed && line >= copied_at =>
                {
                    missed.completed.extend(settles.get(call));
                }
                _ => {}
            }
        }
        missed.completed.retain(|task| missed.known_before.contains(task));
        missed
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
