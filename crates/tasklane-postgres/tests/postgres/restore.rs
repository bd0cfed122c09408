//! Copies of the database that are restored: a new life begins, and only then (S17, S19).

use std::io::Write;
use std::process::Stdio;

use tasklane_core::{Refusal, StateName};
use tasklane_postgres::{Options, PostgresStore};
use tasklane_store::{Cursor, Store};

use crate::fixture::{runtime, server};
use crate::servers::{claim, completion, fresh, open, register, stranger, submit};

fn name(address: &str) -> &str {
    address.split(['/', '?']).nth(3).unwrap()
}

/// As an operator does it: `pg_dump`, then `psql` into a database that is empty.
fn restore(copy: &[u8]) -> String {
    let to = server().new_database().unwrap();
    let mut session = server().session(name(&to)).unwrap();
    let mut session = session.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    session.stdin.take().unwrap().write_all(copy).unwrap();
    assert!(session.wait().unwrap().success());
    to
}

#[test]
fn a_restored_copy_begins_a_new_life() {
    let options = fresh();
    runtime().block_on(async {
        let from = server().new_database().unwrap();
        let store = PostgresStore::open(&from, &options).await.unwrap();
        let worker = register(&store).await;
        submit(&store, 5).await;
        let held = claim(&store, worker, 2).await;
        let seen = store.head().await.unwrap();
        let copy = server().dump(name(&from)).unwrap();
        submit(&store, 5).await;
        let late = store.head().await.unwrap();

        let to = restore(&copy);
        let restored = PostgresStore::open(&to, &options).await.unwrap();
        // By numbers alone nobody could tell any more.
        submit(&restored, 20).await;
        for before in [seen, late] {
            let page = restored.events_after(before, 10).await.unwrap();
            assert!(page.gap && page.next.epoch != before.epoch, "{before:?}");
        }
        assert!(!restored.events_after(Cursor::OLDEST, 10).await.unwrap().gap);
        let stats = restored.stats().await.unwrap();
        assert_eq!((stats.total(StateName::Pending), stats.total(StateName::Running)), (25, 0));
        let stale = restored.execute(held.iter().map(completion).collect()).await.unwrap();
        assert_eq!(stale, [Err(Refusal::LeaseLost), Err(Refusal::LeaseLost)]);
        let again = claim(&restored, worker, 5).await;
        for held in &held {
            let again = again.iter().find(|again| again.task.id == held.task.id).unwrap();
            assert!(again.task.fence > held.task.fence);
            assert_eq!(again.task.counts.attempts, 0);
        }
        assert_eq!(restored.check().await.unwrap(), []);

        // It is at home now.
        let life = restored.head().await.unwrap();
        drop(restored);
        let restored = PostgresStore::open(&to, &options).await.unwrap();
        assert!(!restored.events_after(life, 10).await.unwrap().gap);
        let settled = restored.execute(again.iter().map(completion).collect()).await.unwrap();
        assert!(settled.iter().all(Result::is_ok), "{settled:?}");
        // Where the copy was taken nothing has changed.
        drop(store);
        let store = PostgresStore::open(&from, &options).await.unwrap();
        assert!(!store.events_after(late, 10).await.unwrap().gap);
        assert!(store.execute(vec![completion(&held[0])]).await.unwrap()[0].is_ok());
    });
}

/// A store with a task that is held is changed by hand; then another server starts on it. Says
/// whether it began a new life, and what became of the lease.
async fn changed(options: &Options, sql: &str) -> (bool, bool) {
    let store = open(options).await;
    let worker = register(&store).await;
    submit(&store, 1).await;
    let held = claim(&store, worker, 1).await.remove(0);
    let seen = store.head().await.unwrap();
    drop(store);
    stranger(options).await.batch_execute(sql).await.unwrap();
    let store = open(options).await;
    let gap = store.events_after(seen, 10).await.unwrap().gap;
    let settled = store.execute(vec![completion(&held)]).await.unwrap().remove(0);
    assert_eq!(store.check().await.unwrap(), []);
    (gap, settled.is_ok())
}

#[test]
fn a_failover_voids_no_lease() {
    runtime().block_on(async {
        let promoted = "UPDATE meta SET value = value + 1 WHERE name = 'timeline'";
        assert_eq!(changed(&fresh(), promoted).await, (true, true));
    });
}

/// What makes the tables of a store those of version 4.
const OLDER: &str = "UPDATE meta SET value = 4 WHERE name = 'version';
                     DELETE FROM meta WHERE name = 'home'; DROP FUNCTION home()";

#[test]
fn a_copy_of_version_4_begins_a_new_life_too() {
    let options = fresh();
    runtime().block_on(async {
        let from = server().new_database().unwrap();
        let store = PostgresStore::open(&from, &options).await.unwrap();
        let worker = register(&store).await;
        submit(&store, 1).await;
        let held = claim(&store, worker, 1).await.remove(0);
        let seen = store.head().await.unwrap();
        drop(store);
        let older = format!("SET search_path TO \"{}\"; {OLDER}", options.schema);
        server().sql(name(&from), &older).unwrap();
        let to = restore(&server().dump(name(&from)).unwrap());
        let restored = PostgresStore::open(&to, &options).await.unwrap();
        assert!(restored.events_after(seen, 10).await.unwrap().gap);
        let stale = restored.execute(vec![completion(&held)]).await.unwrap();
        assert_eq!(stale, [Err(Refusal::LeaseLost)]);
        assert_eq!(restored.check().await.unwrap(), []);
    });
}

#[test]
fn roles_that_may_see_less_find_the_same_home() {
    let options = fresh();
    let database = server().new_database().unwrap();
    runtime().block_on(async {
        PostgresStore::open(&database, &options).await.unwrap();
        let role = format!("\"less {}\"", options.schema);
        let schema = format!("\"{}\"", options.schema);
        let at_home = format!(
            "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC;
             CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role};
             GRANT SELECT ON {schema}.meta TO {role}; SET ROLE {role};
             SELECT value = {schema}.home() FROM {schema}.meta WHERE name = 'home'"
        );
        assert_eq!(server().sql(name(&database), &at_home).unwrap(), "t");
    });
}

#[test]
fn an_operator_can_say_that_it_is_a_copy() {
    runtime().block_on(async {
        let said = "UPDATE meta SET value = 0 WHERE name = 'home'";
        assert_eq!(changed(&fresh(), said).await, (true, false));
    });
}

#[test]
fn tables_of_version_4_come_forward_without_a_new_life() {
    runtime().block_on(async {
        assert_eq!(changed(&fresh(), OLDER).await, (false, true));
    });
}
