//! What only this store promises, seen from inside.

mod board;
mod fault;
mod file;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tasklane_core::{
    Clock, Command, Draft, Intent, NewTask, Outcome, Policies, Selection, StateName, TaskId,
    TaskType, WorkerSpec,
};
use tasklane_store::conformance::{ManualClock, block_on};
use tasklane_store::{ClaimRequest, Claimed, Cursor, Store, StoreError, Submission, Submitted};

use crate::fault::Fault;
use crate::options::{Durability, Options};
use crate::store::SqliteStore;
use crate::writer::Class;

fn draft(id: Option<TaskId>) -> Draft {
    let task = NewTask { id, ..NewTask::new(TaskType::new("a").unwrap(), "{}") };
    task.resolve(&Policies::default()).unwrap()
}

fn submit(store: &SqliteStore, count: usize) -> Result<Vec<Submitted>, StoreError> {
    let tasks = (0..count).map(|_| draft(None)).collect();
    block_on(store.submit(vec![Submission { tasks }])).map(|mut all| all.pop().unwrap().unwrap())
}

fn claim(store: &SqliteStore, count: usize) -> Vec<Claimed> {
    let spec = WorkerSpec::new(Selection::default(), 1_000).unwrap();
    let worker = block_on(store.register(spec)).unwrap();
    let request = ClaimRequest { worker, count, auto_start: true, narrowed: None };
    block_on(store.claim(vec![request])).unwrap().pop().unwrap().unwrap()
}

fn complete(claimed: &Claimed) -> Command {
    let token = claimed.task.state.lease().unwrap().token;
    let outcome = Outcome::Completed(Bytes::from_static(b"1"));
    Command { task: claimed.task.id, intent: Intent::Settle(token, outcome) }
}

fn manual() -> (Arc<ManualClock>, Options) {
    let clock = Arc::new(ManualClock::default());
    (clock.clone(), Options { clock, ..Options::default() })
}

fn log_bytes(folder: &Path) -> u64 {
    std::fs::metadata(folder.join("tasklane.db-wal")).unwrap().len()
}
