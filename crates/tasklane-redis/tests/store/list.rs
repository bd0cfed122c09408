//! What one call of a list looks at, however many tasks there are.

use std::collections::HashSet;

use tasklane_core::{
    Command, Intent, NewTask, Policies, QueueName, StateName, TaskId, TaskType, limits,
};
use tasklane_redis::test_server::TestServer;
use tasklane_redis::{Mode, RedisStore};
use tasklane_store::{Filter, Query, Store, Submission};

use crate::durable::calls;
use crate::work::{claim, open, run, tasks, worker};

/// All that a list shows, page by page.
async fn listed(store: &RedisStore, states: Vec<StateName>, limit: usize) -> Vec<TaskId> {
    let mut query = Query::new(Filter { states, ..Filter::default() }, limit);
    let mut ids = Vec::new();
    loop {
        let page = store.list(query.clone()).await.unwrap();
        assert!(page.examined <= limits::EXAMINED_MAX, "{}", page.examined);
        ids.extend(page.tasks.iter().map(|task| task.task.id));
        query.after = page.next;
        if query.after.is_none() {
            return ids;
        }
    }
}

#[test]
fn more_leases_than_one_call_looks_at_are_listed_page_by_page() {
    const WORKERS: usize = limits::EXAMINED_MAX / 1_000 + 1;
    let server = TestServer::start(&[]).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Fast).await;
        let mut held = HashSet::new();
        for number in 0..WORKERS {
            if number + 1 == WORKERS {
                // Few enough to be read at once.
                let before = calls(&server, "zrange");
                assert_eq!(listed(&store, vec![StateName::Running], 1_000).await.len(), held.len());
                assert!(calls(&server, "zrange") - before > WORKERS as u64);
            }
            store.submit(tasks(1_000)).await.unwrap().remove(0).unwrap();
            let worker = worker(&store).await;
            let claimed = claim(&store, worker, 1_000).await;
            held.extend(claimed.iter().map(|claimed| claimed.task.id));
        }
        assert_eq!(held.len(), WORKERS * 1_000);
        let before = calls(&server, "zrange");
        let ids = listed(&store, vec![StateName::Running], 1_000).await;
        assert_eq!(ids.len(), held.len(), "each once");
        assert_eq!(ids.into_iter().collect::<HashSet<_>>(), held);
        // The workers, once for each page, and nothing of what they hold.
        assert!(calls(&server, "zrange") - before <= 2 * WORKERS as u64);
    });
}

/// Bytes that a server has sent.
fn sent(server: &TestServer) -> usize {
    let stats: String = server.command(&["INFO", "stats"]).unwrap();
    let line = stats.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:"));
    line.unwrap().parse().unwrap()
}

#[test]
fn ended_tasks_of_many_queues_are_not_all_read_for_one_page() {
    const QUEUES: usize = 20;
    const EACH: usize = 1_000;
    // Of one entry: its time, the id, and what is around them.
    const BYTES: usize = 64;
    let server = TestServer::start(&[]).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Fast).await;
        for number in 0..QUEUES {
            let draft = || {
                let mut task = NewTask::new(TaskType::new("a").unwrap(), "payload");
                task.queue = QueueName::new(format!("queue-{number}")).unwrap();
                task.resolve(&Policies::default()).unwrap()
            };
            let submission = Submission { tasks: (0..EACH).map(|_| draft()).collect() };
            let submitted = store.submit(vec![submission]).await.unwrap().remove(0).unwrap();
            // By few at a time: those that end at one moment are read together.
            for ids in submitted.chunks(10) {
                let cancel =
                    ids.iter().map(|task| Command { task: task.id, intent: Intent::Cancel });
                store.execute(cancel.collect()).await.unwrap();
            }
        }
        let filter = Filter { states: vec![StateName::Cancelled], ..Filter::default() };
        let before = sent(&server);
        let page = store.list(Query::new(filter, 10)).await.unwrap();
        assert_eq!(page.tasks.len(), 10);
        let sent = sent(&server) - before;
        assert!(sent < limits::EXAMINED_MAX * BYTES, "{sent} bytes");
        let ids = listed(&store, vec![StateName::Cancelled], 1_000).await;
        assert_eq!((ids.len(), ids.iter().collect::<HashSet<_>>().len()), (20_000, 20_000));
    });
}
