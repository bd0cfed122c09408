//! Transactions, disks and threads that fail.

use super::*;

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
fn after_a_sync_that_failed_nothing_is_promised_and_nothing_more_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (_, options) = manual();
    let store = SqliteStore::open(folder.path(), &options).unwrap();
    let kept = submit(&store, 10).unwrap();
    store.make_syncs_fail(true);
    // Many at once, so that groups are handed to the helper and to the writer alike.
    let calls: Vec<_> =
        (0..50).map(|_| store.submit(vec![Submission { tasks: vec![draft(None); 100] }])).collect();
    let answers: Vec<_> = calls.into_iter().map(block_on).collect();
    assert!(answers.iter().all(Result::is_err), "nothing was promised");
    assert!(matches!(answers[0], Err(StoreError::OutcomeUnknown(_))), "{:?}", answers[0]);
    // A sync that works again proves nothing about what was lost before.
    store.make_syncs_fail(false);
    let refused = submit(&store, 1).unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    assert!(store.status().trouble.unwrap().contains("not synced"));
    let ids: Vec<_> = kept.iter().map(|task| task.id).collect();
    assert!(block_on(store.get(ids.clone())).unwrap().iter().all(Option::is_some), "reads go on");
    let page = block_on(store.events_after(tasklane_store::Cursor::OLDEST, 10_000)).unwrap();
    assert_eq!(page.events.len(), 10, "what may be lost is not told");
    drop(store);
    let store = SqliteStore::open(folder.path(), &options).unwrap();
    assert!(block_on(store.get(ids)).unwrap().iter().all(Option::is_some), "nothing is lost");
    assert_eq!(block_on(store.check()).unwrap(), []);
    submit(&store, 1).unwrap();
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
        session.connection().execute_batch(&format!(
            "DELETE FROM pending WHERE task = (SELECT max(task) FROM pending);
             UPDATE tally SET counts = CAST(x'{:02x}' || zeroblob(40) AS BLOB);
             INSERT INTO timer VALUES (1, 42, 0);",
            tasklane_store::codec::VERSION,
        ))?;
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
fn check_finds_an_id_that_does_not_lead_to_its_task() {
    let (_, options) = manual();
    let store = SqliteStore::in_memory(&options).unwrap();
    submit(&store, 3).unwrap();
    block_on(store.write(Class::Ordinary, 1, |session| {
        let other = TaskId::generate(1, 2, &mut tasklane_core::SeededRandom::new(3));
        let sql = "UPDATE task SET id = ? WHERE task = (SELECT min(task) FROM task)";
        session.connection().execute(sql, [other.as_bytes()])?;
        Ok(())
    }))
    .unwrap();
    let found = block_on(store.check()).unwrap();
    assert!(found.iter().any(|finding| finding.problem.contains("its id")), "{found:?}");
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
fn a_changed_record_of_the_audit_log_is_found() {
    let (_, options) = manual();
    let store = SqliteStore::in_memory(&options).unwrap();
    let entry =
        |action| tasklane_core::AuditEntry::new(&tasklane_core::Who::Anyone, action, "done");
    let entries = vec![entry("a"), entry("b"), entry("c")];
    block_on(store.append_audit(entries)).unwrap();
    assert_eq!(block_on(store.check()).unwrap(), []);
    let change = |session: &mut crate::session::Session<'_>| {
        session.connection().execute("DELETE FROM audit WHERE number = 2", [])?;
        Ok(())
    };
    block_on(store.write(Class::Ordinary, 1, change)).unwrap();
    let found = block_on(store.check()).unwrap();
    assert_eq!((found.len(), &*found[0].place), (1, "audit"), "{found:?}");
}

#[test]
fn what_ends_tasks_goes_on_with_the_room_that_is_kept_and_submissions_wait_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { spare_bytes: 1 << 20, ..Options::default() };
    let store = SqliteStore::open(folder.path(), &options).unwrap();
    let spare = || std::fs::metadata(folder.path().join("spare")).unwrap().len();
    assert_eq!(spare(), 1 << 20);
    let mut runs = 0;
    let settled = block_on(store.write_again(Class::Settle, 1, move |_| {
        runs += 1;
        if runs == 1 {
            return Err(Fault::Refused(StoreError::Full("on purpose".into())));
        }
        Ok(runs)
    }));
    assert_eq!((settled, spare()), (Ok(2), 0), "it ran again, with the room that was kept");
    assert!(store.status().trouble.is_some());
    submit(&store, 1).unwrap();
    assert_eq!((spare(), store.status().trouble), (1 << 20, None), "there is room again");
}

#[test]
#[cfg(target_os = "linux")]
fn an_open_that_failed_has_let_go_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tasklane.db"), "no database ".repeat(1_000)).unwrap();
    for _ in 0..20 {
        assert!(SqliteStore::open(folder.path(), &Options::default()).is_err());
        let handles = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let held: Vec<_> = handles
            .filter_map(|handle| std::fs::read_link(handle.path()).ok())
            .filter(|path| path.starts_with(folder.path()))
            .collect();
        assert!(held.is_empty(), "{held:?}");
    }
}
