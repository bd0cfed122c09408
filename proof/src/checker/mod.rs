//! Compares what the outside world knows with what a store holds once everything has ended.
//!
//! A call took effect, if it did, somewhere between its intent and its answer; one without an
//! answer between its intent and the death of the process that served it. Every rule here holds
//! for each order that these windows allow, so a violation is never an accident of timing.
//!
//! - `story` sorts a history by task; `submit`, `claim` and `state` hold the rules

mod claim;
mod state;
mod story;
mod submit;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;

use tasklane_core::{StateName, TaskId};

use crate::content::{Mark, Stored};
use crate::history::{Answer, Ending, Operation, Record};
use story::{Calls, Stories};

/// What a store must never do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A task that was acknowledged is not there (S1, S3).
    Lost,
    /// Something is there that nobody asked for: a task, or a completion.
    Phantom,
    /// One id or one idempotency key has more than one task (S2, S13).
    Duplicated,
    /// A part of a submission is there and a part is not.
    Torn,
    /// A payload is not the one that was sent.
    Altered,
    /// A task was handed out after its completion was accepted (S4).
    ClaimedAfterCompletion,
    /// A task's completion was accepted more than once (S3).
    CompletedTwice,
    /// A later claim has no higher fence (S5).
    FenceDidNotRise,
    /// A task left its end without an operator's retry, or lost a change that was acknowledged (S4).
    WentBackwards,
    /// A claim or a settle that was acknowledged is not in the trail, or its repeat is refused (S5).
    Forgotten,
    /// A task does not come to an end though workers ask for it (S3).
    Stuck,
    /// A submission was refused, though none in these tests deserves it.
    Refused,
    /// A follower of the feed was not told of every change, in order (S17).
    Missed,
    /// The store failed, or its own check found something (S18).
    Trouble,
}

impl Class {
    /// Its words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Phantom => "phantom",
            Self::Duplicated => "duplicated",
            Self::Torn => "torn",
            Self::Altered => "altered",
            Self::ClaimedAfterCompletion => "claimed after completion",
            Self::CompletedTwice => "completed twice",
            Self::FenceDidNotRise => "fence did not rise",
            Self::WentBackwards => "went backwards",
            Self::Forgotten => "forgotten",
            Self::Stuck => "stuck",
            Self::Refused => "refused",
            Self::Missed => "missed",
            Self::Trouble => "trouble",
        }
    }
}

/// One thing that a store did and must not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which promise is broken.
    pub class: Class,
    /// Of which task, where it is of one.
    pub task: Option<TaskId>,
    /// What exactly.
    pub what: String,
}

impl Violation {
    /// A violation that is not of one task.
    pub fn trouble(what: impl Into<String>) -> Self {
        Self { class: Class::Trouble, task: None, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.class.as_str())?;
        if let Some(task) = self.task {
            write!(f, ": task {task}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// What a history amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Tasks whose submission was acknowledged.
    pub submits: u64,
    /// Tasks whose completion was acknowledged.
    pub completions: u64,
    /// Claims that were acknowledged, by task.
    pub claims: u64,
    /// Calls without an answer that could have changed a task.
    pub unknown: u64,
    /// Of those, submissions and settles that the store turned out to have carried out.
    pub recovered: u64,
}

impl Counts {
    /// Adds those of another history.
    pub const fn add(&mut self, other: &Self) {
        self.submits += other.submits;
        self.completions += other.completions;
        self.claims += other.claims;
        self.unknown += other.unknown;
        self.recovered += other.recovered;
    }

    /// What came since an earlier look at the same history.
    #[must_use]
    pub const fn minus(&self, earlier: &Self) -> Self {
        Self {
            submits: self.submits.saturating_sub(earlier.submits),
            completions: self.completions.saturating_sub(earlier.completions),
            claims: self.claims.saturating_sub(earlier.claims),
            unknown: self.unknown.saturating_sub(earlier.unknown),
            recovered: self.recovered.saturating_sub(earlier.recovered),
        }
    }
}

/// What the checker says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// What was done.
    pub counts: Counts,
    /// What was done wrong.
    pub violations: Vec<Violation>,
}

/// Judges a store by the history of what was asked and answered, and by what it holds after
/// everything in it was worked off.
pub fn check(history: &[Record], content: &[Stored]) -> Verdict {
    let mut findings = Findings::default();
    let calls = Calls::of(history, &mut findings);
    let stories = Stories::of(&calls);
    let by_id: HashMap<TaskId, &Stored> = content.iter().map(|one| (one.id, one)).collect();
    submit::check(&calls, &stories, content, &by_id, &mut findings);
    for (id, story) in stories.by_task() {
        let stored = by_id.get(&id).copied();
        claim::check(id, story, stored, &mut findings);
        state::check(id, story, stored, &mut findings);
    }
    findings.0.sort_by_key(|violation| (violation.class, violation.task));
    Verdict { counts: tally(&calls, &stories, &by_id), violations: findings.0 }
}

/// What a history amounts to by itself: nothing in it counts as recovered.
pub fn count(history: &[Record]) -> Counts {
    let calls = Calls::of(history, &mut Findings::default());
    tally(&calls, &Stories::of(&calls), &HashMap::new())
}

/// Violations as they are found.
#[derive(Debug, Default)]
struct Findings(Vec<Violation>);

impl Findings {
    fn add(&mut self, class: Class, task: TaskId, what: impl Into<String>) {
        self.0.push(Violation { class, task: Some(task), what: what.into() });
    }
}

fn tally(calls: &Calls<'_>, stories: &Stories<'_>, stored: &HashMap<TaskId, &Stored>) -> Counts {
    let mut counts = Counts::default();
    for (_, story) in stories.by_task() {
        counts.submits += u64::from(!story.taken.is_empty());
        counts.completions += u64::from(story.completions().next().is_some());
        counts.claims += story.claims.len() as u64;
    }
    for call in calls.iter() {
        if !matches!(call.answer, None | Some(Answer::Trouble(_) | Answer::Unknown(_))) {
            continue;
        }
        match call.operation {
            Operation::Register => continue,
            Operation::Submit(plans) => {
                let there = plans.iter().any(|plan| stored.contains_key(&plan.id));
                counts.recovered += u64::from(there);
            }
            Operation::Settle(hold, ending) => {
                let marks = stored.get(&hold.task).map_or(&[][..], |stored| &stored.marks);
                let done = marks.iter().any(|mark| match mark {
                    Mark::Ended { token, state } => {
                        let completed = *state == StateName::Completed;
                        *token == Some(hold.token) && completed == (*ending == Ending::Completed)
                    }
                    Mark::Left { token } => *token == Some(hold.token),
                    _ => false,
                });
                counts.recovered += u64::from(done);
            }
            _ => {}
        }
        counts.unknown += 1;
    }
    counts
}
