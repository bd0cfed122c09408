//! Calls on dead letters.

use tasklane_core::TaskId;

use super::client::Client;
use super::error::Error;
use super::request::Call;
use crate::wire::{
    Changed, DeadLetterPage, DeadLetterSummary, Matched, ReplayMany, ReplayOne, Replayed,
    RetryDeadLetters, Task, TaskFilter,
};

const DEAD_LETTERS: &str = "/api/v1/dlq";

/// Which dead letters to list. Their states need not be named.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ListDeadLetters {
    /// Those that match.
    pub filter: TaskFilter,
    /// How many at most: up to 1,000; 50 if absent.
    pub limit: Option<u32>,
    /// Go on after an earlier page: its `next_cursor`.
    pub cursor: Option<Box<str>>,
    /// Also count all that match.
    pub counts: bool,
}

impl Client {
    /// Lists dead letters, the last to end first.
    pub async fn list_dead_letters(&self, list: &ListDeadLetters) -> Result<DeadLetterPage, Error> {
        let call = Call::get(DEAD_LETTERS)
            .with_filter(&stateless(&list.filter))
            .with_some("limit", list.limit)
            .with_some("cursor", list.cursor.as_ref())
            .with_flag("counts", list.counts);
        self.ask(call).await
    }

    /// Looks at a dead letter, with every attempt.
    pub async fn get_dead_letter(&self, id: TaskId) -> Result<Task, Error> {
        self.ask(Call::get(format!("{DEAD_LETTERS}/{id}"))).await
    }

    /// Dead letters grouped by what went wrong.
    pub async fn summarise_dead_letters(
        &self,
        filter: &TaskFilter,
    ) -> Result<DeadLetterSummary, Error> {
        let call = Call::get(format!("{DEAD_LETTERS}/summary"));
        self.ask(call.with_filter(&stateless(filter))).await
    }

    /// Replays a dead letter. The task as it is then.
    pub async fn replay_dead_letter(&self, id: TaskId, how: &ReplayOne) -> Result<Task, Error> {
        self.ask(Call::post(format!("{DEAD_LETTERS}/{id}/replay")).json(how)?).await
    }

    /// Replays all dead letters that match, up to 10,000 a call; `more` says that there are more.
    pub async fn replay_dead_letters(&self, which: &ReplayMany) -> Result<Replayed, Error> {
        self.ask(replay(ReplayMany { dry_run: false, ..which.clone() })?).await
    }

    /// Counts what [`replay_dead_letters`](Self::replay_dead_letters) would replay.
    pub async fn count_to_replay(&self, which: &ReplayMany) -> Result<Matched, Error> {
        self.ask(replay(ReplayMany { dry_run: true, ..which.clone() })?.safe()).await
    }

    /// Retries one dead letter, or all of them.
    pub async fn retry_dead_letters(&self, which: &RetryDeadLetters) -> Result<Replayed, Error> {
        self.ask(Call::post("/admin/dlq/retry").json(which)?).await
    }

    /// Discards a dead letter.
    pub async fn discard_dead_letter(&self, id: TaskId) -> Result<(), Error> {
        self.tell(Call::delete(format!("{DEAD_LETTERS}/{id}"))).await
    }

    /// Discards all dead letters that match, up to 10,000 a call; `more` says that there are more.
    pub async fn discard_dead_letters(
        &self,
        filter: &TaskFilter,
        cursor: Option<&str>,
    ) -> Result<Changed, Error> {
        let call = Call::delete("/admin/dlq").with_filter(&stateless(filter));
        self.ask(call.with_some("cursor", cursor)).await
    }
}

fn replay(which: ReplayMany) -> Result<Call, Error> {
    Call::post(format!("{DEAD_LETTERS}/replay")).json(&which)
}

/// These routes take no state: it is clear which.
fn stateless(filter: &TaskFilter) -> TaskFilter {
    TaskFilter { states: None, ..filter.clone() }
}
