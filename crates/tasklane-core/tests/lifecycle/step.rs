//! Random lives: a task and a list of things that happen around it.

use std::time::Duration;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use tasklane_core::lifecycle::Elapsed;
use tasklane_core::{
    Backoff, ErrorKind, Failure, Intent, Jitter, LeaseToken, Metadata, NewTask, OrderingKey,
    Outcome, Priority, Progress, RetryPolicy, Timestamp, Update, When,
};

use crate::life::{Life, START, plain, secs, worker};

/// A task and what is tried on it.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    task: NewTask,
    blocked: bool,
    lease_losses_max: u32,
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
enum Step {
    Claim {
        worker: u8,
        auto_start: bool,
    },
    Unblock,
    /// Seconds, forwards or backwards.
    Clock(i64),
    /// The clock reaches what the task waits for.
    Wait,
    Act {
        intent: Intent,
        key: Key,
        elapsed: Elapsed,
        key_free: bool,
    },
}

/// Which token an intent presents in place of the one it was generated with.
#[derive(Debug, Clone, Copy)]
enum Key {
    /// The newest, which is the current one while the task is leased.
    Newest,
    /// The one before it.
    Stale,
    /// One that was never handed out.
    Forged,
}

impl Plan {
    /// Plays it to the end.
    pub(crate) fn live(&self) -> Life {
        let task = self.task.clone();
        let mut life = if self.blocked { Life::blocked(task) } else { Life::of(task) };
        life.rules.lease_losses_max = self.lease_losses_max;
        for step in &self.steps {
            step.take(&mut life);
        }
        life
    }
}

impl Step {
    fn take(&self, life: &mut Life) {
        match self {
            // Refusals are as welcome as successes: the laws look at both.
            Self::Claim { worker: number, auto_start } => {
                _ = life.claim(worker(*number), *auto_start);
            }
            Self::Unblock => _ = life.unblock(),
            Self::Clock(seconds) => {
                let micros = life.now.as_micros() + seconds * 1_000_000;
                life.now = Timestamp::from_micros(micros);
            }
            Self::Wait => life.now = life.task.state.due_at().unwrap_or(life.now),
            Self::Act { intent, key, elapsed, key_free } => {
                (life.elapsed, life.key_free) = (*elapsed, *key_free);
                _ = life.act(presenting(intent, key.token(&life.tokens)));
            }
        }
    }
}

impl Key {
    fn token(self, tokens: &[LeaseToken]) -> LeaseToken {
        let token = match self {
            Self::Newest => tokens.last(),
            Self::Stale => tokens.iter().rev().nth(1),
            Self::Forged => None,
        };
        token.copied().unwrap_or(FORGED)
    }
}

const FORGED: LeaseToken = LeaseToken::from_bytes([0xEE; 16]);

fn presenting(intent: &Intent, token: LeaseToken) -> Intent {
    match intent.clone() {
        Intent::Start(_) => Intent::Start(token),
        Intent::Progress(_, progress) => Intent::Progress(token, progress),
        Intent::Settle(_, outcome) => Intent::Settle(token, outcome),
        Intent::LoseLease(_) => Intent::LoseLease(token),
        Intent::TimeOut(_) => Intent::TimeOut(token),
        Intent::Unassign(_) => Intent::Unassign(token),
        free @ (Intent::ComeDue
        | Intent::Expire
        | Intent::Cancel
        | Intent::Refuse(_)
        | Intent::Retry { .. }
        | Intent::Requeue
        | Intent::Update(_)
        | Intent::Discard) => free,
    }
}

pub(crate) fn any_plan() -> impl Strategy<Value = Plan> {
    (any_task(), any::<bool>(), 1u32..6, vec(any_step(), 1..70)).prop_map(
        |(task, blocked, lease_losses_max, steps)| {
            let blocked = blocked && task.ordering_key.is_some();
            Plan { task, blocked, lease_losses_max, steps }
        },
    )
}

fn any_task() -> impl Strategy<Value = NewTask> {
    let retry = (select(vec![Jitter::None, Jitter::Proportional, Jitter::Full]), 0u64..60);
    let limits = (0u32..7, select(vec![1u64, 600, 3_000, 9_000]));
    let times = (of(any_instant()), of(1u64..4_000));
    let flags = (any::<bool>(), any::<bool>());
    (any_priority(), limits, retry, times, flags).prop_map(
        |(priority, (retries, timeout), (jitter, initial), (schedule, expires), (keyed, dead))| {
            let backoff =
                RetryPolicy::new(Backoff::Exponential, secs(initial), 2.0, secs(300), jitter);
            let from = schedule.map_or(START, |at| at.max(START));
            NewTask {
                priority: Some(priority),
                max_retries: Some(retries),
                timeout: Some(secs(timeout)),
                retry: Some(backoff.unwrap()),
                schedule: schedule.map(When::At),
                expires: expires.map(|seconds| When::At(from.plus(secs(seconds)))),
                ordering_key: keyed.then(|| OrderingKey::new("customer 7").unwrap()),
                dead_letter: Some(dead),
                ..plain()
            }
        },
    )
}

fn any_step() -> impl Strategy<Value = Step> {
    let claim =
        (0u8..3, any::<bool>()).prop_map(|(worker, auto)| Step::Claim { worker, auto_start: auto });
    let key = prop_oneof![6 => Just(Key::Newest), 1 => Just(Key::Stale), 1 => Just(Key::Forged)];
    let act = (any_intent(), key, any_elapsed(), any::<bool>())
        .prop_map(|(intent, key, elapsed, key_free)| Step::Act { intent, key, elapsed, key_free });
    prop_oneof![
        6 => claim,
        1 => Just(Step::Unblock),
        2 => (-2_000i64..4_000).prop_map(Step::Clock),
        2 => (-2i64..3).prop_map(Step::Clock),
        3 => Just(Step::Wait),
        14 => act,
    ]
}

fn any_intent() -> impl Strategy<Value = Intent> {
    let retry = (any::<bool>(), of(any_priority()))
        .prop_map(|(reset_attempts, priority)| Intent::Retry { reset_attempts, priority });
    let progress = of(0.0..=100.0)
        .prop_map(|percent| Progress::new(percent, None, None, Some("on it"), None).unwrap());
    prop_oneof![
        3 => Just(Intent::Start(FORGED)),
        1 => progress.prop_map(|progress| Intent::Progress(FORGED, progress)),
        6 => any_outcome().prop_map(|outcome| Intent::Settle(FORGED, outcome)),
        4 => Just(Intent::ComeDue),
        1 => Just(Intent::Expire),
        5 => Just(Intent::LoseLease(FORGED)),
        1 => Just(Intent::TimeOut(FORGED)),
        1 => Just(Intent::Unassign(FORGED)),
        1 => Just(Intent::Cancel),
        1 => Just(Intent::Refuse("no".into())),
        2 => retry,
        1 => Just(Intent::Requeue),
        1 => any_update().prop_map(Intent::Update),
        1 => Just(Intent::Discard),
    ]
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    let failure = (select(ErrorKind::ALL.to_vec()), prop::bool::weighted(0.9), of(any_delay()))
        .prop_map(|(kind, retryable, retry_after)| {
            let failure = Failure::new(kind, "no luck").with_code("E1").with_stack("main");
            let failure = if retryable { failure } else { failure.not_retryable() };
            Outcome::Failed { failure, retry_after }
        });
    prop_oneof![
        1 => select(vec!["", "{}"]).prop_map(|result| Outcome::Completed(result.into())),
        8 => failure,
        1 => Just(Outcome::Cancelled),
        2 => of(any_delay()).prop_map(|delay| Outcome::Released { delay }),
    ]
}

fn any_update() -> impl Strategy<Value = Update> {
    let metadata = of(select(vec!["a", "b"]))
        .prop_map(|label| label.map(|label| Metadata::new([("label", label)]).unwrap()));
    (of(any_priority()), of(any_instant()), metadata)
        .prop_map(|(priority, scheduled_at, metadata)| Update { priority, scheduled_at, metadata })
}

fn any_elapsed() -> impl Strategy<Value = Elapsed> {
    let mostly = || prop::bool::weighted(0.8);
    (mostly(), mostly(), mostly()).prop_map(|(lease, execution, assignment)| Elapsed {
        lease,
        execution,
        assignment,
    })
}

fn any_priority() -> impl Strategy<Value = Priority> {
    select(Priority::DESCENDING.to_vec())
}

/// Around the time when lives are lived, on both sides of their beginning.
fn any_instant() -> impl Strategy<Value = Timestamp> {
    (0u64..5_000).prop_map(|seconds| START.minus(secs(1_000)).plus(secs(seconds)))
}

fn any_delay() -> impl Strategy<Value = Duration> {
    (0u64..100).prop_map(secs)
}
