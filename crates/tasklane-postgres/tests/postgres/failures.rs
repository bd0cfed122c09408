//! What goes wrong: locks of others, damage, commits without an answer.

use std::time::{Duration, Instant};

use tasklane_core::{Draft, NewTask, Policies, StateName, TaskId, TaskType};
use tasklane_postgres::test_server::{Care, TestServer};
use tasklane_postgres::{Options, PostgresStore};
use tasklane_store::{Store, StoreError, Submission, apart};
use tokio_postgres::{Client, NoTls};

use crate::fixture::runtime;
use crate::servers::{claim, completion, fresh, open, register, stranger, submit};

/// Rows of these tasks, held by somebody else until the transaction ends.
async fn lock(client: &Client, ids: &[TaskId]) {
    let ids: Vec<_> = ids.iter().map(|id| format!("'{id}'")).collect();
    let lock = format!("BEGIN; SELECT 1 FROM task WHERE id IN ({}) FOR UPDATE", ids.join(","));
    client.batch_execute(&lock).await.unwrap();
}

#[test]
fn a_task_that_somebody_locks_is_in_nobodys_way_but_its_own() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let worker = register(&store).await;
        submit(&store, 20).await;
        let claimed = claim(&store, worker, 20).await;
        let client = stranger(&options).await;
        lock(&client, &[claimed[7].task.id]).await;
        let settles: Vec<_> = claimed.iter().map(completion).collect();
        let begun = Instant::now();
        let together = store.execute(settles.clone()).await;
        assert!(matches!(together, Err(StoreError::Obstructed(_))), "{together:?}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        let verdicts = apart(settles, |settles| store.execute(settles)).await;
        for (number, verdict) in verdicts.into_iter().enumerate() {
            match (number, verdict) {
                (7, Err(StoreError::Overloaded(_))) => {}
                (7, verdict) => panic!("{verdict:?}"),
                (_, verdict) => assert_eq!(verdict.unwrap().unwrap().state, StateName::Completed),
            }
        }
        client.batch_execute("COMMIT").await.unwrap();
        let late = store.execute(vec![completion(&claimed[7])]).await.unwrap();
        assert_eq!(late[0].as_ref().unwrap().state, StateName::Completed);
        assert_eq!(store.check().await.unwrap(), []);
    });
}

#[test]
fn nobody_waits_for_the_row_of_a_counter() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let worker = register(&store).await;
        submit(&store, 5).await;
        // Counts what is in the outbox, so that there are rows to lock.
        store.head().await.unwrap();
        let client = stranger(&options).await;
        client.batch_execute("BEGIN").await.unwrap();
        for counter in ["depth", "tally"] {
            let lock = format!("SELECT 1 FROM {counter} FOR UPDATE");
            assert_eq!(client.query(&lock, &[]).await.unwrap().len(), 1, "{counter}");
        }
        // Who waited would be told that somebody is in the way: it is never unlocked.
        submit(&store, 5).await;
        let claimed = claim(&store, worker, 10).await;
        assert_eq!(claimed.len(), 10);
        let settled = store.execute(claimed.iter().map(completion).collect()).await.unwrap();
        assert!(settled.iter().all(Result::is_ok), "{settled:?}");
        client.batch_execute("COMMIT").await.unwrap();
        assert_eq!(store.check().await.unwrap(), []);
    });
}

#[test]
fn a_damaged_task_is_named_and_harms_no_other() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let worker = register(&store).await;
        submit(&store, 5).await;
        let claimed = claim(&store, worker, 5).await;
        let damaged = claimed[2].task.id;
        let client = stranger(&options).await;
        let damage = format!("UPDATE lease SET record = '\\xff' WHERE id = '{damaged}'");
        client.batch_execute(&damage).await.unwrap();
        // This server remembers what it was; another one has to read it.
        let store = open(&options).await;
        let settles: Vec<_> = claimed.iter().map(completion).collect();
        let verdicts = apart(settles, |settles| store.execute(settles)).await;
        for (number, verdict) in verdicts.into_iter().enumerate() {
            match (number, verdict) {
                (2, Err(StoreError::Corrupt(_))) => {}
                (2, verdict) => panic!("{verdict:?}"),
                (_, verdict) => assert!(verdict.unwrap().is_ok()),
            }
        }
    });
}

#[test]
fn a_page_that_the_database_cannot_read_harms_no_other_task() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let worker = register(&store).await;
        submit(&store, 5).await;
        let claimed = claim(&store, worker, 5).await;
        let client = stranger(&options).await;
        let says = "CREATE FUNCTION damaged() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE data_corrupted USING MESSAGE = 'missing chunk number 0'; END $$";
        client.batch_execute(says).await.unwrap();
        let of_one = format!(
            "CREATE TRIGGER damaged BEFORE DELETE ON lease FOR EACH ROW
             WHEN (OLD.id = '{}') EXECUTE FUNCTION damaged()",
            claimed[2].task.id
        );
        client.batch_execute(&of_one).await.unwrap();
        let settles: Vec<_> = claimed.iter().map(completion).collect();
        let verdicts = apart(settles, |settles| store.execute(settles)).await;
        for (number, verdict) in verdicts.into_iter().enumerate() {
            match (number, verdict) {
                (2, Err(StoreError::Corrupt(text))) => assert!(text.contains("chunk"), "{text}"),
                (2, verdict) => panic!("{verdict:?}"),
                (_, verdict) => assert!(verdict.unwrap().is_ok()),
            }
        }
        assert_eq!(store.status().trouble, None, "the database itself is well");
    });
}

#[test]
fn a_deadlock_is_tried_again() {
    let options = Options { lock_time_max: Duration::from_secs(60), ..fresh() };
    runtime().block_on(async {
        let store = open(&options).await;
        let worker = register(&store).await;
        submit(&store, 2).await;
        let mut claimed = claim(&store, worker, 2).await;
        claimed.sort_by_key(|claimed| claimed.task.id);
        let (first, second) = (claimed[0].task.id, claimed[1].task.id);
        let client = stranger(&options).await;
        // The store notices first, and gives way.
        client.batch_execute("SET deadlock_timeout TO '60s'").await.unwrap();
        lock(&client, &[second]).await;
        let settling = store.execute(claimed.iter().map(completion).collect());
        let other = tokio::spawn(async move {
            // It has the first, or will have it before it is the turn of this.
            let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted";
            while client.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let lock = format!("SELECT 1 FROM task WHERE id = '{first}' FOR UPDATE; COMMIT");
            client.batch_execute(&lock).await.unwrap();
        });
        let verdicts = settling.await.unwrap();
        assert!(verdicts.iter().all(Result::is_ok), "{verdicts:?}");
        other.await.unwrap();
    });
}

/// A draft that may be sent again.
fn repeatable(id: TaskId) -> Draft {
    let mut task = NewTask::new(TaskType::new("a").unwrap(), "1");
    task.id = Some(id);
    task.resolve(&Policies::default()).unwrap()
}

#[test]
fn a_commit_that_is_not_answered_is_unknown_and_may_be_sent_again() {
    // Of its own: all of its commits wait.
    let server = TestServer::start(Care::Fast).unwrap();
    let options = Options { commit_time_max: Duration::from_secs(5), ..fresh() };
    runtime().block_on(async {
        let address = server.address("postgres");
        let store = PostgresStore::open(&address, &options).await.unwrap();
        let known = submit(&store, 1).await[0];
        // A standby that never comes. That commits wait at all shows that the store insists on
        // them: the server itself is set not to.
        let (client, connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
        tokio::spawn(connection);
        let reload = "ALTER SYSTEM SET synchronous_standby_names TO 'nobody'";
        client.batch_execute(reload).await.unwrap();
        client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        let id = |n: u8| {
            let mut bytes = *known.as_bytes();
            bytes[15] ^= n;
            TaskId::from_bytes(bytes).unwrap()
        };
        let mut sent = 0;
        // Servers learn of the setting a little later.
        loop {
            sent += 1;
            let unknown =
                store.submit(vec![Submission { tasks: vec![repeatable(id(sent))] }]).await;
            match unknown {
                Ok(_) => tokio::time::sleep(Duration::from_millis(40)).await,
                Err(StoreError::OutcomeUnknown(_)) => break,
                Err(error) => panic!("{error}"),
            }
        }
        // A session that is ended meanwhile leaves it open too.
        let waits = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        let before = client.query(waits, &[]).await.unwrap();
        let before: Vec<i32> = before.iter().map(|row| row.get(0)).collect();
        let ending = async {
            let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                       WHERE wait_event = 'SyncRep' AND pid <> ALL ($1)";
            while client.query_one(end, &[&before]).await.unwrap().get::<_, i64>(0) == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let ended = id(sent + 1);
        let submission = Submission { tasks: vec![repeatable(ended)] };
        let (unknown, is_ended) = tokio::join!(
            store.submit(vec![submission]),
            tokio::time::timeout(Duration::from_secs(30), ending)
        );
        assert!(is_ended.is_ok(), "no session waits: {unknown:?}");
        assert!(matches!(unknown, Err(StoreError::OutcomeUnknown(_))), "{unknown:?}");
        client.batch_execute("ALTER SYSTEM RESET synchronous_standby_names").await.unwrap();
        client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        for id in [id(sent), ended] {
            let begun = Instant::now();
            let again = loop {
                let submission = Submission { tasks: vec![repeatable(id)] };
                match store.submit(vec![submission]).await {
                    Ok(mut verdicts) => break verdicts.remove(0).unwrap()[0],
                    Err(error) => {
                        assert!(begun.elapsed() < Duration::from_secs(30), "{error}");
                    }
                }
            };
            assert_eq!((again.id, again.replayed), (id, true));
        }
        assert_eq!(store.check().await.unwrap(), []);
    });
}
