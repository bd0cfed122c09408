//! States: a task ends once, and an end that was acknowledged stands.

use tasklane_core::{LeaseToken, StateName, TaskId};

use super::story::{Settle, Story, class_after};
use super::{Class, Findings};
use crate::content::{Mark, Stored};
use crate::history::{Answer, Ending};

pub(super) fn check(
    id: TaskId,
    story: &Story<'_>,
    stored: Option<&Stored>,
    findings: &mut Findings,
) {
    completed_once(id, story, findings);
    repeats_are_known(id, story, findings);
    let Some(stored) = stored else { return };
    ends_stand(id, story, stored, findings);
    settles_are_kept(id, story, stored, findings);
    trail_ends_once(id, story, stored, findings);
    if !stored.state.is_terminal() {
        findings.add(Class::Stuck, id, format!("it is still {}", stored.state));
    }
}

fn completed_once(id: TaskId, story: &Story<'_>, findings: &mut Findings) {
    let fresh = |settle: &&Settle<'_>| matches!(settle.accepted(), Some((_, false)));
    let accepted = story.completions().filter(fresh).count();
    let mut tokens: Vec<LeaseToken> = Vec::new();
    for completion in story.completions() {
        if !tokens.contains(&completion.token) {
            tokens.push(completion.token);
        }
    }
    if accepted > 1 || tokens.len() > 1 {
        let what = format!("{accepted} completions were accepted, with {} tokens", tokens.len());
        findings.add(Class::CompletedTwice, id, what);
    }
}

/// Once a settle has succeeded, the same one succeeds again.
fn repeats_are_known(id: TaskId, story: &Story<'_>, findings: &mut Findings) {
    for refused in &story.settles {
        let Some(Answer::Refused(why)) = refused.answer else { continue };
        let succeeded = story.settles.iter().any(|earlier| {
            earlier.accepted().is_some()
                && earlier.token == refused.token
                && earlier.ending == refused.ending
                && earlier.window.is_before(&refused.window)
        });
        if succeeded {
            let what = format!("a repeated settle ({}) got: {why}", refused.ending.as_str());
            findings.add(Class::Forgotten, id, what);
        }
    }
}

fn ends_stand(id: TaskId, story: &Story<'_>, stored: &Stored, findings: &mut Findings) {
    if story.completions().next().is_some() && stored.state != StateName::Completed {
        let what = format!("its completion was acknowledged, but it is {}", stored.state);
        findings.add(Class::WentBackwards, id, what);
    }
    for (end, state) in story.ends() {
        if stored.state != state && !story.may_be_revived_after(&end) {
            let what = format!("acknowledged as {state}, but it is {}", stored.state);
            findings.add(Class::WentBackwards, id, what);
        }
    }
}

/// Acknowledged settles are in the trail, and the trail has no completion that nobody sent.
fn settles_are_kept(id: TaskId, story: &Story<'_>, stored: &Stored, findings: &mut Findings) {
    let by = |mark: &Mark| match mark {
        Mark::Left { token } | Mark::Ended { token, .. } => *token,
        _ => None,
    };
    for settle in &story.settles {
        let kept = stored.marks.iter().any(|mark| by(mark) == Some(settle.token));
        if settle.accepted().is_some() && !kept {
            let what = format!("a settle ({}) is not in its trail", settle.ending.as_str());
            findings.add(Class::Forgotten, id, what);
        }
    }
    for mark in &stored.marks {
        let Mark::Ended { state: StateName::Completed, token } = mark else { continue };
        let sent = story
            .settles
            .iter()
            .any(|settle| settle.ending == Ending::Completed && Some(settle.token) == *token);
        if !sent {
            findings.add(Class::Phantom, id, "it is completed, but nobody completed it");
        }
    }
}

/// After an end comes nothing but an operator's retry, and after completion not even that.
fn trail_ends_once(id: TaskId, story: &Story<'_>, stored: &Stored, findings: &mut Findings) {
    let mut ended: Option<StateName> = None;
    let mut revivals = 0;
    for mark in &stored.marks {
        match (mark, ended) {
            (Mark::Revived, Some(state)) if state != StateName::Completed => {
                ended = None;
                revivals += 1;
            }
            (_, Some(state)) => {
                let class = class_after(state, matches!(mark, Mark::Claimed { .. }));
                findings.add(class, id, format!("its trail goes on after {state}: {mark:?}"));
            }
            (Mark::Revived, None) => {
                findings.add(Class::WentBackwards, id, "its trail revives what had not ended");
            }
            (Mark::Ended { state, .. }, None) => ended = Some(*state),
            (_, None) => {}
        }
    }
    if revivals > story.revivals().count() {
        let what = format!("its trail tells of {revivals} retries that nobody asked for");
        findings.add(Class::WentBackwards, id, what);
    }
    if stored.state.is_terminal() && ended != Some(stored.state) {
        let what = format!("it is {}, but its trail ends with {ended:?}", stored.state);
        findings.add(Class::WentBackwards, id, what);
    }
}
