//! A task: what it is, and what has happened to it so far.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error::Invalid;
use crate::failure::{Failure, cut};
use crate::id::{Fence, Place, Stamp, TaskId};
use crate::limits;
use crate::spec::Spec;
use crate::state::State;
use crate::time::Timestamp;

/// A task without its payload and result, which stores keep apart and never copy.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// What it is.
    pub spec: Spec,
    /// When it was taken, and into which state.
    pub admission: Admission,
    /// Where it stands among its equals.
    pub place: Place,
    /// Where it is in its life.
    pub state: State,
    /// What has been counted.
    pub counts: Counts,
    /// The last fence handed out.
    pub fence: Fence,
    /// How long the next attempt may run: grows after a timeout (S11).
    pub timeout: Duration,
    /// Not after.
    pub expires_at: Option<Timestamp>,
    /// The last failure, without details and stack.
    pub error: Option<Arc<Failure>>,
    /// What the current or last attempt reported.
    pub progress: Option<Arc<Progress>>,
    /// An update gave it other labels than it was admitted with.
    pub relabelled: bool,
    /// When anything last changed.
    pub updated_at: Timestamp,
}

/// How a task came into the store: all that cannot be told from its [`Spec`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// When, and as which event.
    pub created: Stamp,
    /// Not before.
    pub scheduled_at: Option<Timestamp>,
    /// Not after.
    pub expires_at: Option<Timestamp>,
    /// It had to wait behind its ordering key.
    pub blocked: bool,
}

/// What a task has been through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Executions that ended in an outcome: completed, failed, timed out.
    pub attempts: u32,
    /// Claims, for display.
    pub deliveries: u32,
    /// Leases lost in a row.
    pub lease_losses: u32,
    /// Operator retries.
    pub replays: u32,
}

/// How far an attempt has come, as its worker says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Progress {
    /// 0 to 100.
    pub percent: Option<f64>,
    /// Which step.
    pub step: Option<u32>,
    /// Of how many.
    pub steps: Option<u32>,
    /// For people.
    pub message: Option<Box<str>>,
    /// More, as the worker's own JSON.
    pub details: Option<Bytes>,
    /// When it was said; set by the store.
    pub updated_at: Timestamp,
}

impl Progress {
    /// Checks the ranges; a long message is cut.
    pub fn new(
        percent: Option<f64>,
        step: Option<u32>,
        steps: Option<u32>,
        message: Option<&str>,
        details: Option<Bytes>,
    ) -> Result<Self, Invalid> {
        if percent.is_some_and(|percent| !(0.0..=100.0).contains(&percent)) {
            return Err(Invalid::out_of_range("percent", "0 to 100"));
        }
        if details.as_ref().is_some_and(|d| d.len() > limits::ERROR_DETAILS_BYTES_MAX) {
            return Err(Invalid::out_of_range("metadata", "up to 16384 bytes"));
        }
        let message = message.map(|text| cut(text, limits::PROGRESS_MESSAGE_BYTES_MAX));
        Ok(Self { percent, step, steps, message, details, updated_at: Timestamp::EPOCH })
    }
}

impl Task {
    /// The task just after its admission; everything later is events applied to this.
    pub fn admitted(id: TaskId, spec: Spec, admission: Admission) -> Self {
        let Admission { created, scheduled_at, expires_at, blocked } = admission;
        let ready_at = scheduled_at.filter(|at| *at > created.at).unwrap_or(created.at);
        let state = match (blocked, ready_at > created.at) {
            (true, _) => State::Blocked,
            (false, true) => State::Scheduled { due_at: ready_at },
            (false, false) => State::READY,
        };
        Self {
            id,
            timeout: spec.timeout,
            spec,
            admission,
            place: Place { ready_at, sequence: created.sequence },
            state,
            counts: Counts::default(),
            fence: Fence::default(),
            expires_at,
            error: None,
            progress: None,
            relabelled: false,
            updated_at: created.at,
        }
    }

    /// The number of the attempt that is running or would come next.
    pub const fn attempt(&self) -> u32 {
        self.counts.attempts + 1
    }

    /// Since when it has been in its state.
    pub fn state_since(&self) -> Timestamp {
        match &self.state {
            State::Assigned(lease) => lease.claimed.at,
            State::Running(lease) => lease.started.unwrap_or(lease.claimed).at,
            state => state.ended().map_or(self.updated_at, |ended| ended.at),
        }
    }

    /// Whether its time is over, though a worker may still hold it.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}
