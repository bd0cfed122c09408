//! Workers' own calls, and operators' on workers.

use std::time::Duration;

use tasklane_core::WorkerId;

use super::client::Client;
use super::error::Error;
use super::request::Call;
use crate::wire::{
    Heartbeat, HeartbeatAnswer, LeaseRef, Poll, PollAnswer, ProgressAnswer, ProgressReport,
    Register, Registered, ReportVerdict, Reports, ReportsAnswer, Start, StartAnswer, Worker,
    WorkerPage,
};

/// Which workers to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListWorkers {
    /// In this state: `active`, `paused`, `draining`, `unhealthy` or `dead`.
    pub state: Option<Box<str>>,
    /// How many at most: up to 1,000; 50 if absent.
    pub limit: Option<u32>,
    /// Go on after an earlier page: its `next_cursor`.
    pub cursor: Option<Box<str>>,
}

/// What a worker says of itself.
impl Client {
    /// Makes a worker known.
    pub async fn register(&self, register: &Register) -> Result<Registered, Error> {
        self.ask(Call::post("/internal/workers/register").json(register)?.safe()).await
    }

    /// Claims tasks. An answer that got lost has its tasks given back, so that asking again is safe.
    pub async fn poll(&self, worker: WorkerId, poll: &Poll) -> Result<PollAnswer, Error> {
        let wait = Duration::from_millis(poll.wait_ms);
        self.ask(own(worker, "poll").json(poll)?.waits(wait)).await
    }

    /// Starts tasks that were claimed without.
    pub async fn start(
        &self,
        worker: WorkerId,
        leases: &[LeaseRef],
    ) -> Result<Vec<ReportVerdict>, Error> {
        let start = Start { tasks: Some(leases.to_vec()), ..Start::default() };
        let answer: StartAnswer = self.ask(own(worker, "start").json(&start)?).await?;
        Ok(answer.results)
    }

    /// Reports progress, which renews the lease.
    pub async fn progress(
        &self,
        worker: WorkerId,
        report: &ProgressReport,
    ) -> Result<ProgressAnswer, Error> {
        self.ask(own(worker, "progress").json(report)?).await
    }

    /// Reports results, and polls in the same round trip if asked to. Repeating it is safe (S5).
    pub async fn report(
        &self,
        worker: WorkerId,
        reports: &Reports<'_>,
    ) -> Result<ReportsAnswer, Error> {
        let wait = reports.poll.as_ref().map_or(0, |poll| poll.wait_ms);
        self.ask(own(worker, "result").json(reports)?.waits(Duration::from_millis(wait))).await
    }

    /// Renews leases, and learns what to stop.
    pub async fn heartbeat(
        &self,
        worker: WorkerId,
        heartbeat: &Heartbeat,
    ) -> Result<HeartbeatAnswer, Error> {
        self.ask(own(worker, "heartbeat").json(heartbeat)?).await
    }

    /// Takes leave. Tasks that were not started go back.
    pub async fn deregister(&self, worker: WorkerId) -> Result<(), Error> {
        self.tell(Call::delete(format!("/internal/workers/{worker}")).safe()).await
    }
}

/// What operators do.
impl Client {
    /// Lists workers, by id.
    pub async fn list_workers(&self, list: &ListWorkers) -> Result<WorkerPage, Error> {
        let call = Call::get("/admin/workers")
            .with_some("state", list.state.as_ref())
            .with_some("limit", list.limit)
            .with_some("cursor", list.cursor.as_ref());
        self.ask(call).await
    }

    /// Looks at a worker.
    pub async fn get_worker(&self, id: WorkerId) -> Result<Worker, Error> {
        self.ask(Call::get(format!("/admin/workers/{id}"))).await
    }

    /// Pauses a worker: it gets no more tasks.
    pub async fn pause_worker(&self, id: WorkerId) -> Result<Worker, Error> {
        self.direct(id, "pause").await
    }

    /// Resumes a worker: it gets tasks again.
    pub async fn resume_worker(&self, id: WorkerId) -> Result<Worker, Error> {
        self.direct(id, "resume").await
    }

    /// Drains a worker: it finishes what it has and gets no more.
    pub async fn drain_worker(&self, id: WorkerId) -> Result<Worker, Error> {
        self.direct(id, "drain").await
    }

    async fn direct(&self, id: WorkerId, verb: &str) -> Result<Worker, Error> {
        self.ask(Call::post(format!("/admin/workers/{id}/{verb}")).safe()).await
    }
}

/// All of these may come twice.
fn own(worker: WorkerId, verb: &str) -> Call {
    Call::post(format!("/internal/workers/{worker}/{verb}")).safe()
}
