//! Rows of tasks that came together are removed together, and none besides.

use bytes::Bytes;
use tasklane_core::{
    Command, Intent, NewTask, Outcome, Policies, Refusal, Selection, TaskId, TaskType, WorkerSpec,
};
use tasklane_sqlite::{Options, SqliteStore};
use tasklane_store::conformance::block_on;
use tasklane_store::{ClaimRequest, Claimed, Prune, Store, Submission};

fn store_with(count: usize) -> (SqliteStore, Vec<TaskId>) {
    let store = SqliteStore::in_memory(&Options::default()).unwrap();
    let draft = || {
        let task = NewTask::new(TaskType::new("a").unwrap(), "{}");
        task.resolve(&Policies::default()).unwrap()
    };
    let tasks = (0..count).map(|_| draft()).collect();
    let taken = block_on(store.submit(vec![Submission { tasks }])).unwrap().pop().unwrap();
    let ids = taken.unwrap().iter().map(|task| task.id).collect();
    (store, ids)
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

#[test]
fn what_ends_among_others_takes_none_of_them_along() {
    let (store, ids) = store_with(60);
    let keys: Vec<_> = ids.iter().map(TaskId::row_key).collect();
    assert!(keys.is_sorted_by(|one, next| one + 1 == *next), "there is nothing between them");
    let claimed = claim(&store, 50);
    let ends = |n: usize| n < 50 && n != 3 && n != 20 && n != 21;
    let ended = claimed.iter().enumerate().filter(|(n, _)| ends(*n)).map(|(_, c)| complete(c));
    let verdicts = block_on(store.execute(ended.collect())).unwrap();
    assert!(verdicts.iter().all(Result::is_ok));
    assert_eq!(block_on(store.check()).unwrap(), []);
    let mut removed = Vec::new();
    loop {
        let slice = block_on(store.prune(Prune { limit: 20, ..Prune::emergency() })).unwrap();
        removed.push(slice.tasks_total());
        if !slice.more {
            break;
        }
    }
    assert_eq!(removed.iter().sum::<u64>(), 47);
    assert!(removed.iter().all(|tasks| *tasks <= 20), "{removed:?}");
    let left = block_on(store.get(ids)).unwrap();
    for (n, stored) in left.iter().enumerate() {
        assert_eq!(stored.is_none(), ends(n), "{n}");
    }
    assert_eq!(block_on(store.check()).unwrap(), []);
}

#[test]
fn what_ended_earlier_in_a_call_is_seen_as_ended_later_in_it() {
    let (store, _) = store_with(3);
    let claimed = claim(&store, 3);
    let cancel = Command { task: claimed[1].task.id, intent: Intent::Cancel };
    let [first, second] = [complete(&claimed[0]), complete(&claimed[1])];
    let verdicts = block_on(store.execute(vec![first.clone(), second, first, cancel])).unwrap();
    let repeated = |n: usize| verdicts[n].as_ref().map(|changed| changed.repeated);
    assert_eq!((repeated(0), repeated(1), repeated(2)), (Ok(false), Ok(false), Ok(true)));
    let refused = verdicts[3].as_ref().unwrap_err();
    assert!(matches!(refused, Refusal::InvalidState { .. }), "{refused:?}");
    assert_eq!(block_on(store.check()).unwrap(), []);
}
