//! Verbs for cases: a store on a still clock, asked one thing at a time.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "test support: a failed expectation is the test's failure"
)]

mod look;

use std::time::Duration;

use tasklane_core::{
    Command, Fence, Intent, LeaseToken, Outcome, QueueSettings, Refusal, TaskId, Timestamp, Worker,
    WorkerId,
};

use super::drafting::{Drafting, Taking, done, failed, queue, taking};
use super::{Differences, Fixture};
use crate::{
    Answer, Changed, ClaimRequest, Claimed, Cursor, Direction, LeaseRef, Leases, Maintained,
    Overdue, Prune, Pruned, QueueState, Renewal, Renewed, Store, StoredTask, Submission,
    SubmitRefusal, Submitted, WorkerRefusal,
};

/// A store and its clock, with the verbs that cases speak in.
pub(crate) struct Scene<'a, F> {
    fixture: &'a mut F,
}

/// A task in a worker's hands, with what it needs to settle it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Held {
    pub(crate) id: TaskId,
    pub(crate) worker: WorkerId,
    pub(crate) token: LeaseToken,
    pub(crate) fence: Fence,
}

impl From<&Claimed> for Held {
    fn from(claimed: &Claimed) -> Self {
        let lease = claimed.task.state.lease().expect("a claimed task shows its lease");
        let (worker, token, fence) = (lease.worker, lease.token, lease.fence);
        Self { id: claimed.task.id, worker, token, fence }
    }
}

impl Held {
    pub(crate) fn lease(&self) -> LeaseRef {
        LeaseRef { task: self.id, token: self.token }
    }
}

/// Everything a caller can see, to show that nothing changed.
#[derive(Debug, PartialEq)]
pub(crate) struct Snapshot {
    pub(crate) tasks: Vec<StoredTask>,
    pub(crate) queues: Vec<QueueState>,
    pub(crate) head: Cursor,
}

impl<'a, F: Fixture> Scene<'a, F> {
    pub(crate) fn new(fixture: &'a mut F) -> Self {
        Self { fixture }
    }

    /// Asks the store and waits.
    pub(crate) fn ask<T>(&self, call: impl for<'s> FnOnce(&'s dyn Store) -> Answer<'s, T>) -> T {
        let store = self.fixture.store();
        self.wait(call(store.as_ref()))
    }

    /// Waits for a call that was made before.
    pub(crate) fn wait<T>(&self, answer: Answer<'_, T>) -> T {
        self.fixture.run(answer).expect("the store answers")
    }

    pub(crate) fn store(&self) -> std::sync::Arc<dyn Store> {
        self.fixture.store()
    }

    // Time

    pub(crate) fn now(&self) -> Timestamp {
        self.fixture.now()
    }

    pub(crate) fn pass(&self, span: Duration) {
        self.fixture.advance(span);
    }

    pub(crate) fn set_wall(&self, wall: Timestamp) {
        self.fixture.set_wall(wall);
    }

    pub(crate) fn reopen(&mut self) {
        self.fixture.reopen();
    }

    pub(crate) fn differences(&self) -> Differences {
        self.fixture.differences()
    }

    pub(crate) fn maintain(&self) -> Maintained {
        let store = self.fixture.store();
        self.fixture.run(crate::maintain(store.as_ref())).expect("maintenance runs")
    }

    pub(crate) fn overdue(&self, limit: usize) -> Overdue {
        self.ask(|store| store.overdue(limit))
    }

    pub(crate) fn prune(&self, prune: Prune) -> Pruned {
        self.ask(|store| store.prune(prune))
    }

    // Submitting

    /// Offers one submission.
    pub(crate) fn offer(
        &self,
        tasks: impl IntoIterator<Item = Drafting>,
    ) -> Result<Vec<Submitted>, SubmitRefusal> {
        let tasks = tasks.into_iter().map(Drafting::build).collect();
        let mut verdicts = self.ask(|store| store.submit(vec![Submission { tasks }]));
        assert_eq!(verdicts.len(), 1, "one verdict for one submission");
        verdicts.remove(0)
    }

    pub(crate) fn offer_one(&self, task: Drafting) -> Result<Submitted, SubmitRefusal> {
        self.offer([task]).map(|mut taken| taken.remove(0))
    }

    /// Submits tasks that must be new.
    pub(crate) fn submit_all(&self, tasks: impl IntoIterator<Item = Drafting>) -> Vec<TaskId> {
        let taken = self.offer(tasks).expect("the submission is taken");
        assert!(taken.iter().all(|task| !task.replayed && !task.expired), "all are new");
        taken.iter().map(|task| task.id).collect()
    }

    pub(crate) fn submit(&self, task: Drafting) -> TaskId {
        self.submit_all([task]).remove(0)
    }

    // Workers

    pub(crate) fn register(&self, worker: Taking) -> WorkerId {
        self.ask(|store| store.register(worker.0))
    }

    /// A worker that takes everything that needs no capability.
    pub(crate) fn worker(&self) -> WorkerId {
        self.register(taking())
    }

    pub(crate) fn direct(
        &self,
        worker: WorkerId,
        direction: Direction,
    ) -> Result<(), WorkerRefusal> {
        self.ask(|store| store.direct(worker, direction))
    }

    pub(crate) fn find_worker(&self, id: WorkerId) -> Option<Worker> {
        self.ask(|store| store.workers()).into_iter().find(|worker| worker.id == id)
    }

    pub(crate) fn renew(&self, worker: WorkerId, leases: Leases) -> Result<Renewed, WorkerRefusal> {
        let renewal = Renewal { worker, leases, health: None };
        self.ask(|store| store.renew(vec![renewal])).remove(0)
    }

    pub(crate) fn renew_all(&self, worker: WorkerId) -> Renewed {
        self.renew(worker, Leases::All).expect("the worker is known")
    }

    // Claiming

    pub(crate) fn ask_for(
        &self,
        worker: WorkerId,
        count: usize,
    ) -> Result<Vec<Claimed>, WorkerRefusal> {
        let request = ClaimRequest { worker, count, auto_start: true, narrowed: None };
        self.request(request)
    }

    pub(crate) fn request(&self, request: ClaimRequest) -> Result<Vec<Claimed>, WorkerRefusal> {
        let mut verdicts = self.ask(|store| store.claim(vec![request]));
        assert_eq!(verdicts.len(), 1, "one verdict for one request");
        verdicts.remove(0)
    }

    /// Claims up to `count`, started at once.
    pub(crate) fn claim(&self, worker: WorkerId, count: usize) -> Vec<Held> {
        let claimed = self.ask_for(worker, count).expect("the worker is known");
        claimed.iter().map(Held::from).collect()
    }

    pub(crate) fn claim_ids(&self, worker: WorkerId, count: usize) -> Vec<TaskId> {
        self.claim(worker, count).iter().map(|held| held.id).collect()
    }

    /// Claims the next task, which must be there, and starts it.
    pub(crate) fn claim_one(&self, worker: WorkerId) -> Held {
        self.claim(worker, 1).pop().expect("a task is claimable")
    }

    /// Claims the next task, which must be there, without starting it.
    pub(crate) fn assign(&self, worker: WorkerId) -> Held {
        let request = ClaimRequest { worker, count: 1, auto_start: false, narrowed: None };
        let claimed = self.request(request).expect("the worker is known");
        Held::from(claimed.first().expect("a task is claimable"))
    }

    // Commands

    pub(crate) fn command(&self, task: TaskId, intent: Intent) -> Result<Changed, Refusal> {
        self.commands(vec![Command { task, intent }]).remove(0)
    }

    pub(crate) fn commands(&self, commands: Vec<Command>) -> Vec<Result<Changed, Refusal>> {
        let count = commands.len();
        let verdicts = self.ask(|store| store.execute(commands));
        assert_eq!(verdicts.len(), count, "one verdict for each command");
        verdicts
    }

    pub(crate) fn settle(&self, held: &Held, outcome: Outcome) -> Result<Changed, Refusal> {
        self.command(held.id, Intent::Settle(held.token, outcome))
    }

    pub(crate) fn start(&self, held: &Held) -> Changed {
        self.command(held.id, Intent::Start(held.token)).expect("the task is started")
    }

    pub(crate) fn complete(&self, held: &Held) -> Changed {
        self.settle(held, done("\"ok\"")).expect("the completion is accepted")
    }

    /// Fails with a transient error.
    pub(crate) fn fail(&self, held: &Held) -> Changed {
        let outcome = failed(tasklane_core::ErrorKind::Transient);
        self.settle(held, outcome).expect("the failure is accepted")
    }

    /// Fails with an error that allows no retry.
    pub(crate) fn kill(&self, held: &Held) -> Changed {
        let outcome = failed(tasklane_core::ErrorKind::Permanent);
        self.settle(held, outcome).expect("the failure is accepted")
    }

    pub(crate) fn release(&self, held: &Held, delay: Option<Duration>) -> Changed {
        self.settle(held, Outcome::Released { delay }).expect("the release is accepted")
    }

    pub(crate) fn cancel(&self, id: TaskId) -> Changed {
        self.command(id, Intent::Cancel).expect("the task is cancelled, or its worker asked")
    }

    /// An operator's retry, attempts kept.
    pub(crate) fn retry(&self, id: TaskId) -> Changed {
        let intent = Intent::Retry { reset_attempts: false, priority: None };
        self.command(id, intent).expect("the task is revived")
    }

    /// Submits, claims and kills a task: a dead letter, or a failed one if it wanted none.
    pub(crate) fn dead(&self, task: Drafting) -> TaskId {
        let id = self.submit(task);
        let held = self.claim_one(self.worker());
        assert_eq!(held.id, id, "nothing else was claimable");
        self.kill(&held);
        id
    }

    /// Submits, claims and completes a task.
    pub(crate) fn completed(&self, task: Drafting) -> TaskId {
        let id = self.submit(task);
        let held = self.claim_one(self.worker());
        assert_eq!(held.id, id, "nothing else was claimable");
        self.complete(&held);
        id
    }

    // Queues

    pub(crate) fn configure(&self, name: &str, settings: QueueSettings) {
        self.ask(|store| store.configure(queue(name), settings));
    }

    pub(crate) fn queue_state(&self, name: &str) -> Option<QueueState> {
        let name = queue(name);
        self.ask(|store| store.queues()).into_iter().find(|state| state.queue == name)
    }

    pub(crate) fn depth(&self, name: &str) -> u64 {
        self.queue_state(name).map_or(0, |state| state.depth)
    }
}
