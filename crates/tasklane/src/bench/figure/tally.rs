//! Answers that are not as hoped for, counted by what they say.

use std::collections::BTreeMap;

use anyhow::bail;
use tasklane_client::wire::Problem;

use crate::bench::engine::{Answer, LOST, header};

/// Refusals and wrong answers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    /// The server was busy and said so.
    pub(crate) refused: u64,
    /// Everything else: lost connections, errors of the server, refusals that do not say when to
    /// come back, tasks that never came.
    pub(crate) wrong: u64,
    /// Both, by status and word.
    pub(crate) words: BTreeMap<String, u64>,
}

impl Tally {
    /// Counts an answer that is no success. One that more load cannot explain ends the run:
    /// figures of calls that fail mean nothing.
    pub(crate) fn note(&mut self, answer: Answer<'_>) -> anyhow::Result<()> {
        let problem = serde_json::from_slice::<Problem>(answer.body).ok();
        let word = problem.as_ref().map(|problem| &*problem.problem_type).unwrap_or_default();
        match answer.status {
            429 | 503 => {
                let head = std::str::from_utf8(answer.head).unwrap_or_default();
                if header(head, "retry-after").is_some() {
                    self.refused += 1;
                    self.count(format!("{} {word}", answer.status), 1);
                } else {
                    self.wrong(&format!("{} without Retry-After", answer.status), 1);
                }
            }
            LOST => self.wrong("connection lost", 1),
            400..500 => {
                let detail = problem.as_ref().map(|problem| &*problem.detail).unwrap_or_default();
                bail!("the server refuses: {} {word}: {detail}", answer.status);
            }
            status => self.wrong(format!("{status} {word}").trim(), 1),
        }
        Ok(())
    }

    /// Counts what went wrong in another way.
    pub(crate) fn wrong(&mut self, what: &str, count: u64) {
        if count > 0 {
            self.wrong += count;
            self.count(what.to_owned(), count);
        }
    }

    fn count(&mut self, what: String, count: u64) {
        *self.words.entry(what).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn note(tally: &mut Tally, status: u16, head: &str) -> anyhow::Result<()> {
        let body = r#"{"type":"overloaded","title":"t","status":503,"detail":"d","instance":"/",
            "request_id":"r"}"#;
        let (head, body) = (head.as_bytes(), body.as_bytes());
        tally.note(Answer { status, head, body, sent_at: Instant::now() })
    }

    #[test]
    fn a_refusal_says_when_to_come_back_or_is_wrong_and_a_callers_fault_ends_it() {
        let mut tally = Tally::default();
        note(&mut tally, 503, "HTTP/1.1 503 x\r\nretry-after: 1").unwrap();
        note(&mut tally, 503, "HTTP/1.1 503 x").unwrap();
        note(&mut tally, 500, "").unwrap();
        note(&mut tally, LOST, "").unwrap();
        assert_eq!((tally.refused, tally.wrong), (1, 3));
        let words: Vec<_> = tally.words.keys().map(String::as_str).collect();
        let expected =
            ["500 overloaded", "503 overloaded", "503 without Retry-After", "connection lost"];
        assert_eq!(words, expected);
        let ended = note(&mut tally, 422, "").unwrap_err();
        assert_eq!(ended.to_string(), "the server refuses: 422 overloaded: d");
    }
}
