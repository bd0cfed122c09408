//! A history sorted by task.

use std::collections::{BTreeMap, HashMap};

use tasklane_core::{LeaseToken, StateName, TaskId};

use super::{Class, Findings, Violation};
use crate::history::{Answer, Ending, Operation, Record};

/// The lines of a history between which something took effect, if it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) begin: usize,
    pub(super) end: usize,
}

impl Window {
    /// Whatever the order inside the windows, this was first.
    pub(super) const fn is_before(&self, other: &Self) -> bool {
        self.end < other.begin
    }
}

/// A call with its answer, if one was read.
pub(super) struct Call<'a> {
    pub(super) window: Window,
    pub(super) operation: &'a Operation,
    pub(super) answer: Option<&'a Answer>,
}

/// All calls of a history, in the order of their intents.
pub(super) struct Calls<'a>(Vec<Call<'a>>);

impl<'a> Calls<'a> {
    pub(super) fn of(history: &'a [Record], findings: &mut Findings) -> Self {
        let mut calls: Vec<Call<'a>> = Vec::new();
        // Of calls not yet answered: number → position in `calls`.
        let mut open: HashMap<u64, usize> = HashMap::new();
        for (line, record) in history.iter().enumerate() {
            match record {
                Record::Intent { call, operation } => {
                    open.insert(*call, calls.len());
                    let window = Window { begin: line, end: usize::MAX };
                    calls.push(Call { window, operation, answer: None });
                }
                Record::Answer { call, answer } => {
                    let known = open.remove(call).and_then(|position| calls.get_mut(position));
                    match known {
                        Some(call) => {
                            // It may yet take effect: its window stays open.
                            if !matches!(answer, Answer::Unknown(_)) {
                                call.window.end = line;
                            }
                            call.answer = Some(answer);
                        }
                        None => findings
                            .0
                            .push(Violation::trouble(format!("call {call} was answered unasked"))),
                    }
                }
                Record::Killed => {
                    for (_, position) in open.drain() {
                        if let Some(call) = calls.get_mut(position) {
                            call.window.end = line;
                        }
                    }
                }
            }
        }
        for call in &calls {
            if let Some(Answer::Trouble(what)) = call.answer {
                findings.0.push(Violation::trouble(format!("{}: {what}", call.operation)));
            }
        }
        Self(calls)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Call<'a>> {
        self.0.iter()
    }
}

/// What the outside world knows of one task.
#[derive(Default)]
pub(super) struct Story<'a> {
    /// What it is made of, by the submissions of its id.
    pub(super) body: Option<u64>,
    /// Acknowledged submissions: whether it was there before.
    pub(super) taken: Vec<bool>,
    pub(super) claims: Vec<Claim>,
    pub(super) settles: Vec<Settle<'a>>,
    pub(super) cancels: Vec<(Window, Option<&'a Answer>)>,
    retries: Vec<(Window, Option<&'a Answer>)>,
}

/// A claim that was acknowledged.
pub(super) struct Claim {
    pub(super) window: Window,
    pub(super) token: LeaseToken,
    pub(super) fence: u64,
    pub(super) body: u64,
}

/// A settle, with its answer if one was read.
pub(super) struct Settle<'a> {
    pub(super) window: Window,
    pub(super) token: LeaseToken,
    pub(super) ending: Ending,
    pub(super) answer: Option<&'a Answer>,
}

impl Settle<'_> {
    /// The state it led to, and whether this was a repeat; none unless it was accepted.
    pub(super) const fn accepted(&self) -> Option<(StateName, bool)> {
        match self.answer {
            Some(Answer::Changed { state, repeated }) => Some((*state, *repeated)),
            _ => None,
        }
    }
}

impl Story<'_> {
    /// Some answer told that the task is there: of its submission, or of anything done to it.
    pub(super) fn is_acknowledged(&self) -> bool {
        let done = |answer: Option<&Answer>| matches!(answer, Some(Answer::Changed { .. }));
        !self.taken.is_empty()
            || !self.claims.is_empty()
            || self.settles.iter().any(|settle| done(settle.answer))
            || self.cancels.iter().chain(&self.retries).any(|(_, answer)| done(*answer))
    }

    /// Settles by which the outside world knows that the task is completed.
    pub(super) fn completions(&self) -> impl Iterator<Item = &Settle<'_>> {
        self.settles.iter().filter(|settle| {
            settle.ending == Ending::Completed
                && matches!(settle.accepted(), Some((StateName::Completed, _)))
        })
    }

    /// Acknowledged ends of the task other than completion: when, and in which state.
    pub(super) fn ends(&self) -> impl Iterator<Item = (Window, StateName)> {
        let settles = self.settles.iter().map(|settle| (settle.window, settle.answer));
        settles.chain(self.cancels.iter().copied()).filter_map(|(window, answer)| match answer {
            Some(Answer::Changed { state, repeated: false })
                if state.is_terminal() && *state != StateName::Completed =>
            {
                Some((window, *state))
            }
            _ => None,
        })
    }

    /// An operator may have revived the task after `end`.
    pub(super) fn may_be_revived_after(&self, end: &Window) -> bool {
        self.revivals().any(|window| !window.is_before(end))
    }

    /// Retries that were not refused.
    pub(super) fn revivals(&self) -> impl Iterator<Item = &Window> {
        let refused = |answer: &Option<&Answer>| matches!(answer, Some(Answer::Refused(_)));
        self.retries.iter().filter(move |(_, answer)| !refused(answer)).map(|(window, _)| window)
    }
}

/// The stories of all tasks that a history names.
#[derive(Default)]
pub(super) struct Stories<'a>(BTreeMap<TaskId, Story<'a>>);

impl<'a> Stories<'a> {
    pub(super) fn of(calls: &Calls<'a>) -> Self {
        let mut stories = Self::default();
        for call in calls.iter() {
            stories.tell(call);
        }
        stories
    }

    pub(super) fn by_task(&self) -> impl Iterator<Item = (TaskId, &Story<'a>)> {
        self.0.iter().map(|(id, story)| (*id, story))
    }

    pub(super) fn get(&self, id: &TaskId) -> Option<&Story<'a>> {
        self.0.get(id)
    }

    fn tell(&mut self, call: &Call<'a>) {
        let (window, answer) = (call.window, call.answer);
        match call.operation {
            Operation::Register | Operation::Start(_) => {}
            Operation::Submit(plans) => {
                for plan in plans {
                    self.of_task(plan.id).body = Some(plan.body);
                }
                if let Some(Answer::Submitted(taken)) = answer {
                    for taken in taken {
                        self.of_task(taken.id).taken.push(taken.replayed);
                    }
                }
            }
            Operation::Claim { .. } => {
                if let Some(Answer::Claimed(grants)) = answer {
                    for grant in grants {
                        self.of_task(grant.task).claims.push(Claim {
                            window,
                            token: grant.token,
                            fence: grant.fence,
                            body: grant.body,
                        });
                    }
                }
            }
            Operation::Settle(hold, ending) => {
                let settle = Settle { window, token: hold.token, ending: *ending, answer };
                self.of_task(hold.task).settles.push(settle);
            }
            Operation::Cancel(task) => self.of_task(*task).cancels.push((window, answer)),
            Operation::Retry(task) => self.of_task(*task).retries.push((window, answer)),
        }
    }

    fn of_task(&mut self, id: TaskId) -> &mut Story<'a> {
        self.0.entry(id).or_default()
    }
}

/// The class of a change after an end: a claim after a completion has a name of its own.
pub(super) fn class_after(end: StateName, is_claim: bool) -> Class {
    match (end, is_claim) {
        (StateName::Completed, true) => Class::ClaimedAfterCompletion,
        _ => Class::WentBackwards,
    }
}
