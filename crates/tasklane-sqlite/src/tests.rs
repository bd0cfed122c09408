//! What only this store promises, seen from inside: hints, faults, limits, keys.

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

#[test]
fn wrong_hints_strand_no_task_for_longer_than_a_second() {
    let (clock, options) = manual();
    let store = SqliteStore::in_memory(&options).unwrap();
    submit(&store, 10).unwrap();
    assert_eq!(claim(&store, 1).len(), 1);
    block_on(store.write(Class::Ordinary, 1, |session| {
        session.forget_lines();
        Ok(())
    }))
    .unwrap();
    clock.advance(Duration::from_secs(1));
    assert_eq!(claim(&store, 9).len(), 9);
}

#[test]
fn wrong_hints_never_remove_what_nobody_took() {
    let (clock, options) = manual();
    let store = SqliteStore::in_memory(&options).unwrap();
    submit(&store, 10).unwrap();
    clock.advance(Duration::from_millis(1));
    block_on(store.write(Class::Ordinary, 1, |session| {
        session.index_arrivals()?;
        session.forget_lines();
        Ok(())
    }))
    .unwrap();
    submit(&store, 1).unwrap();
    block_on(store.write(Class::Ordinary, 1, |session| session.index_arrivals())).unwrap();
    let spec = WorkerSpec::new(Selection::default(), 100).unwrap();
    let worker = block_on(store.register(spec)).unwrap();
    let request = || vec![ClaimRequest { worker, count: 1, auto_start: true, narrowed: None }];
    // Found out, and put right for the next one.
    assert!(matches!(block_on(store.claim(request())), Err(StoreError::Unavailable(_))));
    assert_eq!(claim(&store, 11).len(), 11);
    assert_eq!(block_on(store.check()).unwrap(), []);
}

#[test]
fn a_writer_that_dies_leaves_nobody_waiting() {
    let (_, options) = manual();
    let store = SqliteStore::in_memory(&options).unwrap();
    let died: Result<(), _> = block_on(store.write(Class::Ordinary, 1, |_| panic!("on purpose")));
    assert!(matches!(died, Err(StoreError::OutcomeUnknown(_))), "{died:?}");
    assert_eq!(submit(&store, 1), Err(StoreError::Closed));
    assert!(store.status().trouble.is_some());
}

#[test]
fn settings_that_could_not_be_read_back_are_refused() {
    let (_, options) = manual();
    let store = SqliteStore::in_memory(&options).unwrap();
    let depth = tasklane_core::DepthLimits { normal: 10, high: 5, all: 1 };
    let settings = tasklane_core::QueueSettings { depth, ..Default::default() };
    let queue = tasklane_core::QueueName::default_queue();
    assert!(matches!(block_on(store.configure(queue, settings)), Err(StoreError::Invalid(_))));
    let spec = WorkerSpec { capacity: 0, ..WorkerSpec::new(Selection::default(), 1).unwrap() };
    assert!(matches!(block_on(store.register(spec)), Err(StoreError::Invalid(_))));
    let rules = tasklane_core::lifecycle::Rules { timeout_growth: f64::NAN, ..options.rules };
    let refused = SqliteStore::in_memory(&Options { rules, ..options });
    assert!(matches!(refused, Err(StoreError::Invalid(_))));
}

#[test]
fn a_transaction_that_fails_leaves_nothing_behind_and_the_next_one_works() {
    let (_, options) = manual();
    let store = SqliteStore::in_memory(&options).unwrap();
    submit(&store, 3).unwrap();
    let failed = block_on(store.write(Class::Ordinary, 1, |session| {
        session.submit(vec![Submission { tasks: vec![draft(None)] }])?;
        Err::<(), _>(Fault::Refused(StoreError::Unavailable("on purpose".into())))
    }));
    assert_eq!(failed, Err(StoreError::Unavailable("on purpose".into())));
    assert!(store.status().trouble.is_some());
    assert_eq!(claim(&store, 10).len(), 3);
    assert_eq!(store.status().trouble, None);
    assert_eq!(block_on(store.check()).unwrap(), []);
}

#[test]
fn a_full_disk_refuses_writes_and_takes_them_again_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let (_, options) = manual();
    let store = SqliteStore::open(folder.path(), &options).unwrap();
    let kept = submit(&store, 1_000).unwrap();
    let set_room = |pages: i64| {
        let call = move |session: &mut crate::session::Session<'_>| {
            let used: i64 =
                session.connection().pragma_query_value(None, "page_count", |row| row.get(0))?;
            session.connection().pragma_update(None, "max_page_count", used + pages)?;
            Ok(())
        };
        block_on(store.write(Class::Ordinary, 1, call)).unwrap();
    };
    set_room(2);
    let refused = (0..).find_map(|_| submit(&store, 1_000).err()).unwrap();
    assert!(matches!(refused, StoreError::Full(_)), "{refused}");
    assert!(store.status().trouble.is_some());
    set_room(100_000);
    submit(&store, 1_000).unwrap();
    assert_eq!(store.status().trouble, None);
    let ids = kept.iter().map(|task| task.id).collect();
    assert!(block_on(store.get(ids)).unwrap().iter().all(Option::is_some));
    assert_eq!(block_on(store.check()).unwrap(), []);
}

#[test]
fn a_store_that_found_itself_damaged_writes_no_more() {
    let (_, options) = manual();
    let store = SqliteStore::in_memory(&options).unwrap();
    let damaged = block_on(
        store.write(Class::Ordinary, 1, |_| Err::<(), _>(Fault::Corrupt("page 7".into()))),
    );
    assert_eq!(damaged, Err(StoreError::Corrupt("page 7".into())));
    assert_eq!(submit(&store, 1), Err(StoreError::Corrupt("page 7".into())));
    assert!(store.status().trouble.unwrap().contains("page 7"));
}

#[test]
fn check_names_what_was_damaged_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let (_, options) = manual();
    let store = SqliteStore::open(folder.path(), &options).unwrap();
    let tasks = submit(&store, 3).unwrap();
    block_on(store.execute(vec![complete(&claim(&store, 1)[0])])).unwrap();
    assert_eq!(block_on(store.check()).unwrap(), []);
    block_on(store.write(Class::Ordinary, 1, |session| {
        session.index_arrivals()?;
        session.connection().execute_batch(
            "DELETE FROM pending WHERE task = (SELECT max(task) FROM pending);
             UPDATE tally SET counts = CAST(x'01' || zeroblob(40) AS BLOB);
             INSERT INTO timer VALUES (1, 42, 0);",
        )?;
        Ok(())
    }))
    .unwrap();
    let findings = block_on(store.check()).unwrap();
    let text = format!("{findings:?}");
    assert_eq!(findings.len(), 6, "{text}");
    assert!(
        text.contains(&tasks[2].id.to_string()) && text.contains("missing from pending"),
        "{text}"
    );
    assert!(text.contains("tally") && text.contains("timer"), "{text}");
}

#[test]
fn ids_that_share_a_row_key_are_different_tasks() {
    let (clock, options) = manual();
    let store = SqliteStore::in_memory(&options).unwrap();
    let millis = clock.wall().as_millis() as u128;
    let id = |low: u128| {
        TaskId::from_bytes(((millis << 80) | (7 << 76) | (2 << 62) | low).to_be_bytes()).unwrap()
    };
    assert_eq!(id(1).row_key(), id(2).row_key());
    let tasks = vec![draft(Some(id(1))), draft(Some(id(2))), draft(Some(id(3)))];
    let submission = Submission { tasks };
    let first = block_on(store.submit(vec![submission.clone()])).unwrap().pop().unwrap().unwrap();
    assert!(first.iter().all(|task| !task.replayed));
    let again = block_on(store.submit(vec![submission])).unwrap().pop().unwrap().unwrap();
    assert!(again.iter().all(|task| task.replayed), "{again:?}");
    let claimed = claim(&store, 10);
    let ids: Vec<_> = claimed.iter().map(|claimed| claimed.task.id).collect();
    assert_eq!(ids, [id(1), id(2), id(3)]);
    let verdicts = block_on(store.execute(claimed.iter().map(complete).collect())).unwrap();
    assert!(verdicts.iter().all(Result::is_ok));
    let discard = |id| Command { task: id, intent: Intent::Discard };
    block_on(store.execute(vec![discard(id(1))])).unwrap();
    let left = block_on(store.get(vec![id(1), id(2), id(3)])).unwrap();
    assert_eq!(left.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(block_on(store.check()).unwrap(), []);
}

#[test]
fn a_second_process_is_told_that_the_store_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let (_, options) = manual();
    let first = SqliteStore::open(folder.path(), &options).unwrap();
    let Err(StoreError::Locked(text)) = SqliteStore::open(folder.path(), &options) else {
        panic!("opened twice");
    };
    assert!(text.contains("is in use"), "{text}");
    drop(first);
    SqliteStore::open(folder.path(), &options).unwrap();
}

#[test]
fn a_read_that_takes_too_long_is_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let read_time_max = Duration::from_millis(50);
    let options = Options { read_time_max, ..Options::default() };
    let store = SqliteStore::open(folder.path(), &options).unwrap();
    let endless =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
    let read = block_on(
        store
            .read(|view| Ok(view.connection.query_row(endless, [], |row| row.get::<_, i64>(0))?)),
    );
    assert_eq!(read, Err(StoreError::TooSlow(50)));
    assert_eq!(block_on(store.get(vec![])), Ok(vec![]));
}

#[test]
fn the_log_stays_short_under_load() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { durability: Durability::None, ..Options::default() };
    let store = SqliteStore::open(folder.path(), &options).unwrap();
    let mut longest = 0;
    let large = Draft { payload: Bytes::from(vec![b'x'; 1_000]), ..draft(None) };
    for _ in 0..150 {
        let submission = Submission { tasks: vec![large.clone(); 1_000] };
        block_on(store.submit(vec![submission])).unwrap().pop().unwrap().unwrap();
        longest = longest.max(log_bytes(folder.path()));
    }
    let written = std::fs::metadata(folder.path().join("tasklane.db")).unwrap().len();
    assert!(written > 128 << 20, "too little was written to tell: {written}");
    // The writer steps in at 32 MiB; the helper may be at work just then.
    assert!(longest < 96 << 20, "the log grew to {longest} bytes");
}

#[test]
fn a_backup_is_of_one_moment_and_its_restore_voids_leases() {
    let folder = tempfile::tempdir().unwrap();
    let (_, options) = manual();
    let store = SqliteStore::open(folder.path().join("live"), &options).unwrap();
    submit(&store, 5).unwrap();
    let held = claim(&store, 2);
    let head = block_on(store.head()).unwrap();
    let copy = folder.path().join("copy.db");
    block_on(store.backup(&copy)).unwrap();
    submit(&store, 5).unwrap();
    assert!(block_on(store.backup(&copy)).is_err(), "a backup was overwritten");

    let restored = folder.path().join("restored");
    block_on(crate::restore(&copy, &restored, &options)).unwrap();
    assert!(block_on(crate::restore(&copy, &restored, &options)).is_err());
    let restored = SqliteStore::open(&restored, &options).unwrap();
    let stats = block_on(restored.stats()).unwrap();
    assert_eq!((stats.total(StateName::Pending), stats.total(StateName::Running)), (5, 0));
    let stale = block_on(restored.execute(vec![complete(&held[0])])).unwrap();
    assert_eq!(stale, [Err(tasklane_core::Refusal::LeaseLost)]);
    assert!(block_on(restored.events_after(head, 10)).unwrap().gap);
    assert!(!block_on(restored.events_after(Cursor::OLDEST, 10)).unwrap().gap);
    assert!(claim(&restored, 9).iter().all(|again| {
        held.iter().all(|held| held.task.id != again.task.id || again.task.fence > held.task.fence)
    }));
    assert_eq!(block_on(restored.check()).unwrap(), []);
}

#[test]
fn an_interval_store_says_so_and_keeps_what_it_took() {
    let folder = tempfile::tempdir().unwrap();
    let durability = Durability::Interval(Duration::from_millis(5));
    let options = Options { durability, ..Options::default() };
    let store = SqliteStore::open(folder.path(), &options).unwrap();
    assert_eq!(store.status().durability, tasklane_store::Durability::Interval);
    submit(&store, 7).unwrap();
    drop(store);
    let store = SqliteStore::open(folder.path(), &options).unwrap();
    assert_eq!(block_on(store.stats()).unwrap().total(StateName::Pending), 7);
}

/// Longer than what is kept in memory, with tasks that come back to old places meanwhile.
#[test]
fn a_long_line_is_served_by_place_whatever_is_kept_in_memory() {
    let (clock, options) = manual();
    let store = SqliteStore::in_memory(&options).unwrap();
    for _ in 0..6 {
        submit(&store, 1_000).unwrap();
        clock.advance(Duration::from_millis(7));
    }
    let (mut served, mut round) = (Vec::new(), 0);
    loop {
        let claimed = claim(&store, 137);
        if claimed.is_empty() {
            break;
        }
        assert!(claimed.is_sorted_by_key(|claimed| claimed.task.place));
        round += 1;
        // Every third one of each second batch goes back, to be first again for the next worker.
        let (back, done): (Vec<_>, Vec<_>) =
            claimed.iter().enumerate().partition(|(n, _)| round % 2 == 0 && n % 3 == 0);
        let release = |claimed: &Claimed| {
            let Intent::Settle(token, _) = complete(claimed).intent else { unreachable!() };
            let intent = Intent::Settle(token, Outcome::Released { delay: None });
            Command { task: claimed.task.id, intent }
        };
        let commands = back.iter().map(|(_, claimed)| release(claimed));
        let commands = commands.chain(done.iter().map(|(_, claimed)| complete(claimed)));
        assert!(block_on(store.execute(commands.collect())).unwrap().iter().all(Result::is_ok));
        served.extend(done.iter().map(|(_, claimed)| claimed.task.id));
    }
    assert_eq!(served.len(), 6_000);
    served.sort_unstable();
    served.dedup();
    assert_eq!(served.len(), 6_000);
    assert_eq!(block_on(store.check()).unwrap(), []);
}

#[test]
fn a_transaction_that_fails_does_not_lengthen_leases() {
    let (clock, options) = manual();
    let store = SqliteStore::in_memory(&options).unwrap();
    submit(&store, 1).unwrap();
    claim(&store, 1);
    clock.advance(Duration::from_secs(20));
    block_on(store.write(Class::Ordinary, 1, |_| {
        Err::<(), _>(Fault::Refused(StoreError::Unavailable("on purpose".into())))
    }))
    .unwrap_err();
    clock.advance(Duration::from_secs(10));
    let overdue = block_on(store.overdue(10)).unwrap();
    assert!(matches!(overdue.commands[..], [Command { intent: Intent::LoseLease(_), .. }]));
}

#[test]
fn a_store_that_could_have_lost_events_begins_a_new_life() {
    let folder = tempfile::tempdir().unwrap();
    let open = |durability| {
        let options = Options { durability, ..Options::default() };
        SqliteStore::open(folder.path(), &options).unwrap()
    };
    let store = open(Durability::None);
    submit(&store, 1).unwrap();
    let cursor = block_on(store.head()).unwrap();
    drop(store);
    let store = open(Durability::None);
    assert!(!block_on(store.events_after(cursor, 10)).unwrap().gap, "a clean close loses nothing");
    drop(store);
    // As if the process had died: the note that it was open stays.
    let connection = rusqlite::Connection::open(folder.path().join("tasklane.db")).unwrap();
    connection.execute("UPDATE meta SET value = 1 WHERE name = 'open'", []).unwrap();
    drop(connection);
    let store = open(Durability::None);
    assert!(block_on(store.events_after(cursor, 10)).unwrap().gap);
}

#[test]
fn a_cursor_past_the_end_gets_a_gap() {
    let (_, options) = manual();
    let store = SqliteStore::in_memory(&options).unwrap();
    submit(&store, 2).unwrap();
    let head = block_on(store.head()).unwrap();
    let ahead = Cursor { position: tasklane_store::Position(head.position.0 + 5), ..head };
    let page = block_on(store.events_after(ahead, 10)).unwrap();
    assert_eq!((page.gap, page.events.len()), (true, 2));
    assert!(!block_on(store.events_after(head, 10)).unwrap().gap);
    assert!("00000000000000010fffffffffffffff".parse::<Cursor>().is_ok());
    assert!("0000000000000001ffffffffffffffff".parse::<Cursor>().is_err());
}

#[test]
fn tasks_that_were_not_yet_in_the_index_are_found_when_the_store_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let (clock, options) = manual();
    let open = || SqliteStore::open(folder.path(), &options).unwrap();
    let indexed = |store: &SqliteStore| {
        block_on(store.write(Class::Ordinary, 1, |session| {
            let sql = "SELECT count(*) FROM pending";
            Ok(session.connection().query_row(sql, [], |row| row.get::<_, usize>(0))?)
        }))
        .unwrap()
    };
    let store = open();
    let submitted = submit(&store, 100).unwrap();
    assert_eq!(claim(&store, 30).len(), 30);
    block_on(store.execute(vec![Command { task: submitted[50].id, intent: Intent::Cancel }]))
        .unwrap();
    assert_eq!(indexed(&store), 0);
    drop(store);
    let store = open();
    assert_eq!(block_on(store.check()).unwrap(), []);
    clock.advance(Duration::from_secs(1));
    let ids: Vec<_> = claim(&store, 100).iter().map(|claimed| claimed.task.id).collect();
    let expected: Vec<_> = submitted.iter().map(|task| task.id).skip(30).collect();
    assert_eq!(ids, [&expected[..20], &expected[21..]].concat());
    // Enough of them are written, in order, and served the same.
    submit(&store, 5_000).unwrap();
    assert_eq!(indexed(&store), 5_000);
    assert_eq!(block_on(store.check()).unwrap(), []);
}
