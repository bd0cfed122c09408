//! Every route has its call, and every call its route.

use std::collections::BTreeSet;

use tasklane_client::call::{
    EventFilter, ListAudit, ListDeadLetters, ListTasks, ListWorkers, Look, Retries, task_id,
};
use tasklane_client::wire::{
    Heartbeat, Maintenance, NewKey, ProgressReport, QueuePatch, Register, ReplayMany, ReplayOne,
    Reports, Requeue, RetryDeadLetters, TaskFilter, TaskIdText, TokenText, UpdateTask,
};
use tasklane_client::{Client, LeaseToken, NewTask, Priority, WorkerId};

use crate::script::Script;
use crate::site::{PATIENCE, Site, poll};

/// What is for other eyes: the stream on a WebSocket, the document and its page, probes, and what
/// has two names.
const NOT_CALLED: [&str; 8] = [
    "GET /admin/dlq",
    "GET /api/v1/ws",
    "GET /openapi.json",
    "GET /docs",
    "GET /docs/docs.js",
    "GET /docs/docs.css",
    "GET /livez",
    "GET /healthz",
];

#[tokio::test(flavor = "multi_thread")]
async fn every_route_has_its_call() {
    let routes = Site::new().await.routes().await;
    assert!(routes.len() > 50, "too few routes: {routes:?}");
    let script = Script::of(Vec::new()).await;
    let client = Client::builder(script.url()).retries(Retries::NONE).build().unwrap();
    call_producers(&client).await;
    call_operators(&client).await;
    call_workers(&client).await;
    let mut called: BTreeSet<_> = NOT_CALLED.into_iter().map(str::to_owned).collect();
    for request in script.requests() {
        let line = request.split(" HTTP/1.1").next().unwrap();
        let route = routes.iter().filter(|route| fits(route, line));
        let plainest = route.min_by_key(|route| route.matches('{').count());
        called.insert(plainest.unwrap_or_else(|| panic!("no route for {line}")).clone());
    }
    assert_eq!(called, routes);
}

/// Whether a request is for this route.
fn fits(route: &str, line: &str) -> bool {
    let line = line.split('?').next().unwrap();
    let (route, line): (Vec<_>, Vec<_>) = (route.split('/').collect(), line.split('/').collect());
    let same = |(part, said): (&&str, &&str)| part.starts_with('{') || part == said;
    route.len() == line.len() && route.iter().zip(&line).all(same)
}

/// Nobody answers; what matters is what was asked.
macro_rules! all {
    ($($call:expr),* $(,)?) => {$( assert!($call.await.is_err()); )*};
}

async fn call_producers(client: &Client) {
    let (id, filter) = (task_id(), TaskFilter::default());
    all!(
        client.submit(NewTask::new("a")),
        client.submit_batch(&[]),
        client.look(id, Look::default()),
        client.wait(id, PATIENCE),
        client.list_tasks(&ListTasks::default()),
        client.cancel(id),
        client.cancel_tasks(&filter, None),
        client.task_history(id),
        client.task_progress(id),
        client.explain_task(id),
        client.queue_stats(None),
        client.minutes(None),
        client.list_dead_letters(&ListDeadLetters::default()),
        client.get_dead_letter(id),
        client.summarise_dead_letters(&filter),
        client.replay_dead_letter(id, &ReplayOne::default()),
        client.replay_dead_letters(&replay_all()),
        client.discard_dead_letter(id),
        client.events(EventFilter::default(), None),
    );
}

async fn call_operators(client: &Client) {
    let (id, filter, worker) = (task_id(), TaskFilter::default(), worker());
    let key =
        NewKey { name: "k".into(), scopes: vec![], expires_at: None, expires_in_seconds: None };
    all!(
        client.retry_dead_letters(&RetryDeadLetters::default()),
        client.discard_dead_letters(&filter, None),
        client.list_stuck_tasks(None, &ListTasks::default()),
        client.requeue_tasks(&Requeue::default()),
        client.retry_task(id, &ReplayOne::default()),
        client.update_task(id, &UpdateTask::default()),
        client.list_queues(),
        client.get_queue("q"),
        client.update_queue("q", &QueuePatch::default()),
        client.pause_queue("q"),
        client.resume_queue("q"),
        client.purge_priority(Priority::Low, None, None),
        client.list_workers(&ListWorkers::default()),
        client.get_worker(worker),
        client.pause_worker(worker),
        client.resume_worker(worker),
        client.drain_worker(worker),
        client.get_health(),
        client.is_ready(),
        client.metrics(),
        client.clean_up(&Maintenance::default()),
        client.back_up("copy"),
        client.reload(),
        client.list_keys(None, None),
        client.create_key(&key),
        client.revoke_key("tl_k"),
        client.list_audit(&ListAudit::default()),
    );
}

async fn call_workers(client: &Client) {
    let (worker, token) = (worker(), TokenText(LeaseToken::from_bytes([7; 16])));
    let report = ProgressReport {
        task_id: TaskIdText(task_id()),
        lease_token: token,
        percent: None,
        step: None,
        steps: None,
        message: None,
        metadata: None,
    };
    all!(
        client.register(&Register::default()),
        client.poll(worker, &poll(1)),
        client.start(worker, &[]),
        client.progress(worker, &report),
        client.report(worker, &Reports { results: vec![], poll: None }),
        client.heartbeat(worker, &Heartbeat::default()),
        client.deregister(worker),
    );
}

fn worker() -> WorkerId {
    WorkerId::from_bytes([7; 16])
}

fn replay_all() -> ReplayMany {
    ReplayMany {
        filter: TaskFilter::default(),
        reset_attempts: true,
        new_priority: None,
        rate_per_second: None,
        dry_run: false,
        cursor: None,
    }
}
