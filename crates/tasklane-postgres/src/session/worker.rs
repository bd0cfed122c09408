//! Workers come, are directed, and go.

use tasklane_core::lifecycle::Elapsed;
use tasklane_core::{
    Intent, Invalid, LeaseToken, Problem, TaskId, WorkerId, WorkerSpec, WorkerState, limits,
};
use tasklane_store::{Direction, StoreError, Subject, WorkerChange, WorkerRefusal, codec};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Session;
use super::change::ON_ITS_OWN;
use crate::fault::Fault;
use crate::rows::{self, time, worker_uuid};

impl Session<'_> {
    pub(crate) async fn register(
        &mut self,
        spec: &WorkerSpec,
    ) -> Result<Result<WorkerId, StoreError>, Fault> {
        let count = self.transaction.one("SELECT count(*) FROM worker", &[]).await?;
        if count.get::<_, i64>(0) >= limits::WORKERS_MAX as i64 {
            let max = limits::WORKERS_MAX;
            return Ok(Err(Invalid::new("workers", Problem::TooMany { max }).into()));
        }
        let id = WorkerId::generate(self.now, &mut self.random());
        let record = codec::encode_worker(spec, WorkerState::Active);
        let (worker, now) = (worker_uuid(id), self.now.as_micros());
        let sql = "INSERT INTO worker(worker, state, record, registered_at, changed_at)
                   VALUES ($1, 0, $2, $3, $3)";
        let parameters =
            [(&worker as _, Type::UUID), (&record as _, Type::BYTEA), (&now as _, Type::INT8)];
        self.transaction.execute(sql, &parameters).await?;
        let sql = "INSERT INTO alive(worker, seen_at, renewals, renewed_until)
                   VALUES ($1, $2, 0, 0)";
        let parameters = [(&worker as _, Type::UUID), (&now as _, Type::INT8)];
        self.transaction.execute(sql, &parameters).await?;
        self.announce(&Subject::Worker(id, WorkerChange::Joined));
        Ok(Ok(id))
    }

    pub(crate) async fn direct(
        &mut self,
        id: WorkerId,
        direction: Direction,
    ) -> Result<Result<(), WorkerRefusal>, Fault> {
        let worker = worker_uuid(id);
        let sql = "SELECT record FROM worker WHERE worker = $1 FOR NO KEY UPDATE";
        let found = self.transaction.query(sql, &[(&worker, Type::UUID)]).await?;
        let Some(row) = found.first() else { return Ok(Err(WorkerRefusal::Gone)) };
        let (spec, is) = codec::decode_worker(row.get(0))?;
        if is == WorkerState::Dead {
            return Ok(Err(WorkerRefusal::Gone));
        }
        let (state, change) = match direction {
            Direction::MarkUnhealthy if is != WorkerState::Active => return Ok(Ok(())),
            Direction::Recover if is != WorkerState::Unhealthy => return Ok(Ok(())),
            Direction::Pause => (WorkerState::Paused, WorkerChange::Paused),
            Direction::Resume | Direction::Recover => (WorkerState::Active, WorkerChange::Resumed),
            Direction::Drain => (WorkerState::Draining, WorkerChange::Draining),
            Direction::MarkUnhealthy => (WorkerState::Unhealthy, WorkerChange::Unhealthy),
            Direction::DeclareDead => {
                // A sign of life that is on its way is waited for.
                let sql = "SELECT seen_at FROM alive WHERE worker = $1 FOR UPDATE";
                let found = self.transaction.query(sql, &[(&worker, Type::UUID)]).await?;
                let seen = found.first().map(|row| time(row.get(0))).unwrap_or_default();
                if self.now < seen.plus(self.shared.rules.silence) {
                    return Ok(Err(WorkerRefusal::Alive));
                }
                (WorkerState::Dead, WorkerChange::Dead)
            }
            Direction::Leave => return self.depart(id).await.map(Ok),
        };
        if is != state {
            let sql =
                "UPDATE worker SET state = $2, record = $3, changed_at = $4 WHERE worker = $1";
            let number = WorkerState::ALL.iter().position(|known| *known == state);
            let number = number.unwrap_or_default() as i16;
            let (record, now) = (codec::encode_worker(&spec, state), self.now.as_micros());
            let parameters = [
                (&worker as _, Type::UUID),
                (&number as _, Type::INT2),
                (&record as _, Type::BYTEA),
                (&now as _, Type::INT8),
            ];
            self.transaction.execute(sql, &parameters).await?;
            self.announce(&Subject::Worker(id, change));
        }
        Ok(Ok(()))
    }

    /// What it has not started goes back; what it runs keeps its lease until that ends (S6).
    async fn depart(&mut self, id: WorkerId) -> Result<(), Fault> {
        let worker = worker_uuid(id);
        let sql = "SELECT id, token FROM lease WHERE worker = $1 AND NOT running ORDER BY id";
        let found = self.transaction.query(sql, &[(&worker, Type::UUID)]).await?;
        let mut unstarted = Vec::new();
        for row in found {
            let token = LeaseToken::from_bytes(row.get::<_, Uuid>(1).into_bytes());
            unstarted.push((rows::task_id(row.get(0))?, token));
        }
        let ids: Vec<TaskId> = unstarted.iter().map(|(id, _)| *id).collect();
        self.load_with_keys(&ids).await?;
        for (task, token) in unstarted {
            let gone = Elapsed { assignment: true, ..Elapsed::default() };
            // Core can only refuse what is no longer assigned.
            let _ = self.execute_one(task, &Intent::Unassign(token), Some(gone)).await?;
        }
        self.flush().await?;
        self.remove_workers(&[worker]).await?;
        self.announce(&Subject::Worker(id, WorkerChange::Left));
        Ok(())
    }

    /// Removes workers; each lease they hold goes on by itself.
    pub(super) async fn remove_workers(&self, workers: &[Uuid]) -> Result<(), Fault> {
        let sql = "UPDATE lease l SET since = $2, ends_at =
                       CASE WHEN a.renewals > l.since THEN a.renewed_until ELSE l.ends_at END
                   FROM alive a WHERE a.worker = l.worker AND l.worker = ANY($1)";
        let parameters = [(&workers as _, Type::UUID_ARRAY), (&ON_ITS_OWN as _, Type::INT8)];
        self.transaction.execute(sql, &parameters).await?;
        for sql in [
            "DELETE FROM alive WHERE worker = ANY($1)",
            "DELETE FROM worker WHERE worker = ANY($1)",
        ] {
            self.transaction.execute(sql, &[(&workers, Type::UUID_ARRAY)]).await?;
        }
        Ok(())
    }
}
