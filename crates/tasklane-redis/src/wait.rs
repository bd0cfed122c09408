//! What the answer to a write waits for.

use std::time::Duration;

use redis::{Cmd, Value};

use crate::fault::Fault;
use crate::value;

/// What the answer to a write waits for, once it is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Wait {
    /// Nothing more.
    #[default]
    Nothing,
    /// That so many replicas have it.
    Replicas(u32),
    /// That it is in the server's own file, synced, and in those of so many replicas.
    File {
        /// How many.
        replicas: u32,
    },
}

impl Wait {
    /// The command that waits, to be sent right behind the write on the same connection.
    pub(crate) fn command(self, time_max: Duration) -> Option<Cmd> {
        let millis = u64::try_from(time_max.as_millis()).unwrap_or(u64::MAX);
        match self {
            Self::Nothing => None,
            Self::Replicas(count) => {
                let mut command = redis::cmd("WAIT");
                command.arg(count).arg(millis);
                Some(command)
            }
            Self::File { replicas } => {
                let mut command = redis::cmd("WAITAOF");
                command.arg(1).arg(replicas).arg(millis);
                Some(command)
            }
        }
    }

    /// Whether the answer to that command is enough.
    pub(crate) fn is_met(self, answer: Value) -> Result<bool, Fault> {
        Ok(match self {
            Self::Nothing => true,
            Self::Replicas(count) => value::integer(answer)? >= i64::from(count),
            Self::File { replicas } => {
                let mut counts = value::array(answer)?.into_iter().map(value::integer);
                let mut next = || counts.next().unwrap_or(Ok(0));
                next()? >= 1 && next()? >= i64::from(replicas)
            }
        })
    }
}
