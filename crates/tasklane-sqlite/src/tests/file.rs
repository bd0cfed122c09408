//! Files: the log, locks, backups, lives of a store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::*;

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

/// The writer steps in at 32 MiB.
const LOG_MAX: u64 = 64 << 20;
/// A reader that was slower kept the log itself.
const HELD_MAX: Duration = Duration::from_millis(100);

/// Writes 150 MB, and says how long the log was at most.
fn longest_log(folder: &Path) -> u64 {
    let options = Options { durability: Durability::None, ..Options::default() };
    let store = SqliteStore::open(folder, &options).unwrap();
    let mut longest = 0;
    let large = Draft { payload: Bytes::from(vec![b'x'; 1_000]), ..draft(None) };
    for _ in 0..150 {
        let submission = Submission { tasks: vec![large.clone(); 1_000] };
        block_on(store.submit(vec![submission])).unwrap().pop().unwrap().unwrap();
        longest = longest.max(log_bytes(folder));
    }
    let written = std::fs::metadata(folder.join("tasklane.db")).unwrap().len();
    assert!(written > 96 << 20, "too little was written to tell: {written}");
    longest
}

#[test]
fn the_log_stays_short_under_load() {
    let folder = tempfile::tempdir().unwrap();
    let longest = longest_log(folder.path());
    assert!(longest < LOG_MAX, "the log grew to {longest} bytes");
}

/// Reads again and again until it is over; says for how long it held the log at most.
fn read_until(over: &AtomicBool, folder: &Path) -> Duration {
    let connection = rusqlite::Connection::open(folder.join("tasklane.db")).unwrap();
    let mut longest = Duration::ZERO;
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        let read = connection.unchecked_transaction().unwrap();
        read.query_row("SELECT count(*) FROM meta", [], |_| Ok(())).unwrap();
        std::thread::sleep(Duration::from_millis(4));
        drop(read);
        longest = longest.max(began.elapsed());
    }
    longest
}

/// How long the log was at most beside readers that follow one another, and for how long one of
/// them held it at most.
fn longest_log_beside_readers() -> (u64, Duration) {
    let home = tempfile::tempdir().unwrap();
    let (folder, over) = (home.path(), AtomicBool::new(false));
    drop(SqliteStore::open(folder, &Options::default()).unwrap());
    std::thread::scope(|scope| {
        let readers = [(); 3].map(|()| scope.spawn(|| read_until(&over, folder)));
        let longest = std::panic::catch_unwind(|| longest_log(folder));
        over.store(true, Ordering::Relaxed);
        let held = readers.into_iter().map(|reader| reader.join().unwrap()).max();
        (longest.unwrap(), held.unwrap())
    })
}

#[test]
fn readers_that_follow_one_another_do_not_keep_the_log() {
    let (mut longest, mut held) = longest_log_beside_readers();
    for _ in 0..3 {
        if longest < LOG_MAX || held <= HELD_MAX {
            break;
        }
        (longest, held) = longest_log_beside_readers();
    }
    assert!(longest < LOG_MAX, "the log grew to {longest} bytes beside readers of {held:?}");
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
