//! What the outside world knows: an append-only file of intents and answers.
//!
//! The parent writes an intent before it sends the call, so nothing can be in the store that the
//! history does not tell of; it writes an answer when it has read it, so an answer that died in
//! the pipe counts as none. The file is written without a buffer, which is enough to outlive the
//! child; it is synced at the end of each life and before each look at the store.

mod answer;
mod operation;
mod words;

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::str::FromStr;

pub use answer::{Answer, Grant, Taken};
pub use operation::{Ending, Hold, Operation, Plan};
pub use words::Malformed;
pub(crate) use words::Words;

use crate::Failure;

/// A line of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A call is about to be made.
    Intent {
        /// Its number, used once in a history.
        call: u64,
        /// What is asked.
        operation: Operation,
    },
    /// A call was answered, and the answer was read.
    Answer {
        /// Which call.
        call: u64,
        /// What was said.
        answer: Answer,
    },
    /// The process that served is gone: what it has not done by now it never will.
    Killed,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Intent { call, operation } => write!(f, "intent {call} {operation}"),
            Self::Answer { call, answer } => write!(f, "answer {call} {answer}"),
            Self::Killed => f.write_str("killed"),
        }
    }
}

impl FromStr for Record {
    type Err = Malformed;
    fn from_str(line: &str) -> Result<Self, Malformed> {
        let mut words = Words::new(line);
        Ok(match words.word()? {
            "intent" => {
                Self::Intent { call: words.value()?, operation: words.remainder().parse()? }
            }
            "answer" => Self::Answer { call: words.value()?, answer: words.remainder().parse()? },
            "killed" => Self::Killed,
            _ => return Err(words.malformed()),
        })
    }
}

/// A history that is being written.
#[derive(Debug)]
pub struct History {
    file: File,
    calls: u64,
}

impl History {
    /// Begins a history in a new file.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        Ok(Self { file: File::create_new(path)?, calls: 0 })
    }

    /// Writes down what is about to be asked, and gives the call its number.
    pub fn intend(&mut self, operation: &Operation) -> std::io::Result<u64> {
        self.calls += 1;
        writeln_whole(&mut self.file, format!("intent {} {operation}\n", self.calls))?;
        Ok(self.calls)
    }

    /// Writes down an answer that was read.
    pub fn answered(&mut self, call: u64, answer: &Answer) -> std::io::Result<()> {
        writeln_whole(&mut self.file, format!("answer {call} {answer}\n"))
    }

    /// Writes down that the child is gone, and syncs the file.
    pub fn killed(&mut self) -> std::io::Result<()> {
        writeln_whole(&mut self.file, format!("{}\n", Record::Killed))?;
        self.sync()
    }

    /// Makes sure that all of it is on disk.
    pub fn sync(&self) -> std::io::Result<()> {
        self.file.sync_data()
    }

    /// Reads a whole history back.
    pub fn read(path: &Path) -> Result<Vec<Record>, Failure> {
        let lines = BufReader::new(File::open(path)?).lines();
        lines.map(|line| Ok(line?.parse()?)).collect()
    }
}

/// One write per line: no line is ever half in a buffer.
fn writeln_whole(file: &mut File, line: String) -> std::io::Result<()> {
    file.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0199b2c0-0000-7000-8000-000000000001";
    const TOKEN: &str = "00000000000000000000000000000007";

    #[test]
    fn every_line_survives_its_text() {
        for line in [
            format!("intent 1 submit {ID}/77/- {ID}/78/key-1"),
            "intent 2 register".into(),
            format!("intent 3 claim {ID} 8 true"),
            format!("intent 4 start {ID} {TOKEN}"),
            format!("intent 5 settle {ID} {TOKEN} failed_for_good"),
            format!("intent 6 cancel {ID}"),
            format!("intent 7 retry {ID}"),
            format!("answer 1 submitted {ID}/false {ID}/true"),
            format!("answer 2 registered {ID}"),
            format!("answer 3 claimed {ID}/{TOKEN}/99/77"),
            "answer 3 claimed".into(),
            "answer 5 changed dead_letter false".into(),
            "answer 6 refused the lease was lost or never held".into(),
            "answer 7 trouble the store is closed".into(),
            "answer 7 unknown the commit was not answered".into(),
            "killed".into(),
        ] {
            assert_eq!(line.parse::<Record>().unwrap().to_string(), line);
        }
    }

    #[test]
    fn a_broken_line_is_named() {
        let broken = "intent x register".parse::<Record>().unwrap_err();
        assert!(broken.to_string().contains("intent x register"));
        for line in ["", "intent 1", "intent 1 submit nonsense", "answer 1 changed gone true"] {
            assert!(line.parse::<Record>().is_err(), "{line}");
        }
    }

    #[test]
    fn a_written_history_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let mut history = History::create(&path).unwrap();
        let call = history.intend(&Operation::Register).unwrap();
        history.answered(call, &Answer::Refused("no".into())).unwrap();
        history.killed().unwrap();
        let expected = [
            Record::Intent { call, operation: Operation::Register },
            Record::Answer { call, answer: Answer::Refused("no".into()) },
            Record::Killed,
        ];
        assert_eq!(History::read(&path).unwrap(), expected);
        assert!(History::create(&path).is_err(), "a history is never written over");
    }
}
