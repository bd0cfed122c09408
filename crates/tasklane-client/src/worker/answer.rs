//! What a worker makes of what it learns.

use std::time::Duration;

use tasklane_core::ErrorKind;
use tokio::time::Instant;

use super::attempt::Attempt;
use super::crew::{Crew, Ending};
use super::outcome::{Done, Outcome};
use super::turn::{Asked, Event};
use crate::call::Error;
use crate::limits::CALL_WITHIN;
use crate::wire::{
    ClaimedTask, HeartbeatAnswer, LeaseRef, PollAnswer, Registered, ReportVerdict, ReportsAnswer,
};

/// The least time that a call gets, however short leases are.
const CALL_WITHIN_MIN: Duration = Duration::from_secs(5);

impl Crew {
    pub(super) fn learn(&mut self, event: Event) {
        match event {
            Event::Registered(answer) => self.registered(answer),
            Event::Polled(asked, answer) => self.polled(asked, answer),
            Event::Reported(asked, done, answer) => self.reported(asked, done, answer),
            Event::Renewed(asked, sent, answer) => self.renewed(asked, &sent, answer),
            Event::Ended(done) => {
                if self.floor.ended(done.lease.lease_token.0) {
                    self.outbox.push_back(done);
                }
            }
        }
    }

    fn registered(&mut self, answer: Result<Registered, Error>) {
        self.registering = false;
        match answer {
            Ok(registered) => {
                tracing::info!(worker = %registered.worker_id.0, "registered");
                self.answered();
                self.worker.send_replace(registered.worker_id.0);
                let lease = Duration::from_millis(registered.lease_ms);
                let within = (lease / 3).clamp(CALL_WITHIN_MIN, CALL_WITHIN);
                self.once = self.settings.client.once(within);
                self.registered = Some(registered);
                // What it holds from before is renewed by its tokens.
                self.renew_at = Instant::now();
            }
            Err(error) if passes(&error) => self.trouble("register", None, &error),
            Err(error) => {
                tracing::error!(%error, "the server does not want this worker");
                self.refused = Some(error);
                self.floor.stop_all(super::StopReason::Draining);
            }
        }
    }

    fn answered(&mut self) {
        if self.away.reset() {
            tracing::info!("the server answers again");
        }
    }

    fn polled(&mut self, asked: Asked, answer: Result<PollAnswer, Error>) {
        self.poll = None;
        match answer {
            Ok(PollAnswer { tasks, directive }) => {
                self.answered();
                let rest = tasks.is_empty() && asked.at.elapsed() < self.rest();
                self.poll_at = Instant::now() + if rest { self.rest() } else { Duration::ZERO };
                self.take_in(tasks);
                self.follow(asked, &directive);
            }
            Err(error) => self.trouble("poll", Some(asked), &error),
        }
    }

    fn reported(&mut self, asked: Asked, done: Vec<Done>, answer: Result<ReportsAnswer, Error>) {
        self.reporting = false;
        match answer {
            Ok(ReportsAnswer { results, tasks, directive, cancel }) => {
                self.answered();
                self.singly &= !self.outbox.is_empty();
                for (done, verdict) in done.iter().zip(&results) {
                    self.settled(done, verdict);
                }
                // Of those that it had before.
                self.floor.cancel(&cancel);
                self.take_in(tasks.unwrap_or_default());
                if let Some(directive) = directive {
                    self.follow(asked, &directive);
                }
            }
            Err(error) if passes(&error) || is_gone(&error) => {
                self.put_back(done);
                self.trouble("report", Some(asked), &error);
            }
            Err(error) => self.report_refused(done, &error),
        }
    }

    fn settled(&mut self, done: &Done, verdict: &ReportVerdict) {
        self.floor.settled(done.lease.lease_token.0);
        if let Some(error) = &verdict.error {
            let task = verdict.task_id.0;
            tracing::warn!(%task, error = &**error, "what came of a task was not taken");
        }
    }

    /// One of many may be at fault: then each is told alone. What is refused alone is told as what
    /// it is, a mistake of the handler.
    fn report_refused(&mut self, mut done: Vec<Done>, error: &Error) {
        if done.len() > 1 {
            self.singly = true;
            return self.put_back(done);
        }
        let Some(only) = done.pop() else { return };
        tracing::error!(task = %only.lease.task_id.0, %error, "a result was refused");
        if matches!(only.outcome, Outcome::Completed(_)) {
            let message = format!("the handler's result is not acceptable: {error}");
            let outcome = Outcome::failed(ErrorKind::Bug, &message);
            self.outbox.push_front(Done { outcome, ..only });
        } else {
            self.floor.settled(only.lease.lease_token.0);
        }
    }

    fn put_back(&mut self, done: Vec<Done>) {
        done.into_iter().rev().for_each(|done| self.outbox.push_front(done));
    }

    fn renewed(&mut self, asked: Asked, sent: &[LeaseRef], answer: Result<HeartbeatAnswer, Error>) {
        self.renewing = false;
        match answer {
            Ok(answer) => {
                self.answered();
                self.renew_at = asked.at + self.heartbeat_every();
                self.floor.renewed(asked.at, self.lease(), sent, &answer);
                self.follow(asked, &answer.directive);
            }
            // As soon as anything may be asked again.
            Err(error) => self.trouble("heartbeat", Some(asked), &error),
        }
    }

    fn take_in(&mut self, tasks: Vec<ClaimedTask>) {
        for task in tasks {
            let wanted = self.ending == Ending::No;
            let stop = self.floor.take(&task, wanted);
            if !wanted {
                // Claimed a moment too late.
                let lease = LeaseRef { task_id: task.id, lease_token: task.lease_token };
                let outcome = Outcome::Released { delay: None };
                self.outbox.push_back(Done { lease, outcome, took: Duration::ZERO });
                continue;
            }
            let attempt = Attempt {
                client: self.settings.client.clone(),
                once: self.once.clone(),
                worker: self.worker.subscribe(),
                handlers: self.handlers.clone(),
                breakers: self.breakers.clone(),
                stop,
                stop_within: self.settings.stop_within,
                task,
            };
            self.begun.spawn(async move { Event::Ended(attempt.run().await) });
        }
    }

    /// Does what the server wants besides.
    fn follow(&mut self, asked: Asked, directive: &str) {
        match directive {
            "pause" => self.poll_at = Instant::now() + self.rest(),
            "drain" => self.drain(None),
            "terminate" => self.forget(asked),
            _ => {}
        }
    }

    /// Registers again, unless that was done since.
    fn forget(&mut self, asked: Asked) {
        self.registered.take_if(|registered| registered.worker_id.0 == asked.worker);
    }

    /// The server is away, busy, or has forgotten this worker.
    fn trouble(&mut self, what: &str, asked: Option<Asked>, error: &Error) {
        let forgotten = is_gone(error);
        if let (true, Some(asked)) = (forgotten, asked) {
            self.forget(asked);
        }
        let asked = match error {
            Error::Refused { retry_after, .. } => retry_after.unwrap_or_default(),
            _ => Duration::ZERO,
        };
        // Often enough to keep leases, once the server is back.
        let pause = self.away.delay().min(self.lease() / 6).max(asked);
        self.resume_at = Instant::now() + pause;
        tracing::warn!(%error, what, forgotten, "trouble with the server; it is tried again");
    }

    fn lease(&self) -> Duration {
        let lease = self.registered.as_ref().map_or(30_000, |registered| registered.lease_ms);
        Duration::from_millis(lease)
    }

    fn heartbeat_every(&self) -> Duration {
        let every = self.registered.as_ref().map(|registered| registered.heartbeat_interval_ms);
        (self.lease() / 3).min(Duration::from_millis(every.unwrap_or(u64::MAX)))
    }

    /// Between polls that give nothing at once.
    fn rest(&self) -> Duration {
        let rest = self.registered.as_ref().map_or(1_000, |registered| registered.poll_interval_ms);
        Duration::from_millis(rest)
    }
}

/// Whether asking again may help.
fn passes(error: &Error) -> bool {
    match error {
        Error::Unreachable(_) => true,
        Error::Refused { problem, .. } => matches!(problem.status, 408 | 429 | 500..=599),
        Error::NotFound { .. } | Error::Usage(_) | Error::Unexpected(_) => false,
    }
}

/// Whether the server does not know this worker any more, or not by this key.
fn is_gone(error: &Error) -> bool {
    error.problem().is_some_and(|problem| matches!(problem.status, 401 | 403 | 410))
}
