//! What the store answers.

use std::fmt;
use std::str::FromStr;

use tasklane_core::{LeaseToken, StateName, TaskId, WorkerId};

use super::words::{Malformed, Parts, Words};

/// The answer to one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The worker is known.
    Registered(WorkerId),
    /// The tasks were taken.
    Submitted(Vec<Taken>),
    /// These tasks are the worker's.
    Claimed(Vec<Grant>),
    /// It was done.
    Changed {
        /// The state after it.
        state: StateName,
        /// It had been done before.
        repeated: bool,
    },
    /// It was refused, and nothing was changed.
    Refused(String),
    /// The store was away, or its answer was: it may have been done, and may yet be.
    Unknown(String),
    /// The store failed, which it must not; what became of the call is not known.
    Trouble(String),
}

/// A task that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Its id, which is another than the one sent if its key came before.
    pub id: TaskId,
    /// It was there before.
    pub replayed: bool,
}

/// A task that was claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The task.
    pub task: TaskId,
    /// The proof.
    pub token: LeaseToken,
    /// What outside systems compare.
    pub fence: u64,
    /// What its payload says it is made of.
    pub body: u64,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registered(worker) => write!(f, "registered {worker}"),
            Self::Submitted(taken) => {
                f.write_str("submitted")?;
                taken.iter().try_for_each(|taken| write!(f, " {}/{}", taken.id, taken.replayed))
            }
            Self::Claimed(grants) => {
                f.write_str("claimed")?;
                grants.iter().try_for_each(|Grant { task, token, fence, body }| {
                    write!(f, " {task}/{token}/{fence}/{body}")
                })
            }
            Self::Changed { state, repeated } => write!(f, "changed {state} {repeated}"),
            Self::Refused(why) => write!(f, "refused {}", one_line(why)),
            Self::Unknown(why) => write!(f, "unknown {}", one_line(why)),
            Self::Trouble(why) => write!(f, "trouble {}", one_line(why)),
        }
    }
}

impl FromStr for Answer {
    type Err = Malformed;
    fn from_str(line: &str) -> Result<Self, Malformed> {
        let mut words = Words::new(line);
        Ok(match words.word()? {
            "registered" => Self::Registered(words.value()?),
            "submitted" => Self::Submitted(words.map(str::parse).collect::<Result<_, _>>()?),
            "claimed" => Self::Claimed(words.map(str::parse).collect::<Result<_, _>>()?),
            "changed" => {
                let state = StateName::from_word(words.word()?);
                let state = state.ok_or_else(|| words.malformed())?;
                Self::Changed { state, repeated: words.value()? }
            }
            "refused" => Self::Refused(words.remainder().to_owned()),
            "unknown" => Self::Unknown(words.remainder().to_owned()),
            "trouble" => Self::Trouble(words.remainder().to_owned()),
            _ => return Err(words.malformed()),
        })
    }
}

impl FromStr for Taken {
    type Err = Malformed;
    fn from_str(word: &str) -> Result<Self, Malformed> {
        let mut parts = Parts::new(word);
        Ok(Self { id: parts.value()?, replayed: parts.value()? })
    }
}

impl FromStr for Grant {
    type Err = Malformed;
    fn from_str(word: &str) -> Result<Self, Malformed> {
        let mut parts = Parts::new(word);
        Ok(Self {
            task: parts.value()?,
            token: parts.value()?,
            fence: parts.value()?,
            body: parts.value()?,
        })
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
