//! Cancels what waits in the queue of a load.

use tasklane_client::wire::{StateWord, TaskFilter};
use tasklane_client::{Client, StateName};

use crate::bench::stop;

/// Cancels what waits; gives how many tasks that was.
pub(crate) async fn clean(client: &Client, queue: &str) -> anyhow::Result<u64> {
    let filter = TaskFilter {
        queue: Some(queue.into()),
        states: Some(vec![StateWord(StateName::Pending)]),
        ..TaskFilter::default()
    };
    let (mut cancelled, mut cursor) = (0, None);
    loop {
        let changed = client.cancel_tasks(&filter, cursor.as_deref()).await?;
        cancelled += changed.changed;
        cursor = changed.next_cursor;
        if !changed.more || stop::is_asked() {
            return Ok(cancelled);
        }
    }
}
