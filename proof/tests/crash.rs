//! The crash test in small, on an honest store and on stores that somebody lays hands on.
//!
//! What is planted here is consistent in itself, so that the store's own check has nothing to
//! find: only the history tells.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up should stop")]

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension, params};
use tasklane_core::{StateName, Task, TaskId};
use tasklane_proof::Failure;
use tasklane_proof::checker::Class;
use tasklane_proof::history::{Answer, Ending, History, Operation, Record};
use tasklane_proof::parent::{Observer, Outcome, Settings, run};
use tasklane_store::codec;

#[test]
fn an_honest_store_keeps_every_promise() {
    struct Nobody;
    impl Observer for Nobody {}
    let outcome = crash(12, 8, &mut Nobody);
    assert_eq!(outcome.violations, []);
    let report = outcome.report;
    assert_eq!((report.restarts, report.looks), (12, 2));
    assert!(report.counts.submits > 0, "{report:?}");
}

#[test]
fn a_planted_loss_is_caught() {
    let mut plant = Plant { hand: forget, planted: None };
    let outcome = crash(24, 1, &mut plant);
    let planted = plant.planted.unwrap_or_else(|| panic!("nothing was planted: {outcome:?}"));
    assert_caught(&outcome, Class::Lost, planted);
    assert!(outcome.kept.is_some(), "what there is to look at is kept");
}

#[test]
fn a_completed_task_that_is_made_pending_is_caught() {
    let mut plant = Plant { hand: revive, planted: None };
    let outcome = crash(24, 1, &mut plant);
    let planted = plant.planted.unwrap_or_else(|| panic!("nothing was planted: {outcome:?}"));
    assert_caught(&outcome, Class::ClaimedAfterCompletion, planted);
    assert_caught(&outcome, Class::CompletedTwice, planted);
}

#[test]
fn a_store_that_no_longer_opens_is_caught() {
    struct Vandal;
    impl Observer for Vandal {
        fn between(&mut self, store: &Path, _: &Path) -> Result<(), Failure> {
            std::fs::create_dir_all(store)?;
            Ok(std::fs::write(store.join("tasklane.db"), "not a database ".repeat(1_000))?)
        }
    }
    let outcome = crash(24, 1, &mut Vandal);
    assert_eq!(outcome.violations.first().map(|one| one.class), Some(Class::Trouble));
}

#[track_caller]
fn assert_caught(outcome: &Outcome, class: Class, task: TaskId) {
    let violations = &outcome.violations;
    let caught = violations.iter().any(|one| one.class == class && one.task == Some(task));
    assert!(caught, "{class:?} of task {task} is not among {violations:#?}");
    let own = violations.iter().find(|one| one.class == Class::Trouble);
    assert_eq!(own, None, "the plant is consistent: the store itself finds nothing");
    assert!(violations.iter().all(|one| one.task == Some(task)), "{violations:#?}");
    assert!(outcome.report.violations_of(class) > 0);
}

/// Each run starts processes, and a process that is just being started has the open files of this
/// one, another run's store with its lock among them: that store would seem to be in use.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A look follows each plant at once, before clients can hide or undo it.
fn crash(restarts: u64, look_every: u64, observer: &mut dyn Observer) -> Outcome {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        program: env!("CARGO_BIN_EXE_crash").into(),
        folder: folder.path().to_owned(),
        restarts,
        seed: 20_260_401,
        tasks: 20,
        look_every,
        chapter: 100,
    };
    run(&settings, observer).unwrap()
}

/// A task's row in the index of what has ended.
struct EndedRow {
    task: i64,
    lane: i64,
    priority: i64,
}

/// Changes a task's rows; whether it did.
type Hand = fn(&Connection, &EndedRow) -> Result<bool, Failure>;

/// Lays a hand on the first task alone in its submission whose completion was acknowledged.
struct Plant {
    hand: Hand,
    planted: Option<TaskId>,
}

impl Observer for Plant {
    fn between(&mut self, store: &Path, history: &Path) -> Result<(), Failure> {
        if self.planted.is_some() || !store.join("tasklane.db").exists() {
            return Ok(());
        }
        let mut connection = Connection::open(store.join("tasklane.db"))?;
        let transaction = connection.transaction()?;
        for task in completed_alone(&History::read(history)?) {
            let Some(row) = ended_row(&transaction, task)? else { continue };
            if (self.hand)(&transaction, &row)? {
                self.planted = Some(task);
                break;
            }
        }
        transaction.commit()?;
        Ok(())
    }
}

/// Tasks submitted alone and without a key, whose completion was acknowledged.
fn completed_alone(history: &[Record]) -> Vec<TaskId> {
    let mut settles = std::collections::HashMap::new();
    let (mut alone, mut completed) = (Vec::new(), Vec::new());
    for record in history {
        match record {
            Record::Intent { operation: Operation::Submit(plans), .. } => {
                if let ([plan], true) = (&plans[..], plans.iter().all(|plan| plan.key.is_none())) {
                    alone.push(plan.id);
                }
            }
            Record::Intent { call, operation: Operation::Settle(hold, Ending::Completed) } => {
                settles.insert(*call, hold.task);
            }
            Record::Answer { call, answer: Answer::Changed { state, .. } }
                if *state == StateName::Completed =>
            {
                completed.extend(settles.get(call));
            }
            _ => {}
        }
    }
    completed.retain(|task| alone.contains(task));
    completed
}

fn ended_row(connection: &Connection, task: TaskId) -> Result<Option<EndedRow>, Failure> {
    let sql = "SELECT e.task, e.lane, e.priority FROM ended e JOIN task t ON t.task = e.task
               WHERE t.id = ? AND e.state = ?";
    let wanted = params![task.as_bytes(), StateName::Completed.index()];
    let row = connection.query_row(sql, wanted, |row| {
        Ok(EndedRow { task: row.get(0)?, lane: row.get(1)?, priority: row.get(2)? })
    });
    Ok(row.optional()?)
}

/// Removes a task as if it had never been.
fn forget(store: &Connection, row: &EndedRow) -> Result<bool, Failure> {
    for table in ["task", "alias", "standing", "ended", "trail"] {
        store.execute(&format!("DELETE FROM {table} WHERE task = ?"), [row.task])?;
    }
    count(store, row, StateName::Completed, -1)?;
    Ok(true)
}

/// Makes a completed task one to which nothing has happened yet.
fn revive(store: &Connection, row: &EndedRow) -> Result<bool, Failure> {
    let sql = "SELECT t.id, t.spec, l.name FROM task t JOIN lane l ON l.lane = t.lane
               WHERE t.task = ?";
    let (id, spec, lane): ([u8; 16], Vec<u8>, Vec<u8>) =
        store.query_row(sql, [row.task], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let stored = codec::decode_spec(&spec, codec::decode_lane(&lane)?)?;
    let admitted = Task::admitted(TaskId::from_bytes(id)?, stored.spec, stored.admission);
    if admitted.state.name() != StateName::Pending || admitted.spec.ordering_key.is_some() {
        return Ok(false);
    }
    for table in ["standing", "ended", "trail"] {
        store.execute(&format!("DELETE FROM {table} WHERE task = ?"), [row.task])?;
    }
    let place = admitted.place;
    store.execute(
        "INSERT INTO pending(lane, priority, ready_at, sequence, task, fresh) VALUES (?, ?, ?, ?, ?, 1)",
        params![row.lane, row.priority, place.ready_at.as_micros(), place.sequence.0, row.task],
    )?;
    count(store, row, StateName::Completed, -1)?;
    count(store, row, StateName::Pending, 1)?;
    Ok(true)
}

fn count(store: &Connection, row: &EndedRow, state: StateName, by: i64) -> Result<(), Failure> {
    store.execute(
        "INSERT INTO tally(lane, priority, state, count) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET count = count + ?4",
        params![row.lane, row.priority, state.index(), by],
    )?;
    Ok(())
}
