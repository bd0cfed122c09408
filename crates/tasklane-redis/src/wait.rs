//! What the answer to a write waits for.

use std::time::Duration;

use redis::{Cmd, Value};
use tasklane_store::StoreError;

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

    /// What an answer to that command makes of a write that was made.
    pub(crate) fn judge(self, answer: Option<Value>) -> Result<(), StoreError> {
        if self.is_met(answer.unwrap_or_default()) {
            return Ok(());
        }
        let text = "Redis has written it, but not as many replicas as configured, or its file was not \
                    synced in time";
        Err(StoreError::OutcomeUnknown(text.into()))
    }

    /// Whether an answer is enough. One that cannot be read is not.
    fn is_met(self, answer: Value) -> bool {
        let number = |value| value::integer(value).unwrap_or_default();
        match self {
            Self::Nothing => true,
            Self::Replicas(count) => number(answer) >= i64::from(count),
            Self::File { replicas } => {
                let mut counts = value::array(answer).unwrap_or_default().into_iter().map(number);
                let mut next = || counts.next().unwrap_or_default();
                next() >= 1 && next() >= i64::from(replicas)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counts: &[i64]) -> Value {
        Value::Array(counts.iter().map(|count| Value::Int(*count)).collect())
    }

    fn is_unknown(wait: Wait, answer: Option<Value>) -> bool {
        match wait.judge(answer) {
            Ok(()) => false,
            Err(StoreError::OutcomeUnknown(_)) => true,
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_file_that_is_not_synced_is_an_unknown_outcome_however_many_replicas_have_it() {
        for replicas in [0, 1, 2] {
            assert!(is_unknown(Wait::File { replicas }, Some(counts(&[0, 3]))));
            assert!(!is_unknown(Wait::File { replicas }, Some(counts(&[1, 3]))));
        }
    }

    #[test]
    fn one_replica_too_few_is_an_unknown_outcome() {
        let file = Wait::File { replicas: 2 };
        let found = [1, 2, 3].map(|count| is_unknown(file, Some(counts(&[1, count]))));
        assert_eq!(found, [true, false, false]);
        let found = [1, 2, 3].map(|count| is_unknown(Wait::Replicas(2), Some(Value::Int(count))));
        assert_eq!(found, [true, false, false]);
    }

    #[test]
    fn what_is_no_answer_confirms_nothing() {
        let odd = || Value::SimpleString("soon".into());
        let answers = [None, Some(Value::Nil), Some(odd()), Some(Value::Array(vec![odd(), odd()]))];
        for answer in answers {
            for wait in [Wait::File { replicas: 0 }, Wait::Replicas(1)] {
                assert!(is_unknown(wait, answer.clone()), "{wait:?}: {answer:?}");
            }
            assert!(!is_unknown(Wait::Nothing, answer));
        }
    }

    #[test]
    fn one_local_file_is_asked_for_besides_the_replicas() {
        let command = Wait::File { replicas: 2 }.command(Duration::from_secs(1)).unwrap();
        let sent = String::from_utf8(command.get_packed_command()).unwrap();
        assert_eq!(sent, "*4\r\n$7\r\nWAITAOF\r\n$1\r\n1\r\n$1\r\n2\r\n$4\r\n1000\r\n");
    }
}
