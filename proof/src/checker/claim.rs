//! Claims: fences rise, acknowledged claims are kept, and none comes after a completion.

use tasklane_core::TaskId;

use super::story::{Claim, Story, class_after};
use super::{Class, Findings};
use crate::content::{Mark, Stored};

pub(super) fn check(
    id: TaskId,
    story: &Story<'_>,
    stored: Option<&Stored>,
    findings: &mut Findings,
) {
    fences_rise(id, &story.claims, stored, findings);
    for claim in &story.claims {
        if story.body.is_some_and(|body| body != claim.body) {
            findings.add(Class::Altered, id, format!("claimed with the body {}", claim.body));
        }
        if let Some(stored) = stored {
            is_kept(id, claim, stored, findings);
        }
        none_follows_an_end(id, claim, story, findings);
    }
}

/// Between claims whose order is certain, in the trail, and up to the last fence stored.
fn fences_rise(id: TaskId, claims: &[Claim], stored: Option<&Stored>, findings: &mut Findings) {
    let mut add = |before: u64, after: u64| {
        findings.add(Class::FenceDidNotRise, id, format!("{after} came after {before}"));
    };
    for (position, claim) in claims.iter().enumerate() {
        for other in claims.iter().skip(position + 1) {
            let same = claim.fence == other.fence;
            let fell = claim.window.is_before(&other.window) && claim.fence > other.fence;
            if same || fell {
                add(claim.fence, other.fence);
            }
        }
    }
    let Some(stored) = stored else { return };
    let mut last = 0;
    for mark in &stored.marks {
        if let Mark::Claimed { fence, .. } = mark {
            if *fence <= last {
                add(last, *fence);
            }
            last = last.max(*fence);
        }
    }
    if stored.fence < last {
        add(last, stored.fence);
    }
}

fn is_kept(id: TaskId, claim: &Claim, stored: &Stored, findings: &mut Findings) {
    let kept = Mark::Claimed { token: claim.token, fence: claim.fence };
    if !stored.marks.contains(&kept) {
        let what = format!("the claim with fence {} is not in its trail", claim.fence);
        findings.add(Class::Forgotten, id, what);
    }
}

fn none_follows_an_end(id: TaskId, claim: &Claim, story: &Story<'_>, findings: &mut Findings) {
    let fence_of = |token| story.claims.iter().find(|one| one.token == token).map(|one| one.fence);
    for completion in story.completions() {
        // The fence tells the order of two claims even where their windows do not.
        let higher = fence_of(completion.token).is_some_and(|fence| claim.fence > fence);
        if higher || completion.window.is_before(&claim.window) {
            let what = format!("handed out with fence {} after its completion", claim.fence);
            findings.add(Class::ClaimedAfterCompletion, id, what);
        }
    }
    for (end, state) in story.ends() {
        if end.is_before(&claim.window) && !story.may_be_revived_after(&end) {
            let what = format!("handed out with fence {} when it was {state}", claim.fence);
            findings.add(class_after(state, true), id, what);
        }
    }
}
