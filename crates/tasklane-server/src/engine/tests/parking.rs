//! Tasks on their way to a poll whose caller goes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tasklane_core::{
    CapabilitySet, Names, NewTask, Policies, Selection, StateName, TaskType, WorkerSpec,
};
use tasklane_store::{ClaimRequest, Store, Submission};
use tokio_util::task::TaskTracker;

use super::faulty::Faulty;
use crate::engine::parking::Parking;

#[tokio::test]
async fn what_was_handed_to_a_caller_that_goes_before_it_has_looked_is_given_back() {
    let store: Arc<dyn Store> = Faulty::new();
    let errands = TaskTracker::new();
    let parking = Parking::new(Arc::clone(&store), errands.clone());
    let capabilities = CapabilitySet::default();
    let selection = Selection { queues: Names::All, types: Names::All, capabilities };
    let worker = store.register(WorkerSpec::new(selection, 1).unwrap()).await.unwrap();
    let request = ClaimRequest { worker, count: 1, auto_start: true, narrowed: None };
    let seen = store.watch().borrow().claimable;
    let mut waits = Box::pin(parking.wait(request.clone(), None, seen, Duration::from_secs(60)));
    assert!(waits.as_mut().now_or_never().is_none());

    let task = NewTask::new(TaskType::new("a").unwrap(), "{}");
    let task = task.resolve(&Policies::default()).unwrap();
    let taken = parking.take_for(std::iter::once(&task));
    let submitted = store.submit(vec![Submission { tasks: vec![task] }]).await.unwrap();
    let id = submitted[0].as_ref().unwrap()[0].id;
    assert_eq!(parking.hand_over(taken, store.claim(vec![request]).await), 1);
    drop(waits);
    errands.close();
    errands.wait().await;

    let stored = store.get(vec![id]).await.unwrap().remove(0).unwrap();
    assert_eq!(stored.task.state.name(), StateName::Pending);
    assert_eq!(stored.task.counts.deliveries, 1, "it was claimed and given back");
}
