//! Calls on queues and counters.

use tasklane_core::Priority;

use super::client::Client;
use super::error::Error;
use super::request::{Call, part};
use crate::wire::{Changed, Minutes, Queue, QueuePage, QueuePatch, QueueStats};

/// What a server gives at once.
const QUEUES_AT_ONCE: u32 = 1_000;

impl Client {
    /// The counters of one queue, or of all.
    pub async fn queue_stats(&self, queue: Option<&str>) -> Result<QueueStats, Error> {
        self.ask(Call::get("/api/v1/queue/stats").with_some("queue", queue)).await
    }

    /// What was done in the last minutes, up to 1,440 of them; 60 if absent.
    pub async fn minutes(&self, count: Option<u32>) -> Result<Minutes, Error> {
        self.ask(Call::get("/api/v1/stats/minutes").with_some("minutes", count)).await
    }

    /// All queues, by name: asks for page after page.
    pub async fn list_queues(&self) -> Result<Vec<Queue>, Error> {
        let (mut queues, mut cursor) = (Vec::new(), None);
        loop {
            let page = self.queue_page(Some(QUEUES_AT_ONCE), cursor.as_deref()).await?;
            queues.extend(page.queues);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(queues);
            }
        }
    }

    /// A page of queues, by name: up to 1,000, 50 if absent; `cursor` is that of the page before.
    pub async fn queue_page(
        &self,
        limit: Option<u32>,
        cursor: Option<&str>,
    ) -> Result<QueuePage, Error> {
        let call = Call::get("/admin/queues").with_some("limit", limit);
        self.ask(call.with_some("cursor", cursor)).await
    }

    /// Looks at a queue.
    pub async fn get_queue(&self, queue: &str) -> Result<Queue, Error> {
        self.ask(Call::get(path(queue))).await
    }

    /// Changes the settings of a queue.
    pub async fn update_queue(&self, queue: &str, patch: &QueuePatch) -> Result<Queue, Error> {
        self.ask(Call::patch(path(queue)).json(patch)?).await
    }

    /// Pauses a queue: nothing is claimed from it.
    pub async fn pause_queue(&self, queue: &str) -> Result<Queue, Error> {
        self.ask(Call::post(format!("{}/pause", path(queue))).safe()).await
    }

    /// Resumes a queue.
    pub async fn resume_queue(&self, queue: &str) -> Result<Queue, Error> {
        self.ask(Call::post(format!("{}/resume", path(queue))).safe()).await
    }

    /// Cancels what waits at a priority, in one queue, in queues that begin so with `*`, or in
    /// all; up to 10,000 tasks a call, and `more` says that there are more.
    pub async fn purge_priority(
        &self,
        priority: Priority,
        queue: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<Changed, Error> {
        let call = Call::delete(path(priority.as_str()));
        self.ask(call.with_some("queue", queue).with_some("cursor", cursor)).await
    }
}

fn path(queue: &str) -> String {
    format!("/admin/queues/{}", part(queue))
}
