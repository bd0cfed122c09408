//! What the parent asks of the store.

use std::fmt;
use std::str::FromStr;

use tasklane_core::{LeaseToken, TaskId, WorkerId};

use super::words::{Malformed, Parts, Words};

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Makes a worker known.
    Register,
    /// Submits tasks, all or none.
    Submit(Vec<Plan>),
    /// Asks for tasks.
    Claim {
        /// For whom.
        worker: WorkerId,
        /// How many at most.
        count: usize,
        /// Straight to `running`.
        auto_start: bool,
    },
    /// The worker begins.
    Start(Hold),
    /// The worker says how it ended.
    Settle(Hold, Ending),
    /// Withdraws a task.
    Cancel(TaskId),
    /// An operator revives a task.
    Retry(TaskId),
}

/// A task to submit. Everything but id and key follows from `body`, so that a resend is the same
/// request, and so that the store's content can be compared with what was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Chosen by the client.
    pub id: TaskId,
    /// What the rest is made of.
    pub body: u64,
    /// The idempotency key.
    pub key: Option<Box<str>>,
}

/// A lease as the worker knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hold {
    /// The task.
    pub task: TaskId,
    /// The proof.
    pub token: LeaseToken,
}

/// How a worker says an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Done.
    Completed,
    /// Failed, may be retried.
    Failed,
    /// Failed for good.
    FailedForGood,
    /// Stopped.
    Cancelled,
    /// Given back.
    Released,
    /// Given back, not before a moment.
    Delayed,
}

impl Ending {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Completed,
        Self::Failed,
        Self::FailedForGood,
        Self::Cancelled,
        Self::Released,
        Self::Delayed,
    ];

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::FailedForGood => "failed_for_good",
            Self::Cancelled => "cancelled",
            Self::Released => "released",
            Self::Delayed => "delayed",
        }
    }
}

impl FromStr for Ending {
    type Err = Malformed;
    fn from_str(word: &str) -> Result<Self, Malformed> {
        let found = Self::ALL.into_iter().find(|ending| ending.as_str() == word);
        found.ok_or_else(|| Malformed(word.to_owned()))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.as_deref().unwrap_or("-");
        write!(f, "{}/{}/{key}", self.id, self.body)
    }
}

impl FromStr for Plan {
    type Err = Malformed;
    fn from_str(word: &str) -> Result<Self, Malformed> {
        let mut parts = Parts::new(word);
        let (id, body) = (parts.value()?, parts.value()?);
        let key = Some(parts.part()?).filter(|key| *key != "-").map(Box::from);
        Ok(Self { id, body, key })
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register => f.write_str("register"),
            Self::Submit(plans) => {
                f.write_str("submit")?;
                plans.iter().try_for_each(|plan| write!(f, " {plan}"))
            }
            Self::Claim { worker, count, auto_start } => {
                write!(f, "claim {worker} {count} {auto_start}")
            }
            Self::Start(hold) => write!(f, "start {} {}", hold.task, hold.token),
            Self::Settle(hold, ending) => {
                write!(f, "settle {} {} {}", hold.task, hold.token, ending.as_str())
            }
            Self::Cancel(task) => write!(f, "cancel {task}"),
            Self::Retry(task) => write!(f, "retry {task}"),
        }
    }
}

impl FromStr for Operation {
    type Err = Malformed;
    fn from_str(line: &str) -> Result<Self, Malformed> {
        let mut words = Words::new(line);
        Ok(match words.word()? {
            "register" => Self::Register,
            "submit" => Self::Submit(words.map(str::parse).collect::<Result<_, _>>()?),
            "claim" => Self::Claim {
                worker: words.value()?,
                count: words.value()?,
                auto_start: words.value()?,
            },
            "start" => Self::Start(hold(&mut words)?),
            "settle" => Self::Settle(hold(&mut words)?, words.value()?),
            "cancel" => Self::Cancel(words.value()?),
            "retry" => Self::Retry(words.value()?),
            _ => return Err(words.malformed()),
        })
    }
}

fn hold(words: &mut Words<'_>) -> Result<Hold, Malformed> {
    Ok(Hold { task: words.value()?, token: words.value()? })
}
