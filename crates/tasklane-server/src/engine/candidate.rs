//! Who could take a pending task, and why nobody does.

use tasklane_core::{CapabilitySet, State, Worker, WorkerState};

use super::breaker::Breaker;
use super::explain::{Facts, Obstacle};

/// What a worker could do about a task right now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readiness {
    Ready,
    Full,
    Paused,
    Draining,
    Unhealthy,
    Silent,
    Withheld,
}

/// Why no worker takes the task; empty if one could.
pub(super) fn obstacles(facts: &Facts<'_>) -> Vec<Obstacle> {
    let lane = &facts.task.spec.lane;
    let live: Vec<_> =
        facts.workers.iter().filter(|(worker, _)| worker.state != WorkerState::Dead).collect();
    if live.is_empty() {
        return vec![counted("no_workers", "no worker is registered", 0)];
    }
    let takes_names = |worker: &Worker| {
        let selection = &worker.spec.selection;
        selection.queues.contain(lane.queue.as_str())
            && selection.types.contain(lane.task_type.as_str())
    };
    let near: Vec<_> = live.iter().filter(|(worker, _)| takes_names(worker)).collect();
    if near.is_empty() {
        let (queue, task_type) = (&lane.queue, &lane.task_type);
        let live = live.len();
        let detail = format!("none of {live} workers takes queue {queue} and type {task_type}");
        return vec![counted("no_worker_takes_it", &detail, live)];
    }
    let able: Vec<_> = near
        .iter()
        .filter(|(worker, _)| lane.capabilities.is_subset_of(&worker.spec.selection.capabilities))
        .collect();
    if able.is_empty() {
        let workers = near.iter().map(|(worker, _)| worker);
        return vec![missing(&lane.capabilities, workers)];
    }
    let states: Vec<_> =
        able.iter().map(|(worker, breaker)| readiness(worker, *breaker, facts)).collect();
    if states.contains(&Readiness::Ready) {
        return Vec::new();
    }
    let kinds = [
        (Readiness::Full, "workers_full", "hold as many tasks as they may"),
        (Readiness::Paused, "workers_paused", "are paused"),
        (Readiness::Draining, "workers_draining", "finish what they have and take no more"),
        (Readiness::Unhealthy, "workers_unhealthy", "report trouble, or fail in a row"),
        (Readiness::Silent, "workers_silent", "have not been heard of for too long"),
        (Readiness::Withheld, "withheld", "gave it back a moment ago"),
    ];
    let obstacle = |(kind, code, text): (Readiness, &'static str, &str)| {
        let count = states.iter().filter(|state| **state == kind).count();
        let detail = format!("{count} of {} workers that could take it {text}", able.len());
        let withheld = match &facts.task.state {
            State::Pending { withheld } if kind == Readiness::Withheld => *withheld,
            _ => None,
        };
        (count > 0).then(|| Obstacle {
            until: withheld.map(|withheld| withheld.until),
            worker: withheld.map(|withheld| withheld.worker),
            ..counted(code, &detail, count)
        })
    };
    kinds.into_iter().filter_map(obstacle).collect()
}

fn readiness(worker: &Worker, breaker: Breaker, facts: &Facts<'_>) -> Readiness {
    let withheld = matches!(&facts.task.state, State::Pending { withheld: Some(withheld) }
        if withheld.worker == worker.id && withheld.until > facts.now);
    match worker.state {
        WorkerState::Paused => Readiness::Paused,
        WorkerState::Draining => Readiness::Draining,
        WorkerState::Unhealthy => Readiness::Unhealthy,
        WorkerState::Active | WorkerState::Dead => match breaker.allows(1) {
            0 => Readiness::Unhealthy,
            _ if facts.now.since(worker.seen_at) > facts.lease => Readiness::Silent,
            _ if worker.leases >= worker.spec.capacity => Readiness::Full,
            _ if withheld => Readiness::Withheld,
            _ => Readiness::Ready,
        },
    }
}

/// Which capability the nearest worker lacks.
fn missing<'a>(wanted: &CapabilitySet, workers: impl Iterator<Item = &'a Worker>) -> Obstacle {
    let lacks = |worker: &Worker| {
        let own = worker.spec.selection.capabilities.intersection(wanted);
        let lacking = wanted.iter().filter(|one| !own.iter().any(|other| other == *one));
        lacking.map(|capability| capability.as_str().to_owned()).collect::<Vec<_>>()
    };
    let nearest = workers.map(|worker| (lacks(worker), worker.id)).min_by_key(|(l, _)| l.len());
    let (lacking, worker) = match nearest {
        Some((lacking, worker)) => (lacking, Some(worker)),
        None => (Vec::new(), None),
    };
    let detail = format!(
        "no worker that takes its queue and type has every capability it needs; the nearest lacks {}",
        lacking.join(", ")
    );
    Obstacle { worker, ..Obstacle::new("missing_capability", detail) }
}

fn counted(code: &'static str, detail: &str, count: usize) -> Obstacle {
    Obstacle { count: Some(count as u64), ..Obstacle::new(code, detail) }
}
