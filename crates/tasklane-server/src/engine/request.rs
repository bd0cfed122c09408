//! Tasks that applications asked for inside the store itself: admitted here, by the same policies as
//! those that come in by HTTP.

use tasklane_core::{NewTask, Policies};
use tasklane_store::{Admit, Requested, apart};

use super::Engine;
use super::error::EngineError;
use crate::limits::REQUESTS_AT_ONCE;

impl Engine {
    /// Admits what has been asked for; says whether there may be more.
    pub async fn admit_requested(&self) -> Result<bool, EngineError> {
        let requested = self.store.requested(REQUESTS_AT_ONCE).await?;
        let more = requested.len() == REQUESTS_AT_ONCE;
        let settings = self.settings();
        let admits: Vec<Admit> =
            requested.into_iter().filter_map(|one| admit(one, &settings.policies)).collect();
        if admits.is_empty() {
            return Ok(false);
        }
        for when in admits.iter().filter_map(|admit| admit.draft.schedule) {
            self.alarm.at(when.resolve(self.now()));
        }
        // All are tried before one that stands in its own way is told.
        let verdicts = apart(admits, |admits| self.store.admit(admits)).await;
        verdicts.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(more)
    }
}

/// What is to become of a request. One that is refused keeps its name and its payload.
fn admit(requested: Requested, policies: &Policies) -> Option<Admit> {
    let Requested { number, task, problem } = requested;
    let plain = NewTask {
        id: task.id,
        queue: task.queue.clone(),
        ..NewTask::new(task.task_type.clone(), task.payload.clone())
    };
    let problem = match (problem, task.resolve(policies)) {
        (None, Ok(draft)) => return Some(Admit { number, draft, problem: None }),
        (Some(problem), _) | (None, Err(problem)) => problem,
    };
    let any_size = |policies| Policies { payload_bytes_max: usize::MAX, ..policies };
    let draft = plain.clone().resolve(&any_size(policies.clone())).or_else(|unfit| {
        // One that is left where it is stays in the way of all that come after it.
        tracing::error!(number, %unfit, "no task can be made of a request by these policies: it gets the defaults");
        plain.resolve(&any_size(Policies::default()))
    });
    let draft = draft.inspect_err(|error| tracing::error!(number, %error, "a request is left out"));
    Some(Admit { number, draft: draft.ok()?, problem: Some(problem) })
}

#[cfg(test)]
mod tests {
    use tasklane_core::{Policy, TaskType, limits};

    use super::*;

    #[test]
    fn no_policy_leaves_a_request_in_the_way_of_others() {
        let retries = limits::RETRIES_MAX + 1;
        let unfit = Policy { max_retries: Some(retries), ..Policy::default() };
        let task_type = TaskType::new("a").unwrap();
        let policies =
            Policies { types: [(task_type.clone(), unfit)].into(), ..Policies::default() };
        let task = NewTask::new(task_type, "1");
        let admitted = admit(Requested { number: 7, task, problem: None }, &policies).unwrap();
        assert_eq!((admitted.number, &*admitted.draft.payload), (7, &b"1"[..]));
        assert!(admitted.problem.is_some());
    }
}
