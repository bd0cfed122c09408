//! What a server remembers between calls, and what it must not believe of it.

use std::time::{Duration, Instant};

use tasklane_core::{
    Command, ErrorKind, Failure, Intent, Names, NewTask, Outcome, Pattern, Policies, QueueName,
    QueueSettings, Selection, StateName, TaskType, WorkerSpec,
};
use tasklane_store::{Claimed, Leases, Renewal, Store, Submission, SubmitProblem};

use crate::fixture::runtime;
use crate::servers::{claim, completion, draft, fresh, open, register, stranger, submit};

#[test]
fn a_task_that_another_server_has_settled_is_not_settled_by_memory() {
    let options = fresh();
    runtime().block_on(async {
        let (one, other) = (open(&options).await, open(&options).await);
        let worker = register(&one).await;
        submit(&one, 3).await;
        let claimed = claim(&one, worker, 3).await;
        let settled = other.execute(vec![completion(&claimed[0])]).await.unwrap();
        assert_eq!(settled[0].as_ref().unwrap().state, StateName::Completed);
        let token = claimed[1].task.state.lease().unwrap().token;
        let failed = Intent::Settle(token, Outcome::Cancelled);
        other.execute(vec![Command { task: claimed[1].task.id, intent: failed }]).await.unwrap()[0]
            .as_ref()
            .unwrap();
        // The first server remembers all three as held.
        let settles = claimed.iter().map(completion).collect();
        let settled = one.execute(settles).await.unwrap();
        assert!(settled[0].as_ref().unwrap().repeated, "the same again");
        assert!(settled[1].is_err(), "it ended otherwise: {:?}", settled[1]);
        assert!(!settled[2].as_ref().unwrap().repeated, "and this one was still held");
        assert_eq!(one.check().await.unwrap(), []);
    });
}

#[test]
fn a_cancellation_that_another_server_took_is_not_forgotten_by_memory() {
    let options = fresh();
    runtime().block_on(async {
        let (one, other) = (open(&options).await, open(&options).await);
        let worker = register(&one).await;
        submit(&one, 1).await;
        let claimed = claim(&one, worker, 1).await;
        let id = claimed[0].task.id;
        other.execute(vec![Command { task: id, intent: Intent::Cancel }]).await.unwrap()[0]
            .as_ref()
            .unwrap();
        one.execute(vec![completion(&claimed[0])]).await.unwrap()[0].as_ref().unwrap();
        let trail = other.trail(id).await.unwrap().unwrap();
        let numbers: Vec<_> = trail.entries.iter().map(|entry| entry.stamp.sequence).collect();
        assert!(numbers.is_sorted() && numbers.len() >= 4, "{:?}", trail.entries);
        assert_eq!(one.check().await.unwrap(), []);
    });
}

#[test]
fn a_task_below_the_floor_is_found_all_the_same() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let worker = register(&store).await;
        submit(&store, 3).await;
        let claimed = claim(&store, worker, 3).await;
        store.execute(claimed.iter().map(completion).collect()).await.unwrap();
        // As if a transaction had taken a minute, and nobody had said so.
        let late = submit(&store, 1).await[0];
        let client = stranger(&options).await;
        let back = format!("UPDATE pend SET ready_at = ready_at - 60000000 WHERE id = '{late}'");
        client.batch_execute(&back).await.unwrap();
        let begun = Instant::now();
        loop {
            let claimed = claim(&store, worker, 1).await;
            if let [claimed] = &claimed[..] {
                assert_eq!(claimed.task.id, late);
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "it is never found");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
}

#[test]
fn a_task_that_comes_back_is_before_those_that_came_later() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let worker = register(&store).await;
        let first = submit(&store, 1).await[0];
        let held = claim(&store, worker, 1).await;
        submit(&store, 2).await;
        let later = claim(&store, worker, 2).await;
        store.execute(later.iter().map(completion).collect()).await.unwrap();
        submit(&store, 2).await;
        let client = stranger(&options).await;
        // It was claimed long ago.
        client.batch_execute("UPDATE lease SET ends_at = ends_at - 600000000").await.unwrap();
        let overdue = store.overdue(10).await.unwrap();
        assert_eq!(overdue.commands.len(), 1);
        store.execute(overdue.commands).await.unwrap()[0].as_ref().unwrap();
        let again = claim(&store, worker, 3).await;
        let ids: Vec<_> = again.iter().map(|claimed| claimed.task.id).collect();
        assert_eq!((ids.len(), ids[0]), (3, first));
        assert_ne!(again[0].task.fence, held[0].task.fence);
    });
}

#[test]
fn room_that_was_seen_is_not_given_away_twice() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let queue = QueueName::default_queue();
        let depth = tasklane_core::DepthLimits::flat(100);
        let settings = QueueSettings { depth, ..QueueSettings::default() };
        store.configure(queue, settings).await.unwrap();
        let mut admitted = 0;
        // By and by, and then all at once.
        for count in [1, 7, 20, 60, 9, 2, 1, 1] {
            let tasks = (0..count).map(|_| draft(None)).collect();
            match store.submit(vec![Submission { tasks }]).await.unwrap().remove(0) {
                Ok(tasks) => admitted += tasks.len(),
                Err(refusal) => assert!(matches!(refusal.problem, SubmitProblem::QueueFull { .. })),
            }
        }
        assert_eq!(admitted, 100, "as many as there is room for, and no more");
    });
}

#[test]
fn a_number_that_is_given_again_does_not_settle_another_lease() {
    let options = fresh();
    runtime().block_on(async {
        let (one, other) = (open(&options).await, open(&options).await);
        let worker = register(&one).await;
        submit(&one, 1).await;
        let claimed = claim(&one, worker, 1).await;
        let client = stranger(&options).await;
        let version = client.query_one("SELECT version FROM lease", &[]).await.unwrap();
        let version: i64 = version.get(0);
        let end = "UPDATE lease SET ends_at = ends_at - 600000000";
        client.batch_execute(end).await.unwrap();
        let overdue = other.overdue(10).await.unwrap();
        other.execute(overdue.commands).await.unwrap()[0].as_ref().unwrap();
        assert_eq!(claim(&other, worker, 1).await.len(), 1);
        // As after a failover that lost commits, and with them the numbers they had used.
        let again = format!("UPDATE lease SET version = {version}");
        client.batch_execute(&again).await.unwrap();
        let settled = one.execute(vec![completion(&claimed[0])]).await.unwrap();
        assert!(settled[0].is_err(), "its lease is lost: {:?}", settled[0]);
    });
}

#[test]
fn what_others_hold_is_passed_over_however_much_it_is() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let other = NewTask::new(TaskType::new("b").unwrap(), "1");
        let tasks = vec![other.resolve(&Policies::default()).unwrap()];
        store.submit(vec![Submission { tasks }]).await.unwrap().remove(0).unwrap();
        let ids = submit(&store, 60).await;
        let client = stranger(&options).await;
        let hold = "BEGIN; SELECT 1 FROM pend ORDER BY ready_at, sequence LIMIT 51 FOR UPDATE";
        client.batch_execute(hold).await.unwrap();
        let types = Names::Matching([Pattern::Exact("a".into())].into());
        for selection in [Selection { types, ..Selection::default() }, Selection::default()] {
            let spec = WorkerSpec::new(selection, 10).unwrap();
            let worker = store.register(spec).await.unwrap();
            let claimed = claim(&store, worker, 1).await;
            assert_eq!(claimed.len(), 1, "there are others behind");
            assert!(ids[50..].contains(&claimed[0].task.id));
        }
    });
}

#[test]
fn a_sign_of_life_writes_no_row_of_what_is_held() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let worker = register(&store).await;
        submit(&store, 3).await;
        let claimed = claim(&store, worker, 3).await;
        let client = stranger(&options).await;
        let versions = async || -> Vec<String> {
            let rows = client.query("SELECT xmin::text FROM lease ORDER BY id", &[]).await.unwrap();
            rows.iter().map(|row| row.get(0)).collect()
        };
        let before = versions().await;
        assert_eq!((claimed.len(), before.len()), (3, 3));
        let renewal = Renewal { worker, health: None, leases: Leases::All };
        let renewed = store.renew(vec![renewal]).await.unwrap().remove(0).unwrap();
        assert_eq!(renewed.held, 3);
        assert_eq!(versions().await, before);
    });
}

#[test]
fn a_long_payload_is_written_once_wherever_its_task_goes() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let worker = register(&store).await;
        let task = NewTask::new(TaskType::new("a").unwrap(), format!("\"{}\"", "x".repeat(2_000)));
        let tasks = vec![task.resolve(&Policies::default()).unwrap()];
        let submitted = store.submit(vec![Submission { tasks }]).await.unwrap().remove(0).unwrap();
        let client = stranger(&options).await;
        let version = async || -> String {
            client.query_one("SELECT xmin::text FROM body", &[]).await.unwrap().get(0)
        };
        let written = version().await;
        let claimed = async || claim(&store, worker, 1).await.remove(0);
        let fail = |held: &Claimed, kind| {
            let outcome = Outcome::Failed { failure: Failure::new(kind, "no"), retry_after: None };
            Intent::Settle(held.task.state.lease().unwrap().token, outcome)
        };
        let carry_out = async |intent, becomes| {
            let command = Command { task: submitted[0].id, intent };
            let changed = store.execute(vec![command]).await.unwrap().remove(0).unwrap();
            assert_eq!((changed.state, version().await), (becomes, written.clone()));
        };
        carry_out(fail(&claimed().await, ErrorKind::Transient), StateName::Retrying).await;
        carry_out(Intent::Requeue, StateName::Pending).await;
        carry_out(fail(&claimed().await, ErrorKind::Permanent), StateName::DeadLetter).await;
        let retry = Intent::Retry { reset_attempts: true, priority: None };
        carry_out(retry, StateName::Pending).await;
        carry_out(completion(&claimed().await).intent, StateName::Completed).await;
    });
}
