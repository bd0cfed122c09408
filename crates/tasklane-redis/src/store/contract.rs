//! The contract of a store, each method as a call to the writer or as a look.

use std::path::Path;

use tasklane_core::{
    ApiKey, ApiKeyId, AuditEntry, AuditRecord, Command, Intent, Lane, NewApiKey, QueueName,
    QueueSettings, Refusal, TaskId, Timestamp, Worker, WorkerId, WorkerSpec,
};
use tasklane_store::{
    Answer, ApiKeyRefusal, AuditFrom, Changed, ClaimRequest, Claimed, Cursor, Direction,
    ExecutedAndClaimed, FeedPage, Finding, Overdue, Page, Prune, Pruned, Query, QueueState,
    Renewal, Renewed, Signal, Stats, Status, Store, StoreError, StoredTask, Submission,
    SubmitRefusal, Submitted, Trail, WorkerRefusal,
};
use tokio::sync::watch;

use super::RedisStore;
use crate::inbox::Class;

/// What workers do to end tasks goes first; maintenance and the like can wait a little.
fn class_of(commands: &[Command]) -> Class {
    let urgent = |command: &Command| {
        matches!(command.intent, Intent::Settle(..) | Intent::Start(_) | Intent::Progress(..))
    };
    if commands.iter().any(urgent) { Class::Settle } else { Class::Ordinary }
}

fn wanted(requests: &[ClaimRequest]) -> usize {
    requests.iter().map(|request| request.count.clamp(1, 1_000)).sum()
}

/// An answer that is known without asking.
fn refused<'a, T: Send + 'a>(error: StoreError) -> Answer<'a, T> {
    Box::pin(std::future::ready(Err(error)))
}

impl Store for RedisStore {
    fn submit(
        &self,
        submissions: Vec<Submission>,
    ) -> Answer<'_, Vec<Result<Vec<Submitted>, SubmitRefusal>>> {
        let size = submissions.iter().map(|submission| submission.tasks.len().max(1)).sum();
        self.write(Class::Admission, size, move |session| session.submit(&submissions))
    }

    fn claim(
        &self,
        requests: Vec<ClaimRequest>,
    ) -> Answer<'_, Vec<Result<Vec<Claimed>, WorkerRefusal>>> {
        let size = wanted(&requests);
        self.write(Class::Ordinary, size, move |session| session.claim(&requests))
    }

    fn execute(&self, commands: Vec<Command>) -> Answer<'_, Vec<Result<Changed, Refusal>>> {
        let (class, size) = (class_of(&commands), commands.len());
        self.write(class, size, move |session| session.execute(&commands))
    }

    fn execute_and_claim(
        &self,
        commands: Vec<Command>,
        requests: Vec<ClaimRequest>,
    ) -> Answer<'_, ExecutedAndClaimed> {
        let size = commands.len() + wanted(&requests);
        self.write(Class::Settle, size, move |session| {
            Ok((session.execute(&commands)?, session.claim(&requests)?))
        })
    }

    fn renew(&self, renewals: Vec<Renewal>) -> Answer<'_, Vec<Result<Renewed, WorkerRefusal>>> {
        let size = renewals.len();
        self.write(Class::Settle, size, move |session| session.renew(&renewals))
    }

    fn overdue(&self, limit: usize) -> Answer<'_, Overdue> {
        self.write(Class::Maintenance, 1, move |session| session.overdue(limit))
    }

    fn get(&self, ids: Vec<TaskId>) -> Answer<'_, Vec<Option<StoredTask>>> {
        self.look(move |shared| async move { shared.get(&ids).await })
    }

    fn trail(&self, id: TaskId) -> Answer<'_, Option<Trail>> {
        self.look(move |shared| async move { shared.trail(id).await })
    }

    fn lease_ends(&self, id: TaskId) -> Answer<'_, Option<Timestamp>> {
        self.look(move |shared| async move { shared.lease_ends(id).await })
    }

    fn list(&self, query: Query) -> Answer<'_, Page> {
        self.look(move |shared| async move { shared.list(&query).await })
    }

    fn stats(&self) -> Answer<'_, Stats> {
        self.look(|shared| async move { shared.stats().await })
    }

    fn register(&self, spec: WorkerSpec) -> Answer<'_, WorkerId> {
        if let Err(invalid) = spec.check() {
            return refused(invalid.into());
        }
        let call = self.write(Class::Ordinary, 1, move |session| session.register(&spec));
        Box::pin(async move { call.await? })
    }

    fn direct(
        &self,
        worker: WorkerId,
        direction: Direction,
    ) -> Answer<'_, Result<(), WorkerRefusal>> {
        self.write(Class::Ordinary, 1, move |session| session.direct(worker, direction))
    }

    fn workers(&self) -> Answer<'_, Vec<Worker>> {
        self.look(|shared| async move { shared.workers().await })
    }

    fn queues(&self) -> Answer<'_, Vec<QueueState>> {
        self.look(|shared| async move { shared.queues().await })
    }

    fn configure(&self, queue: QueueName, settings: QueueSettings) -> Answer<'_, ()> {
        if let Err(invalid) = settings.check() {
            return refused(invalid.into());
        }
        let call =
            self.write(Class::Ordinary, 1, move |session| session.configure(&queue, settings));
        Box::pin(async move { call.await? })
    }

    fn announce_purge(&self, queues: Vec<QueueName>) -> Answer<'_, ()> {
        self.write(Class::Ordinary, queues.len(), move |session| {
            session.announce_purge(&queues);
            Ok(())
        })
    }

    fn add_api_key(&self, key: NewApiKey) -> Answer<'_, Result<ApiKey, ApiKeyRefusal>> {
        self.write(Class::Ordinary, 1, move |session| session.add_api_key(&key))
    }

    fn api_keys(&self) -> Answer<'_, Vec<ApiKey>> {
        self.look(|shared| async move { shared.api_keys().await })
    }

    fn revoke_api_key(&self, id: ApiKeyId) -> Answer<'_, Option<ApiKey>> {
        self.write(Class::Ordinary, 1, move |session| session.revoke_api_key(id))
    }

    fn append_audit(&self, entries: Vec<AuditEntry>) -> Answer<'_, Vec<AuditRecord>> {
        let size = entries.len();
        self.write(Class::Ordinary, size, move |session| session.append_audit(&entries))
    }

    fn audit(&self, from: AuditFrom, limit: usize) -> Answer<'_, Vec<AuditRecord>> {
        self.look(move |shared| async move { shared.audit(from, limit).await })
    }

    fn events_after(&self, cursor: Cursor, limit: usize) -> Answer<'_, FeedPage> {
        self.look(move |shared| async move { shared.events_after(cursor, limit).await })
    }

    fn head(&self) -> Answer<'_, Cursor> {
        self.look(|shared| async move { shared.head().await })
    }

    fn watch(&self) -> watch::Receiver<Signal> {
        self.shared.signals.subscribe()
    }

    fn claimable_since(&self, seen: u64) -> Option<Vec<Lane>> {
        let numbers = self.shared.signals.since(seen)?;
        let catalog = self.shared.catalog();
        // A lane that cannot be named could be any.
        let lane = |number| catalog.lane_and_queue(number).ok().map(|(lane, _)| lane.clone());
        numbers.into_iter().map(lane).collect()
    }

    fn prune(&self, prune: Prune) -> Answer<'_, Pruned> {
        self.write(Class::Bulk, 1, move |session| session.prune(&prune))
    }

    fn backup(&self, _to: &Path) -> Answer<'_, ()> {
        refused(StoreError::Unsupported("copy the append-only file of Redis, or its snapshot"))
    }

    fn check(&self) -> Answer<'_, Vec<Finding>> {
        self.look(|shared| async move { shared.check().await })
    }

    fn status(&self) -> Status {
        Status {
            durability: self.durability,
            trouble: self.shared.trouble(),
            figures: self.shared.figures(),
        }
    }

    fn gathers(&self) -> bool {
        true
    }

    fn now(&self) -> Timestamp {
        self.shared.link.now()
    }
}
