//! Tasks that were claimed for somebody who has gone, or does not get them.

use std::sync::Arc;

use tasklane_core::{Command, Intent, Outcome};
use tasklane_store::{Claimed, Store};
use tokio_util::task::TaskTracker;

/// Gives tasks back at once instead of letting their leases run out. Costs no attempt.
pub(crate) fn give_back(store: &Arc<dyn Store>, errands: &TaskTracker, tasks: Vec<Claimed>) {
    let release = |claimed: &Claimed| {
        let token = claimed.task.state.lease()?.token;
        let intent = Intent::Settle(token, Outcome::Released { delay: None });
        Some(Command { task: claimed.task.id, intent })
    };
    let commands: Vec<_> = tasks.iter().filter_map(release).collect();
    if commands.is_empty() {
        return;
    }
    let store = Arc::clone(store);
    errands.spawn(async move {
        // Should it fail, the leases end by themselves.
        if let Err(error) = store.execute(commands).await {
            tracing::warn!(%error, "tasks that nobody got could not be given back");
        }
    });
}
