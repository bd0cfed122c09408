//! The history is kept in parts by time, which are dropped as a whole.

use std::sync::Arc;
use std::time::Duration;

use tasklane_core::{
    Clock, NewTask, Policies, QueueName, QueueSettings, Retention, TaskId, TaskType,
};
use tasklane_postgres::{Options, PostgresStore};
use tasklane_store::conformance::ManualClock;
use tasklane_store::{Prune, Store, Submission};

use crate::fixture::runtime;
use crate::servers::{claim, completion, fresh, open, register, stranger, submit};

const DAY: Duration = Duration::from_secs(86_400);

/// A store on a clock of its own.
fn timed() -> (Arc<ManualClock>, Options) {
    let clock = Arc::new(ManualClock::default());
    let options = Options { clock: Some(clock.clone()), ..fresh() };
    (clock, options)
}

/// A store on the day after the first tasks ended: from now on there are parts.
async fn begun(clock: &ManualClock, options: &Options) -> Arc<PostgresStore> {
    let store = open(options).await;
    store.prune(Prune::default()).await.unwrap();
    assert_eq!(parts(options).await, [""; 0], "nothing has ended yet");
    let ids = complete(&store, 1).await;
    assert_eq!(part_of(options, *ids.first().unwrap()).await, "history_completed_rest");
    clock.advance(DAY / 24);
    store.prune(Prune::default()).await.unwrap();
    assert_eq!(parts(options).await.len(), 1, "tomorrow's");
    clock.advance(DAY);
    store.prune(Prune::default()).await.unwrap();
    store
}

/// In which table a task is.
async fn part_of(options: &Options, id: TaskId) -> String {
    let sql = format!(
        "SELECT c.relname::text FROM history h JOIN pg_class c ON c.oid = h.tableoid
                       WHERE h.id = '{id}'"
    );
    stranger(options).await.query_one(&sql, &[]).await.unwrap().get(0)
}

/// Parts of what was completed, the rest apart.
async fn parts(options: &Options) -> Vec<String> {
    let sql = "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
               WHERE i.inhparent = to_regclass('history_completed')
               AND c.relname NOT LIKE '%_rest' ORDER BY 1";
    let found = stranger(options).await.query(sql, &[]).await.unwrap();
    found.iter().map(|row| row.get(0)).collect()
}

/// Submits tasks and completes them.
async fn complete(store: &PostgresStore, count: usize) -> Vec<TaskId> {
    let worker = register(store).await;
    let ids = submit(store, count).await;
    let claimed = claim(store, worker, count).await;
    let settled = store.execute(claimed.iter().map(completion).collect()).await.unwrap();
    assert!(settled.len() == count && settled.iter().all(Result::is_ok));
    ids
}

#[test]
fn what_ended_is_in_the_part_of_its_time_which_is_dropped_when_all_of_it_is_gone() {
    let (clock, options) = timed();
    runtime().block_on(async {
        let store = begun(&clock, &options).await;
        let first = parts(&options).await;
        assert_eq!(first.len(), 2, "today and tomorrow: {first:?}");
        let ids = complete(&store, 5).await;
        assert_eq!(part_of(&options, ids[0]).await, first[0]);
        clock.advance(DAY);
        let pruned = store.prune(Prune::default()).await.unwrap();
        assert_eq!(pruned.tasks.iter().sum::<u64>(), 5);
        let later = complete(&store, 1).await;
        assert_eq!(part_of(&options, later[0]).await, first[1], "it was there before its time");
        clock.advance(DAY);
        // Removed in slices; their table goes when it is looked at again.
        store.prune(Prune::default()).await.unwrap();
        clock.advance(DAY / 24);
        store.prune(Prune::default()).await.unwrap();
        let last = parts(&options).await;
        assert!(
            last.len() == 2 && !last.contains(&first[0]) && !last.contains(&first[1]),
            "{last:?}"
        );
        assert_eq!(store.check().await.unwrap(), []);
    });
}

#[test]
fn a_part_with_a_task_in_it_stays() {
    let (clock, options) = timed();
    runtime().block_on(async {
        let store = begun(&clock, &options).await;
        let retention = Retention { completed: Some(DAY * 10), ..Retention::default() };
        let settings = QueueSettings { retention: Some(retention), ..QueueSettings::default() };
        store.configure(QueueName::default_queue(), settings).await.unwrap();
        let ids = complete(&store, 1).await;
        let part = part_of(&options, ids[0]).await;
        for _ in 0..3 {
            clock.advance(DAY);
            store.prune(Prune::default()).await.unwrap();
        }
        assert_eq!(part_of(&options, ids[0]).await, part);
        assert!(store.get(ids).await.unwrap()[0].is_some());
    });
}

#[test]
fn a_task_that_ends_when_its_part_has_gone_is_kept_in_the_rest() {
    let (clock, options) = timed();
    runtime().block_on(async {
        let store = begun(&clock, &options).await;
        let ids = submit(&store, 1).await;
        let before = parts(&options).await;
        clock.advance(DAY * 3);
        store.prune(Prune::default()).await.unwrap();
        assert!(!parts(&options).await.contains(&before[0]), "nothing had ended in it");
        let worker = register(&store).await;
        let claimed = claim(&store, worker, 1).await;
        store.execute(vec![completion(&claimed[0])]).await.unwrap()[0].as_ref().unwrap();
        assert_eq!(part_of(&options, ids[0]).await, "history_completed_rest");
        clock.advance(DAY);
        store.prune(Prune::default()).await.unwrap();
        assert!(store.get(ids).await.unwrap()[0].is_none(), "it is removed like any other");
        assert_eq!(store.check().await.unwrap(), []);
    });
}

#[test]
fn a_read_by_id_looks_into_no_part_of_another_time() {
    let (clock, options) = timed();
    let options = Options { lock_time_max: Duration::from_millis(100), ..options };
    runtime().block_on(async {
        let store = begun(&clock, &options).await;
        let ids = complete(&store, 1).await;
        let own = part_of(&options, ids[0]).await;
        let parts = parts(&options).await;
        let others: Vec<_> = parts.iter().filter(|part| **part != own).collect();
        assert!(parts.contains(&own) && !others.is_empty(), "{own} of {parts:?}");
        // A part that is looked into is locked, if only for a moment.
        let client = stranger(&options).await;
        for part in others {
            let lock = format!("BEGIN; LOCK TABLE {part} IN ACCESS EXCLUSIVE MODE");
            client.batch_execute(&lock).await.unwrap();
            assert!(store.get(ids.clone()).await.unwrap()[0].is_some());
            assert!(store.trail(ids[0]).await.unwrap().is_some());
            client.batch_execute("ROLLBACK").await.unwrap();
        }
        let lock = format!("BEGIN; LOCK TABLE {own} IN ACCESS EXCLUSIVE MODE");
        client.batch_execute(&lock).await.unwrap();
        assert!(store.get(ids.clone()).await.is_err(), "this is how it would be noticed");
    });
}

#[test]
fn a_time_that_the_rest_has_tasks_of_gets_no_part() {
    let (clock, options) = timed();
    runtime().block_on(async {
        let store = begun(&clock, &options).await;
        // An id that a client chose, from a clock that is five days ahead.
        let millis = u64::try_from(clock.wall().plus(DAY * 5).as_millis()).unwrap();
        let id = uuid::Uuid::from_u64_pair(millis << 16 | 0x7000, 1 << 63);
        let id = TaskId::from_bytes(id.into_bytes()).unwrap();
        let task = NewTask { id: Some(id), ..NewTask::new(TaskType::new("a").unwrap(), "1") };
        let tasks = vec![task.resolve(&Policies::default()).unwrap()];
        store.submit(vec![Submission { tasks }]).await.unwrap().remove(0).unwrap();
        let worker = register(&store).await;
        let claimed = claim(&store, worker, 1).await;
        store.execute(vec![completion(&claimed[0])]).await.unwrap()[0].as_ref().unwrap();
        clock.advance(DAY * 5);
        let keep = Retention { completed: None, ..Retention::default() };
        let prune = Prune { retention: keep, ..Prune::default() };
        store.prune(prune).await.unwrap();
        assert!(store.get(vec![id]).await.unwrap()[0].is_some());
        assert_eq!(parts(&options).await.len(), 1, "only tomorrow's");
        let ids = complete(&store, 1).await;
        assert_eq!(part_of(&options, ids[0]).await, "history_completed_rest");
    });
}

#[test]
fn servers_make_and_drop_parts_beside_one_another_and_beside_work() {
    let (clock, options) = timed();
    runtime().block_on(async {
        let stores = [open(&options).await, open(&options).await, open(&options).await];
        for _ in 0..4 {
            let work: Vec<_> = stores
                .iter()
                .map(|store| {
                    let store = Arc::clone(store);
                    tokio::spawn(async move {
                        store.prune(Prune::default()).await.unwrap();
                        complete(&store, 1).await;
                        store.prune(Prune::default()).await.unwrap();
                    })
                })
                .collect();
            for work in work {
                work.await.unwrap();
            }
            clock.advance(DAY);
        }
        assert!(parts(&options).await.len() <= 3);
        assert_eq!(stores[0].check().await.unwrap(), []);
    });
}
