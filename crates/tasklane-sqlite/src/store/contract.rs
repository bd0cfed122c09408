//! The contract of a store, each method as a call to the writer or to a reader.

use std::path::Path;

use tasklane_core::{
    ApiKey, ApiKeyId, AuditEntry, AuditRecord, Command, Intent, Lane, NewApiKey, QueueName,
    QueueSettings, Refusal, TaskId, Timestamp, Worker, WorkerId, WorkerSpec, limits,
};
use tasklane_store::codec::LaneNumbers;
use tasklane_store::{
    Answer, ApiKeyRefusal, AuditFrom, Changed, ClaimRequest, Claimed, Cursor, Direction,
    ExecutedAndClaimed, FeedPage, Finding, Overdue, Page, Prune, Pruned, Query, QueueState,
    Renewal, Renewed, Signal, Stats, Status, Store, StoreError, StoredTask, Submission,
    SubmitRefusal, Submitted, Trail, WorkerRefusal,
};
use tokio::sync::watch;

use super::SqliteStore;
use crate::writer::{Class, Size};
use crate::{backup, check};

/// What workers do to end tasks goes first; maintenance and the like can wait a little.
fn class_of(commands: &[Command]) -> Class {
    let urgent = |command: &Command| {
        matches!(command.intent, Intent::Settle(..) | Intent::Start(_) | Intent::Progress(..))
    };
    if commands.iter().any(urgent) { Class::Settle } else { Class::Ordinary }
}

impl Store for SqliteStore {
    fn submit(
        &self,
        submissions: Vec<Submission>,
    ) -> Answer<'_, Vec<Result<Vec<Submitted>, SubmitRefusal>>> {
        let size = Size::of_submissions(&submissions);
        let call = self.write(Class::Ordinary, size, move |session| match session.spare.room() {
            Ok(()) => session.submit(submissions).map(Ok),
            // A refusal of its own: others of its group go on.
            Err(full) => Ok(Err(full)),
        });
        Box::pin(async move { call.await? })
    }

    fn claim(
        &self,
        requests: Vec<ClaimRequest>,
    ) -> Answer<'_, Vec<Result<Vec<Claimed>, WorkerRefusal>>> {
        let size = Size::of_requests(&requests);
        self.write_again(Class::Ordinary, size, move |session| session.claim(&requests))
    }

    fn execute(&self, commands: Vec<Command>) -> Answer<'_, Vec<Result<Changed, Refusal>>> {
        let (class, size) = (class_of(&commands), Size::of_commands(&commands));
        self.write_again(class, size, move |session| session.execute(&commands))
    }

    fn execute_and_claim(
        &self,
        commands: Vec<Command>,
        requests: Vec<ClaimRequest>,
    ) -> Answer<'_, ExecutedAndClaimed> {
        let size = Size::of_commands(&commands).and(Size::of_requests(&requests));
        self.write_again(Class::Settle, size, move |session| {
            Ok((session.execute(&commands)?, session.claim(&requests)?))
        })
    }

    fn renew(&self, renewals: Vec<Renewal>) -> Answer<'_, Vec<Result<Renewed, WorkerRefusal>>> {
        let size = Size::of_renewals(&renewals);
        self.write_again(Class::Settle, size, move |session| session.renew(&renewals))
    }

    fn overdue(&self, limit: usize) -> Answer<'_, Overdue> {
        let limit = limit.clamp(1, limits::SLICE_TASKS);
        self.write(Class::Ordinary, 1, move |session| session.overdue(limit))
    }

    fn get(&self, ids: Vec<TaskId>) -> Answer<'_, Vec<Option<StoredTask>>> {
        self.read(move |view| view.get(&ids))
    }

    fn trail(&self, id: TaskId) -> Answer<'_, Option<Trail>> {
        self.read(move |view| view.trail(id))
    }

    fn lease_ends(&self, id: TaskId) -> Answer<'_, Option<Timestamp>> {
        self.write(Class::Ordinary, 1, move |session| session.lease_ends(id))
    }

    fn list(&self, query: Query) -> Answer<'_, Page> {
        self.read(move |view| view.list(&query))
    }

    fn stats(&self) -> Answer<'_, Stats> {
        self.write(Class::Ordinary, 1, |session| Ok(session.stats()))
    }

    fn register(&self, spec: WorkerSpec) -> Answer<'_, WorkerId> {
        if let Err(invalid) = spec.check() {
            return Box::pin(std::future::ready(Err(invalid.into())));
        }
        let call = self.write(Class::Ordinary, 1, move |session| session.register(spec));
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
        self.write(Class::Ordinary, 1, |session| Ok(session.workers()))
    }

    fn queues(&self) -> Answer<'_, Vec<QueueState>> {
        self.write(Class::Ordinary, 1, |session| Ok(session.queues()))
    }

    fn configure(&self, queue: QueueName, settings: QueueSettings) -> Answer<'_, ()> {
        if let Err(invalid) = settings.check() {
            return Box::pin(std::future::ready(Err(invalid.into())));
        }
        let call =
            self.write(Class::Ordinary, 1, move |session| session.configure(queue, settings));
        Box::pin(async move { call.await? })
    }

    fn announce_purge(&self, queues: Vec<QueueName>) -> Answer<'_, ()> {
        self.write(Class::Ordinary, queues.len(), move |session| {
            session.announce_purge(queues);
            Ok(())
        })
    }

    fn add_api_key(&self, key: NewApiKey) -> Answer<'_, Result<ApiKey, ApiKeyRefusal>> {
        self.write(Class::Ordinary, 1, move |session| session.add_api_key(key))
    }

    fn api_keys(&self) -> Answer<'_, Vec<ApiKey>> {
        self.read(|view| view.api_keys())
    }

    fn revoke_api_key(&self, id: ApiKeyId) -> Answer<'_, Option<ApiKey>> {
        self.write(Class::Ordinary, 1, move |session| session.revoke_api_key(id))
    }

    fn append_audit(&self, entries: Vec<AuditEntry>) -> Answer<'_, Vec<AuditRecord>> {
        let size = entries.len();
        self.write(Class::Ordinary, size, move |session| session.append_audit(entries))
    }

    fn audit(&self, from: AuditFrom, limit: usize) -> Answer<'_, Vec<AuditRecord>> {
        self.read(move |view| view.audit(from, limit))
    }

    fn events_after(&self, cursor: Cursor, limit: usize) -> Answer<'_, FeedPage> {
        let read = self.read(move |view| view.events_after(cursor, limit));
        Box::pin(async move {
            let mut page = read.await?;
            self.shared.durable.hold_back(&mut page);
            Ok(page)
        })
    }

    fn head(&self) -> Answer<'_, Cursor> {
        self.write(Class::Ordinary, 1, |session| {
            Ok(Cursor { epoch: session.epoch(), position: session.head() })
        })
    }

    fn watch(&self) -> watch::Receiver<Signal> {
        self.shared.signal.subscribe()
    }

    fn claimable_since(&self, seen: u64) -> Option<Vec<Lane>> {
        let numbers = self.shared.hints.since(seen)?;
        // A lane that cannot be named could be any.
        numbers.into_iter().map(|number| self.shared.lanes.lane(number.into())).collect()
    }

    fn prune(&self, prune: Prune) -> Answer<'_, Pruned> {
        self.write(Class::Bulk, 1, move |session| session.prune(&prune))
    }

    fn backup(&self, to: &Path) -> Answer<'_, ()> {
        if self.readers.is_none() {
            let error = StoreError::Unsupported("a store in memory is not backed up");
            return Box::pin(std::future::ready(Err(error)));
        }
        let to = to.to_owned();
        self.aside(move |view| backup::backup(view.connection, &to))
    }

    fn check(&self) -> Answer<'_, Vec<Finding>> {
        self.aside(|view| check::check(view.connection, view.lanes))
    }

    fn status(&self) -> Status {
        Status {
            durability: self.durability,
            trouble: self.shared.trouble(),
            figures: self.shared.measure.figures(),
        }
    }

    fn gathers(&self) -> bool {
        true
    }

    fn now(&self) -> Timestamp {
        self.clock.wall()
    }
}
