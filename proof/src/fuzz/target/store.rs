//! A store's file in which one record is another: opened, looked at and worked with.
//!
//! An input is two bytes for the place and the row, then the record. The store refuses to go on, or
//! finds it when it checks, or serves what it reads; it never comes to a stop in the middle.

use std::time::Instant;

use tasklane_core::{Selection, TaskId, WorkerSpec};
use tasklane_store::conformance::block_on;
use tasklane_store::{
    AuditFrom, ClaimRequest, Cursor, Filter, Prune, Query, Store, StoreError, maintain,
};

use super::shelf::{self, PLACES, Record};
use crate::Failure;
use crate::fuzz::ground::Ground;
use crate::fuzz::{Form, Memory, Seen, Target, Verdict, broken};

pub(super) const TARGET: Target = Target {
    name: "store",
    form: Form::Bytes,
    words: super::record::TARGET.words,
    bytes_max: 64 * 1024,
    short: 60,
    memory: Memory::Own,
    seeds,
    check,
};

fn seeds(ground: &mut Ground) -> Result<Vec<Vec<u8>>, Failure> {
    let records = ground.shelf()?.records.iter();
    Ok(records.map(|r| [&[r.place, r.row], r.bytes.as_slice()].concat()).collect())
}

fn check(ground: &mut Ground, input: &[u8]) -> Verdict {
    let Some(([place, row], bytes)) = input.split_first_chunk::<2>() else {
        return Ok(Seen::Refused);
    };
    let place = place % PLACES.len() as u8;
    let parent = ground.folder().to_owned();
    let shelf = ground.shelf()?;
    let record = Record { place, row: *row, bytes: bytes.to_vec() };
    let folder = shelf.altered(&parent, &record)?;
    let tasks = shelf.tasks.clone();
    let began = Instant::now();
    let opened = shelf::open(&folder);
    ground.note(began.elapsed());
    let store = match opened {
        Ok(store) => store,
        Err(refused) => {
            return match refused.downcast_ref::<StoreError>() {
                Some(StoreError::Closed) => broken("the store stopped while it was opened"),
                _ => Ok(Seen::Refused),
            };
        }
    };
    let mut seen = Seen::Taken;
    for (what, look) in LOOKS {
        let began = Instant::now();
        let looked = look(&store, &tasks);
        ground.note(began.elapsed());
        match looked.err() {
            None => {}
            Some(StoreError::Closed | StoreError::OutcomeUnknown(_)) => {
                return broken(format!("the store stopped at {what}"));
            }
            Some(_) => seen = Seen::Refused,
        }
    }
    Ok(seen)
}

type Look = fn(&dyn Store, &[TaskId]) -> Result<(), StoreError>;

/// Every call there is.
const LOOKS: [(&str, Look); 13] = [
    ("get", |store, tasks| block_on(store.get(tasks.to_vec())).map(drop)),
    ("list", |store, _| {
        let query = Query { bodies: true, ..Query::new(Filter::default(), 100) };
        block_on(store.list(query)).map(drop)
    }),
    ("events", |store, _| block_on(store.events_after(Cursor::OLDEST, 1_000)).map(drop)),
    ("stats", |store, _| block_on(store.stats()).map(drop)),
    ("workers", |store, _| block_on(store.workers()).map(drop)),
    ("queues", |store, _| block_on(store.queues()).map(drop)),
    ("keys", |store, _| block_on(store.api_keys()).map(drop)),
    ("audit", |store, _| block_on(store.audit(AuditFrom::Newest, 100)).map(drop)),
    ("check", |store, _| block_on(store.check()).map(drop)),
    ("trail", |store, tasks| {
        tasks.iter().try_for_each(|task| block_on(store.trail(*task)).map(drop))
    }),
    ("claim", |store, _| {
        let spec = WorkerSpec::new(Selection::default(), 100)?;
        let worker = block_on(store.register(spec))?;
        let request = ClaimRequest { worker, count: 100, auto_start: true, narrowed: None };
        block_on(store.claim(vec![request])).map(drop)
    }),
    ("maintenance", |store, _| block_on(maintain(store)).map(drop)),
    ("prune", |store, _| block_on(store.prune(Prune::emergency())).map(drop)),
];
