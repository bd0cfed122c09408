//! What is remembered may be wrong; nothing may come of it.

use super::*;

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
