//! Memory that is full, and scripts that are forgotten, under load.

use tasklane_core::{Command, Intent, NewTask, Policies, Retention, StateName, TaskType};
use tasklane_redis::Mode;
use tasklane_redis::test_server::TestServer;
use tasklane_store::{Leases, Prune, Renewal, Store, StoreError, Submission};

use crate::work::{claim, completion, open, run, submit, tasks, token, worker};

#[test]
fn a_server_without_memory_takes_no_tasks_but_lets_them_end() {
    let server = TestServer::start(&["--maxmemory-policy", "noeviction"]).unwrap();
    let set = |value| server.command::<()>(&["CONFIG", "SET", "maxmemory", value]).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Fast).await;
        let worker = worker(&store).await;
        store.submit(tasks(2)).await.unwrap().remove(0).unwrap();
        set("1");
        let refused = submit(&store).await;
        assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
        assert!(store.status().trouble.is_some());
        // In one group with a submission or not: work goes on.
        let (refused, claimed) = tokio::join!(submit(&store), claim(&store, worker, 2));
        assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
        assert_eq!(claimed.len(), 2);
        let ends = claimed.iter().map(|claimed| completion(claimed.task.id, token(claimed)));
        for ended in store.execute(ends.collect()).await.unwrap() {
            ended.unwrap();
        }
        set("0");
        submit(&store).await.unwrap();
        assert_eq!(store.status().trouble, None);
        let stats = store.stats().await.unwrap();
        let counts = [StateName::Completed, StateName::Pending].map(|state| stats.total(state));
        assert_eq!((counts, store.check().await.unwrap()), ([2, 1], vec![]));
    });
}

#[test]
fn a_server_without_memory_renews_leases_cancels_and_removes_what_is_kept_no_longer() {
    let server = TestServer::start(&["--maxmemory-policy", "noeviction"]).unwrap();
    let set = |value| server.command::<()>(&["CONFIG", "SET", "maxmemory", value]).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Fast).await;
        let worker = worker(&store).await;
        for _ in 0..2 {
            submit(&store).await.unwrap();
        }
        let held = claim(&store, worker, 1).await.remove(0);
        let waiting = submit(&store).await.unwrap();
        set("1");
        let renewal = Renewal { worker, leases: Leases::All, health: None };
        let renewed = store.renew(vec![renewal]).await.unwrap().remove(0).unwrap();
        assert_eq!((renewed.held, renewed.lost), (1, vec![]));
        let cancel = |task| Command { task, intent: Intent::Cancel };
        let cancelled = store.execute(vec![cancel(waiting), cancel(held.task.id)]).await.unwrap();
        let states: Vec<_> = cancelled.into_iter().map(|changed| changed.unwrap().state).collect();
        assert_eq!(states, [StateName::Cancelled, StateName::Running]);
        let at_once = Prune { retention: Retention::NOTHING, ..Prune::default() };
        let pruned = store.prune(at_once).await.unwrap();
        assert_eq!(pruned.tasks.iter().sum::<u64>(), 1);
        assert!(store.get(vec![waiting]).await.unwrap()[0].is_none());
        assert_eq!(store.check().await.unwrap(), []);
    });
}

#[test]
fn scripts_that_are_forgotten_in_mid_load_are_sent_again() {
    let server = TestServer::start(&[]).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Fast).await;
        let worker = worker(&store).await;
        let forget = async {
            for _ in 0..50 {
                server.command::<()>(&["SCRIPT", "FLUSH"]).unwrap();
                tokio::task::yield_now().await;
            }
        };
        let work = async {
            for _ in 0..100 {
                submit(&store).await.unwrap();
                let claimed = claim(&store, worker, 1).await;
                let end = completion(claimed[0].task.id, token(&claimed[0]));
                store.execute(vec![end]).await.unwrap().remove(0).unwrap();
            }
        };
        tokio::join!(forget, work);
        assert_eq!(store.stats().await.unwrap().total(StateName::Completed), 100);
        assert_eq!(store.check().await.unwrap(), []);
    });
}

/// Of a queued task with a payload of about a hundred bytes, its event and its place in the index.
const TASK_BYTES_MAX: usize = 420;

#[test]
fn a_queued_task_takes_no_more_memory_than_was_promised() {
    // They fill Redis' tables, whose sizes are powers of two, as a million does.
    const TASKS: usize = 31_000;
    let server = TestServer::start(&[]).unwrap();
    let used = || {
        let info: String = server.command(&["INFO", "memory"]).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        line.unwrap().parse::<usize>().unwrap()
    };
    run(async {
        let store = open(&server.address(), Mode::Fast).await;
        submit(&store).await.unwrap();
        let before = used();
        let payload = format!("{{\"text\":\"{}\"}}", "x".repeat(90));
        for _ in 0..TASKS / 1_000 {
            let task = || NewTask::new(TaskType::new("mail.send").unwrap(), payload.clone());
            let draft = || task().resolve(&Policies::default()).unwrap();
            let tasks = (0..1_000).map(|_| draft()).collect();
            store.submit(vec![Submission { tasks }]).await.unwrap().remove(0).unwrap();
        }
        let bytes = (used() - before) / TASKS;
        println!("{bytes} bytes a task");
        assert!(bytes <= TASK_BYTES_MAX, "{bytes} bytes a task");
    });
}
