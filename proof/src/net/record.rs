//! What the roles sent and were answered, as lines of words in a file of each.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tasklane_core::TaskId;

use crate::Failure;

/// One thing that was sent, or answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A submission is about to be sent for the first time.
    Sent(TaskId),
    /// It was answered: the task is taken. Whether it was there already.
    Taken(TaskId, bool),
    /// Calls that nothing came back of, or "perhaps", so far.
    Unanswered(u64),
    /// A completion was accepted, with this token.
    Completed(TaskId, String),
    /// A completion was refused, for its lease was over: somebody else has the task.
    Late(TaskId, String),
    /// A token of a lease that was given up was shown, and this status came back.
    Stale(TaskId, u16),
    /// The feed told of a task.
    Told(TaskId, String),
    /// The follower came back to the feed.
    Resumed,
    /// An answer that there should not be.
    Wrong(String),
}

impl Record {
    fn to_line(&self) -> String {
        match self {
            Self::Sent(id) => format!("sent {id}"),
            Self::Taken(id, replayed) => format!("taken {id} {replayed}"),
            Self::Unanswered(count) => format!("unanswered {count}"),
            Self::Completed(id, token) => format!("completed {id} {token}"),
            Self::Late(id, token) => format!("late {id} {token}"),
            Self::Stale(id, status) => format!("stale {id} {status}"),
            Self::Told(id, kind) => format!("told {id} {kind}"),
            Self::Resumed => "resumed".into(),
            Self::Wrong(what) => format!("wrong {}", what.replace('\n', " ")),
        }
    }

    fn of_line(line: &str) -> Result<Self, Failure> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
        let id = || first.parse::<TaskId>().map_err(|_| format!("{line}: no id"));
        Ok(match word {
            "sent" => Self::Sent(id()?),
            "taken" => Self::Taken(id()?, second == "true"),
            "unanswered" => Self::Unanswered(first.parse()?),
            "completed" => Self::Completed(id()?, second.into()),
            "late" => Self::Late(id()?, second.into()),
            "stale" => Self::Stale(id()?, second.parse()?),
            "told" => Self::Told(id()?, second.into()),
            "resumed" => Self::Resumed,
            "wrong" => Self::Wrong(rest.into()),
            _ => return Err(format!("{line}: no record").into()),
        })
    }
}

/// A file of records, shared by the threads of a role.
#[derive(Debug)]
pub struct Records(Mutex<File>);

impl Records {
    /// A new file.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        Ok(Self(Mutex::new(File::create(path)?)))
    }

    /// Adds one. A file that cannot be written ends the role: nothing can be shown without it.
    pub fn add(&self, record: &Record) -> Result<(), Failure> {
        let line = record.to_line() + "\n";
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes())?;
        Ok(())
    }

    /// All that a file has. A line without an end was not finished.
    pub fn read(path: &Path) -> Result<Vec<Record>, Failure> {
        let text = std::fs::read_to_string(path)?;
        let whole = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or_default());
        whole.lines().map(Record::of_line).collect()
    }
}

#[cfg(test)]
mod tests {
    use tasklane_core::SeededRandom;

    use super::*;

    #[test]
    fn what_is_written_is_read_and_half_a_line_is_not() {
        let id = TaskId::generate(1, 1, &mut SeededRandom::new(1));
        let records = vec![
            Record::Sent(id),
            Record::Taken(id, true),
            Record::Taken(id, false),
            Record::Unanswered(7),
            Record::Completed(id, "abc".into()),
            Record::Late(id, "abc".into()),
            Record::Stale(id, 409),
            Record::Told(id, "task.claimed".into()),
            Record::Resumed,
            Record::Wrong("a poll got 500".into()),
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records");
        let file = Records::create(&path).unwrap();
        records.iter().for_each(|record| file.add(record).unwrap());
        file.0.lock().unwrap().write_all(b"sent 0").unwrap();
        assert_eq!(Records::read(&path).unwrap(), records);
    }
}
