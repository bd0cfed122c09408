//! Submissions: everything acknowledged is there, once, whole, and nothing else is.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tasklane_core::TaskId;

use super::story::{Calls, Stories};
use super::{Class, Findings};
use crate::content::Stored;
use crate::history::{Answer, Operation, Plan};

pub(super) fn check(
    calls: &Calls<'_>,
    stories: &Stories<'_>,
    content: &[Stored],
    by_id: &HashMap<TaskId, &Stored>,
    findings: &mut Findings,
) {
    nothing_is_lost(stories, by_id, findings);
    nothing_is_phantom(stories, content, findings);
    ids_have_one_task(stories, content, findings);
    keys_have_one_task(calls, content, findings);
    submissions_are_whole(calls, content, by_id, findings);
}

fn nothing_is_lost(
    stories: &Stories<'_>,
    by_id: &HashMap<TaskId, &Stored>,
    findings: &mut Findings,
) {
    for (id, story) in stories.by_task() {
        if story.is_acknowledged() && !by_id.contains_key(&id) {
            findings.add(Class::Lost, id, "it was acknowledged, but it is not there");
        }
    }
}

fn nothing_is_phantom(stories: &Stories<'_>, content: &[Stored], findings: &mut Findings) {
    for stored in content {
        match stories.get(&stored.id).and_then(|story| story.body) {
            None => findings.add(Class::Phantom, stored.id, "nobody submitted it"),
            Some(body) if stored.body != Some(body) => {
                let what = format!("made of {body}, but stored as {:?}", stored.body);
                findings.add(Class::Altered, stored.id, what);
            }
            Some(_) => {}
        }
    }
}

fn ids_have_one_task(stories: &Stories<'_>, content: &[Stored], findings: &mut Findings) {
    let mut seen = HashSet::new();
    for stored in content {
        if !seen.insert(stored.id) {
            findings.add(Class::Duplicated, stored.id, "it is there twice");
        }
    }
    for (id, story) in stories.by_task() {
        if story.taken.iter().filter(|replayed| !**replayed).count() > 1 {
            findings.add(Class::Duplicated, id, "it was admitted as new more than once");
        }
    }
}

fn keys_have_one_task(calls: &Calls<'_>, content: &[Stored], findings: &mut Findings) {
    let mut tasks: BTreeMap<&str, BTreeSet<TaskId>> = BTreeMap::new();
    for stored in content {
        if let Some(key) = &stored.key {
            tasks.entry(key).or_default().insert(stored.id);
        }
    }
    for call in calls.iter() {
        let (Operation::Submit(plans), Some(Answer::Submitted(taken))) =
            (call.operation, call.answer)
        else {
            continue;
        };
        for (plan, taken) in plans.iter().zip(taken) {
            if let Some(key) = &plan.key {
                tasks.entry(key).or_default().insert(taken.id);
            } else if taken.id != plan.id {
                let what = format!("submitted without a key, but {} was answered", taken.id);
                findings.add(Class::Duplicated, plan.id, what);
            }
        }
    }
    for (key, ids) in tasks {
        if let (Some(first), true) = (ids.first(), ids.len() > 1) {
            let ids = ids.iter().map(TaskId::to_string).collect::<Vec<_>>().join(", ");
            findings.add(Class::Duplicated, *first, format!("key {key} has several tasks: {ids}"));
        }
    }
}

fn submissions_are_whole(
    calls: &Calls<'_>,
    content: &[Stored],
    by_id: &HashMap<TaskId, &Stored>,
    findings: &mut Findings,
) {
    let keys: HashSet<&str> = content.iter().filter_map(|stored| stored.key.as_deref()).collect();
    let is_there = |plan: &&Plan| {
        by_id.contains_key(&plan.id) || plan.key.as_ref().is_some_and(|key| keys.contains(&**key))
    };
    for call in calls.iter() {
        let Operation::Submit(plans) = call.operation else { continue };
        match (call.answer, plans.first()) {
            (Some(Answer::Refused(why)), Some(plan)) => {
                findings.add(Class::Refused, plan.id, why.clone());
            }
            (Some(Answer::Submitted(taken)), Some(plan)) if taken.len() != plans.len() => {
                let what = format!("{} of {} tasks were answered", taken.len(), plans.len());
                findings.add(Class::Torn, plan.id, what);
            }
            _ => {}
        }
        let (there, missing): (Vec<_>, Vec<_>) = plans.iter().partition(is_there);
        if let (Some(missing), false) = (missing.first(), there.is_empty()) {
            let what = format!("{} of {} tasks are there", there.len(), plans.len());
            findings.add(Class::Torn, missing.id, what);
        }
    }
}
