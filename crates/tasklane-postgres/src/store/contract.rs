//! The contract of a store, each method as a transaction.

use std::path::Path;
use std::sync::Arc;

use hashbrown::HashSet;
use tasklane_core::{
    ApiKey, ApiKeyId, AuditEntry, AuditRecord, Command, Lane, NewApiKey, QueueName, QueueSettings,
    Refusal, TaskId, Timestamp, Worker, WorkerId, WorkerSpec, limits,
};
use tasklane_store::{
    Admit, Answer, ApiKeyRefusal, AuditFrom, Changed, ClaimRequest, Claimed, Cursor, Direction,
    Durability, ExecutedAndClaimed, FeedPage, Figures, Finding, Overdue, Page, Prune, Pruned,
    Query, QueueState, Renewal, Renewed, Requested, Signal, Stats, Status, Store, StoreError,
    StoredTask, Submission, SubmitRefusal, Submitted, Trail, WorkerRefusal,
};
use tokio::sync::watch;

use super::PostgresStore;
use super::turn::Kind;
use crate::fault::Fault;
use crate::session::Session;

fn tasks(commands: &[Command]) -> HashSet<TaskId> {
    commands.iter().map(|command| command.task).collect()
}

fn workers(requests: &[ClaimRequest]) -> HashSet<WorkerId> {
    requests.iter().map(|request| request.worker).collect()
}

/// Claims and gives what was handed out, with the numbers it was written with.
async fn claim(
    session: &mut Session<'_>,
    requests: &[ClaimRequest],
) -> Result<Vec<Result<Vec<Claimed>, WorkerRefusal>>, Fault> {
    let claimed = session.claim(requests).await?;
    session.draw().await?;
    let handed = claimed.into_iter().map(|verdict| match verdict {
        Ok(ids) => Ok(Ok(session.handed(&ids)?)),
        Err(refusal) => Ok(Err(refusal)),
    });
    handed.collect()
}

impl Store for PostgresStore {
    fn submit(
        &self,
        submissions: Vec<Submission>,
    ) -> Answer<'_, Vec<Result<Vec<Submitted>, SubmitRefusal>>> {
        let submissions = Arc::new(submissions);
        let units = submissions.len();
        self.write(Kind::Submit, units, move |session| {
            let submissions = Arc::clone(&submissions);
            Box::pin(async move { session.submit(&submissions).await })
        })
    }

    fn takes_requests(&self) -> bool {
        true
    }

    fn requested(&self, limit: usize) -> Answer<'_, Vec<Requested>> {
        self.read(move |view| Box::pin(async move { view.requested(limit).await }))
    }

    fn admit(&self, requests: Vec<Admit>) -> Answer<'_, Vec<bool>> {
        let units = requests.len();
        let requests = Arc::new(requests);
        self.write(Kind::Submit, units, move |session| {
            let requests = Arc::clone(&requests);
            Box::pin(async move { session.admit_requested(&requests).await })
        })
    }

    fn claim(
        &self,
        requests: Vec<ClaimRequest>,
    ) -> Answer<'_, Vec<Result<Vec<Claimed>, WorkerRefusal>>> {
        let kind = Kind::Claim(HashSet::new(), workers(&requests));
        let requests = Arc::new(requests);
        let units = requests.len();
        self.write(kind, units, move |session| {
            let requests = Arc::clone(&requests);
            Box::pin(async move { claim(session, &requests).await })
        })
    }

    fn execute(&self, commands: Vec<Command>) -> Answer<'_, Vec<Result<Changed, Refusal>>> {
        let kind = Kind::Execute(tasks(&commands));
        let commands = Arc::new(commands);
        let units = commands.len();
        self.write(kind, units, move |session| {
            let commands = Arc::clone(&commands);
            Box::pin(async move { session.execute(&commands).await })
        })
    }

    fn execute_and_claim(
        &self,
        commands: Vec<Command>,
        requests: Vec<ClaimRequest>,
    ) -> Answer<'_, ExecutedAndClaimed> {
        let kind = Kind::Claim(tasks(&commands), workers(&requests));
        let units = commands.len().max(requests.len());
        let call = Arc::new((commands, requests));
        self.write(kind, units, move |session| {
            let call = Arc::clone(&call);
            Box::pin(async move {
                let (commands, requests) = &*call;
                // Workers are locked before tasks, here as in every claim.
                session.hear(requests).await?;
                let executed = session.execute(commands).await?;
                session.flush_claimable().await?;
                Ok((executed, claim(session, requests).await?))
            })
        })
    }

    fn renew(&self, renewals: Vec<Renewal>) -> Answer<'_, Vec<Result<Renewed, WorkerRefusal>>> {
        let units = renewals.len();
        let renewals = Arc::new(renewals);
        self.write(Kind::Other, units, move |session| {
            let renewals = Arc::clone(&renewals);
            Box::pin(async move { session.renew(&renewals).await })
        })
    }

    fn overdue(&self, limit: usize) -> Answer<'_, Overdue> {
        let limit = limit.clamp(1, limits::SLICE_TASKS);
        self.write(Kind::Other, 1, move |session| {
            Box::pin(async move { session.overdue(limit).await })
        })
    }

    fn get(&self, ids: Vec<TaskId>) -> Answer<'_, Vec<Option<StoredTask>>> {
        self.read(move |view| {
            let ids = ids.clone();
            Box::pin(async move { view.get(&ids).await })
        })
    }

    fn trail(&self, id: TaskId) -> Answer<'_, Option<Trail>> {
        self.read(move |view| Box::pin(async move { view.trail(id).await }))
    }

    fn lease_ends(&self, id: TaskId) -> Answer<'_, Option<Timestamp>> {
        self.read(move |view| Box::pin(async move { view.lease_ends(id).await }))
    }

    fn list(&self, query: Query) -> Answer<'_, Page> {
        self.read(move |view| {
            let query = query.clone();
            Box::pin(async move { view.list(&query).await })
        })
    }

    fn stats(&self) -> Answer<'_, Stats> {
        self.read(|view| {
            Box::pin(async move {
                let now = view.shared.clock_of(view.transaction);
                view.stats(now).await
            })
        })
    }

    fn register(&self, spec: WorkerSpec) -> Answer<'_, WorkerId> {
        if let Err(invalid) = spec.check() {
            return Box::pin(std::future::ready(Err(invalid.into())));
        }
        let spec = Arc::new(spec);
        let call = self.write(Kind::Other, 1, move |session| {
            let spec = Arc::clone(&spec);
            Box::pin(async move { session.register(&spec).await })
        });
        Box::pin(async move { call.await? })
    }

    fn direct(
        &self,
        worker: WorkerId,
        direction: Direction,
    ) -> Answer<'_, Result<(), WorkerRefusal>> {
        self.write(Kind::Other, 1, move |session| {
            Box::pin(async move { session.direct(worker, direction).await })
        })
    }

    fn workers(&self) -> Answer<'_, Vec<Worker>> {
        self.read(|view| Box::pin(async move { view.workers().await }))
    }

    fn queues(&self) -> Answer<'_, Vec<QueueState>> {
        self.read(|view| Box::pin(async move { view.queues().await }))
    }

    fn configure(&self, queue: QueueName, settings: QueueSettings) -> Answer<'_, ()> {
        if let Err(invalid) = settings.check() {
            return Box::pin(std::future::ready(Err(invalid.into())));
        }
        let call = self.write(Kind::Other, 1, move |session| {
            let queue = queue.clone();
            Box::pin(async move { session.configure(&queue, &settings).await })
        });
        Box::pin(async move {
            let configured = call.await?;
            self.shared.gauges.forget();
            configured
        })
    }

    fn announce_purge(&self, queues: Vec<QueueName>) -> Answer<'_, ()> {
        let queues = Arc::new(queues);
        self.write(Kind::Other, 1, move |session| {
            let queues = Arc::clone(&queues);
            Box::pin(async move { session.announce_purge(&queues).await })
        })
    }

    fn add_api_key(&self, key: NewApiKey) -> Answer<'_, Result<ApiKey, ApiKeyRefusal>> {
        let key = Arc::new(key);
        self.write(Kind::Other, 1, move |session| {
            let key = Arc::clone(&key);
            Box::pin(async move { session.add_api_key(&key).await })
        })
    }

    fn api_keys(&self) -> Answer<'_, Vec<ApiKey>> {
        self.read(|view| Box::pin(async move { view.api_keys().await }))
    }

    fn revoke_api_key(&self, id: ApiKeyId) -> Answer<'_, Option<ApiKey>> {
        self.write(Kind::Other, 1, move |session| {
            Box::pin(async move { session.revoke_api_key(id).await })
        })
    }

    fn append_audit(&self, entries: Vec<AuditEntry>) -> Answer<'_, Vec<AuditRecord>> {
        let entries = Arc::new(entries);
        self.write(Kind::Other, 1, move |session| {
            let entries = Arc::clone(&entries);
            Box::pin(async move { session.append_audit(&entries).await })
        })
    }

    fn audit(&self, from: AuditFrom, limit: usize) -> Answer<'_, Vec<AuditRecord>> {
        self.read(move |view| Box::pin(async move { view.audit(from, limit).await }))
    }

    fn events_after(&self, cursor: Cursor, limit: usize) -> Answer<'_, FeedPage> {
        let shared = Arc::clone(&self.shared);
        self.spawn(async move {
            shared.sequence().await?;
            shared
                .read(move |view| Box::pin(async move { view.events_after(cursor, limit).await }))
                .await
        })
    }

    fn head(&self) -> Answer<'_, Cursor> {
        let shared = Arc::clone(&self.shared);
        self.spawn(async move {
            let position = shared.sequence().await?;
            let epoch = shared.epoch().await?;
            Ok(Cursor { epoch, position })
        })
    }

    fn watch(&self) -> watch::Receiver<Signal> {
        self.shared.signals.subscribe()
    }

    fn claimable_since(&self, seen: u64) -> Option<Vec<Lane>> {
        let numbers = self.shared.signals.since(seen)?;
        // A lane that cannot be named could be any.
        let lane = |number| self.shared.lanes.get(number).map(|known| known.lane);
        numbers.into_iter().map(lane).collect()
    }

    fn prune(&self, prune: Prune) -> Answer<'_, Pruned> {
        let shared = Arc::clone(&self.shared);
        self.spawn(async move {
            // Events are kept by their numbers.
            shared.sequence().await?;
            shared.keep_partitions().await;
            shared
                .write(1, move |session| Box::pin(async move { session.prune(&prune).await }))
                .await
        })
    }

    fn backup(&self, _to: &Path) -> Answer<'_, ()> {
        let text = "this store is backed up by PostgreSQL's own tools: pg_dump, or archived WAL";
        Box::pin(std::future::ready(Err(StoreError::Unsupported(text))))
    }

    fn check(&self) -> Answer<'_, Vec<Finding>> {
        self.read(|view| Box::pin(async move { view.check().await }))
    }

    fn status(&self) -> Status {
        let figures = Figures {
            commit_micros: self.shared.commit_micros.spread(),
            commit_events: self.shared.commit_events.spread(),
            ..Figures::default()
        };
        Status { durability: Durability::Committed, trouble: self.shared.troubles.told(), figures }
    }

    fn now(&self) -> Timestamp {
        self.shared.now()
    }
}
