//! What workers call.

use tasklane_client::wire::{
    Heartbeat, LeaseRef, Poll, ProgressReport, Register, ReportStatus, Reports,
};
use tasklane_client::{StateName, WorkerId};

use crate::site::{Hand, Site, ended, poll, submit};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_claims_starts_reports_and_leaves() {
    let site = Site::new().await;
    let client = site.client();
    let id = submit(&client).await;
    submit(&client).await;
    let register = Register { name: Some("hand".into()), capacity: Some(2), ..Default::default() };
    let registered = client.register(&register).await.unwrap();
    assert_eq!((registered.lease_ms, registered.heartbeat_interval_ms), (30_000, 10_000));
    let worker = registered.worker_id.0;
    let claim = Poll { auto_start: false, ..poll(1) };
    let task = client.poll(worker, &claim).await.unwrap().tasks.remove(0);
    assert_eq!((task.id.0, task.attempt), (id, 1));
    let lease = LeaseRef { task_id: task.id, lease_token: task.lease_token };
    let started = client.start(worker, std::slice::from_ref(&lease)).await.unwrap();
    assert_eq!(started[0].state.unwrap().0, StateName::Running);
    let report = ProgressReport {
        task_id: task.id,
        lease_token: task.lease_token,
        percent: Some(50.0),
        step: None,
        steps: None,
        message: Some("half".into()),
        metadata: None,
    };
    assert!(!client.progress(worker, &report).await.unwrap().cancel);
    client.cancel(id).await.unwrap();
    let heartbeat = Heartbeat { leases: Some(vec![lease]), ..Heartbeat::default() };
    let answer = client.heartbeat(worker, &heartbeat).await.unwrap();
    assert_eq!((&*answer.cancel, answer.lost.len()), (&[task.id][..], 0));
    let reports = Reports {
        results: vec![ended(&task, ReportStatus::Cancelled)],
        poll: Some(Poll { wait_ms: 1_000, ..poll(1) }),
    };
    let answer = client.report(worker, &reports).await.unwrap();
    assert_eq!(answer.results[0].state.unwrap().0, StateName::Cancelled);
    assert_eq!(answer.tasks.unwrap().len(), 1, "the next task comes with the answer");
    client.deregister(worker).await.unwrap();
    let gone = client.poll(worker, &poll(1)).await.unwrap_err();
    assert!(gone.is("worker-gone"), "{gone}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_may_be_reported_twice() {
    let site = Site::new().await;
    let client = site.client();
    let hand = Hand::register(&client).await;
    submit(&client).await;
    let task = hand.claim().await;
    let first = hand.report(ended(&task, ReportStatus::Completed)).await;
    let second = hand.report(ended(&task, ReportStatus::Completed)).await;
    assert_eq!(first, second);
    let other = hand.report(ended(&task, ReportStatus::Cancelled)).await;
    assert_eq!(other.error.as_deref(), Some("lease-lost"));
    let nobody: WorkerId = "01980000-0000-7000-8000-000000000000".parse().unwrap();
    assert!(client.poll(nobody, &poll(1)).await.unwrap_err().is("worker-gone"));
}
