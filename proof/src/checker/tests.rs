//! Bad histories, one per class, each of which must be caught; and good ones, which must pass.

use tasklane_core::{LeaseToken, StateName, TaskId};

use super::*;
use crate::history::Record;

fn id(number: u64) -> TaskId {
    format!("0199b2c0-0000-7000-8000-{number:012x}").parse().unwrap()
}

fn token(number: u128) -> LeaseToken {
    LeaseToken::from_bytes(number.to_be_bytes())
}

/// A history in its own text, with `$1` for the id and `#1` for the token of that number.
fn history(text: &str) -> Vec<Record> {
    let mut lines = text.to_owned();
    for number in (1..10).rev() {
        lines = lines.replace(&format!("${number}"), &id(number).to_string());
        lines = lines.replace(&format!("#{number}"), &token(number.into()).to_string());
    }
    let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| line.parse().unwrap_or_else(|broken| panic!("{broken}"))).collect()
}

const fn claimed(number: u128, fence: u64) -> Mark {
    Mark::Claimed { token: LeaseToken::from_bytes(number.to_be_bytes()), fence }
}

fn ended(state: StateName, by: Option<u128>) -> Mark {
    Mark::Ended { state, token: by.map(token) }
}

fn left(by: Option<u128>) -> Mark {
    Mark::Left { token: by.map(token) }
}

/// Task `number`, made of `10 × number`, with this trail.
fn stored(number: u64, state: StateName, marks: &[Mark]) -> Stored {
    let fences =
        marks.iter().map(|mark| if let Mark::Claimed { fence, .. } = mark { *fence } else { 0 });
    Stored {
        id: id(number),
        key: None,
        body: Some(10 * number),
        state,
        fence: fences.max().unwrap_or(0),
        marks: [&[Mark::Moved], marks].concat(),
        kinds: Vec::new(),
    }
}

/// Task 1, claimed with token 1 and completed with it.
fn completed() -> Stored {
    let marks = [claimed(1, 5), ended(StateName::Completed, Some(1))];
    stored(1, StateName::Completed, &marks)
}

const WORKER: &str = "0199b2c0-0000-7000-8000-0000000000ff";

/// Task 1 submitted, claimed with token 1, fence 5, and completed.
const LIFE: &str = "
    intent 1 submit $1/10/-
    answer 1 submitted $1/false
    intent 2 claim WORKER 1 true
    answer 2 claimed $1/#1/5/10
    intent 3 settle $1 #1 completed
    answer 3 changed completed false";

fn verdict(text: &str, content: &[Stored]) -> Verdict {
    check(&history(&text.replace("WORKER", WORKER)), content)
}

#[track_caller]
fn assert_caught(class: Class, task: u64, text: &str, content: &[Stored]) {
    let violations = verdict(text, content).violations;
    let caught = violations.iter().any(|one| one.class == class && one.task == Some(id(task)));
    assert!(caught, "{class:?} of task {task} is not among {violations:#?}");
}

#[track_caller]
fn assert_passes(text: &str, content: &[Stored]) -> Counts {
    let verdict = verdict(text, content);
    assert_eq!(verdict.violations, []);
    verdict.counts
}

#[test]
fn a_whole_life_passes_and_is_counted() {
    let counts = assert_passes(LIFE, &[completed()]);
    let expected = Counts { submits: 1, completions: 1, claims: 1, unknown: 0, recovered: 0 };
    assert_eq!(counts, expected);
}

#[test]
fn an_unknown_submission_may_be_there_or_not() {
    let text = "intent 1 submit $1/10/-\nkilled";
    let cancelled = stored(1, StateName::Cancelled, &[ended(StateName::Cancelled, None)]);
    assert_eq!(assert_passes(text, &[]).recovered, 0);
    let counts = assert_passes(text, &[cancelled]);
    assert_eq!((counts.submits, counts.unknown, counts.recovered), (0, 1, 1));
}

#[test]
fn an_unknown_completion_that_succeeds_again_passes() {
    let text = LIFE.replace("answer 3 changed completed false", "killed");
    let text = text + "\nintent 4 settle $1 #1 completed\nanswer 4 changed completed true";
    let counts = assert_passes(&text, &[completed()]);
    assert_eq!((counts.completions, counts.unknown, counts.recovered), (1, 1, 1));
}

#[test]
fn an_operators_retry_may_revive_what_ended() {
    let text = "
        intent 1 submit $1/10/-
        answer 1 submitted $1/false
        intent 2 cancel $1
        answer 2 changed cancelled false
        intent 3 retry $1
        killed
        intent 4 claim WORKER 1 true
        answer 4 claimed $1/#1/5/10
        intent 5 settle $1 #1 completed
        answer 5 changed completed false";
    let marks = [
        ended(StateName::Cancelled, None),
        Mark::Revived,
        claimed(1, 5),
        ended(StateName::Completed, Some(1)),
    ];
    assert_passes(text, &[stored(1, StateName::Completed, &marks)]);
}

#[test]
fn a_claim_in_flight_during_the_completion_of_an_older_one_passes() {
    // The claim with the lower fence was made first, whatever the order of the answers.
    let text = "
        intent 1 submit $1/10/-
        answer 1 submitted $1/false
        intent 2 claim WORKER 1 true
        intent 3 claim WORKER 1 true
        answer 3 claimed $1/#2/6/10
        intent 4 settle $1 #2 completed
        answer 4 changed completed false
        answer 2 claimed $1/#1/5/10";
    let marks = [claimed(1, 5), Mark::Moved, claimed(2, 6), ended(StateName::Completed, Some(2))];
    assert_passes(text, &[stored(1, StateName::Completed, &marks)]);
}

#[test]
fn a_lost_acknowledged_task_is_caught() {
    assert_caught(Class::Lost, 1, "intent 1 submit $1/10/-\nanswer 1 submitted $1/false", &[]);
    assert_caught(Class::Lost, 1, LIFE, &[]);
}

#[test]
fn a_lost_task_is_caught_by_any_answer_that_told_of_it() {
    let unanswered = LIFE.replace("answer 1 submitted $1/false", "");
    assert_passes(&unanswered, &[completed()]);
    assert_caught(Class::Lost, 1, &unanswered, &[]);
    let cancelled = "intent 1 submit $1/10/-\nintent 2 cancel $1\nanswer 2 changed cancelled false";
    assert_caught(Class::Lost, 1, cancelled, &[]);
    let unknown = "intent 1 submit $1/10/-\nintent 2 cancel $1\nanswer 2 refused no such task";
    assert_passes(unknown, &[]);
}

#[test]
fn a_phantom_task_is_caught() {
    let other = stored(2, StateName::Cancelled, &[ended(StateName::Cancelled, None)]);
    assert_caught(Class::Phantom, 2, LIFE, &[completed(), other]);
}

#[test]
fn a_phantom_completion_is_caught() {
    let text = LIFE.replace("settle $1 #1 completed", "settle $1 #1 released");
    let text = text.replace("answer 3 changed completed false", "killed");
    assert_caught(Class::Phantom, 1, &text, &[completed()]);
}

#[test]
fn two_tasks_of_one_key_are_caught() {
    let text = "
        intent 1 submit $1/10/key
        killed
        intent 2 submit $2/10/key
        answer 2 submitted $2/false";
    let task = |number| {
        let marks = [ended(StateName::Cancelled, None)];
        let task = stored(number, StateName::Cancelled, &marks);
        Stored { key: Some("key".into()), body: Some(10), ..task }
    };
    assert_passes(text, &[task(2)]);
    assert_caught(Class::Duplicated, 1, text, &[task(1), task(2)]);
}

#[test]
fn a_task_that_is_there_twice_is_caught() {
    assert_caught(Class::Duplicated, 1, LIFE, &[completed(), completed()]);
    let again = format!("{LIFE}\nintent 4 submit $1/10/-\nanswer 4 submitted $1/false");
    assert_caught(Class::Duplicated, 1, &again, &[completed()]);
    assert_passes(
        &again.replace("answer 4 submitted $1/false", "answer 4 submitted $1/true"),
        &[completed()],
    );
}

#[test]
fn a_torn_submission_is_caught() {
    let text = format!("{LIFE}\nintent 4 submit $2/20/- $3/30/-\nkilled");
    let second = stored(2, StateName::Cancelled, &[ended(StateName::Cancelled, None)]);
    assert_passes(&text, &[completed()]);
    assert_caught(Class::Torn, 3, &text, &[completed(), second]);
}

#[test]
fn an_answer_that_leaves_a_task_out_is_caught() {
    let text = format!("{LIFE}\nintent 4 submit $2/20/- $3/30/-\nanswer 4 submitted $2/false");
    let [second, third] =
        [2, 3].map(|n| stored(n, StateName::Cancelled, &[ended(StateName::Cancelled, None)]));
    assert_passes(&format!("{text} $3/false"), &[completed(), second.clone(), third.clone()]);
    assert_caught(Class::Torn, 2, &text, &[completed(), second, third]);
}

#[test]
fn an_altered_payload_is_caught() {
    assert_caught(Class::Altered, 1, LIFE, &[Stored { body: Some(11), ..completed() }]);
    assert_caught(Class::Altered, 1, LIFE, &[Stored { body: None, ..completed() }]);
    assert_caught(Class::Altered, 1, &LIFE.replace("/5/10", "/5/11"), &[completed()]);
}

#[test]
fn a_claim_after_an_accepted_completion_is_caught() {
    let again = format!("{LIFE}\nintent 4 claim WORKER 1 true\nanswer 4 claimed $1/#2/6/10");
    assert_caught(Class::ClaimedAfterCompletion, 1, &again, &[completed()]);
}

#[test]
fn a_claim_after_completion_is_caught_by_its_fence_where_windows_overlap() {
    let text = "
        intent 1 submit $1/10/-
        answer 1 submitted $1/false
        intent 2 claim WORKER 1 true
        answer 2 claimed $1/#1/5/10
        intent 3 settle $1 #1 completed
        intent 4 claim WORKER 1 true
        answer 4 claimed $1/#2/6/10
        answer 3 changed completed false";
    assert_caught(Class::ClaimedAfterCompletion, 1, text, &[completed()]);
}

#[test]
fn a_trail_with_a_claim_after_completion_is_caught() {
    let marks = [claimed(1, 5), ended(StateName::Completed, Some(1)), claimed(2, 6)];
    let task = stored(1, StateName::Completed, &marks);
    assert_caught(Class::ClaimedAfterCompletion, 1, LIFE, &[task]);
}

#[test]
fn a_completion_accepted_twice_is_caught() {
    let again = format!("{LIFE}\nintent 4 settle $1 #1 completed\nanswer 4 changed completed ");
    assert_passes(&format!("{again}true"), &[completed()]);
    assert_caught(Class::CompletedTwice, 1, &format!("{again}false"), &[completed()]);
    let other = again.replace("intent 4 settle $1 #1", "intent 4 settle $1 #2");
    assert_caught(Class::CompletedTwice, 1, &format!("{other}true"), &[completed()]);
}

/// Task 1 claimed twice, with these two fences; the first lease was lost.
fn claimed_twice(first: u64, second: u64) -> (String, Stored) {
    let text = format!(
        "
        intent 1 submit $1/10/-
        answer 1 submitted $1/false
        intent 2 claim WORKER 1 true
        answer 2 claimed $1/#1/{first}/10
        intent 3 claim WORKER 1 true
        answer 3 claimed $1/#2/{second}/10
        intent 4 settle $1 #2 completed
        answer 4 changed completed false"
    );
    let marks =
        [claimed(1, first), Mark::Moved, claimed(2, second), ended(StateName::Completed, Some(2))];
    (text, stored(1, StateName::Completed, &marks))
}

#[test]
fn a_fence_that_did_not_rise_is_caught() {
    let (text, task) = claimed_twice(5, 6);
    assert_passes(&text, &[task]);
    for second in [4, 5] {
        let (text, task) = claimed_twice(5, second);
        assert_caught(Class::FenceDidNotRise, 1, &text, &[task]);
    }
}

#[test]
fn a_fence_that_fell_in_the_store_alone_is_caught() {
    let (text, task) = claimed_twice(5, 6);
    assert_caught(Class::FenceDidNotRise, 1, &text, &[Stored { fence: 5, ..task }]);
}

#[test]
fn a_completed_task_that_is_live_again_is_caught() {
    let text = format!("{LIFE}\nkilled");
    let pending = stored(1, StateName::Pending, &[]);
    assert_caught(Class::WentBackwards, 1, &text, std::slice::from_ref(&pending));
    assert_caught(Class::Stuck, 1, &text, &[pending]);
}

#[test]
fn an_end_left_without_an_operator_is_caught() {
    let text = "
        intent 1 submit $1/10/-
        answer 1 submitted $1/false
        intent 2 cancel $1
        answer 2 changed cancelled false
        intent 3 claim WORKER 1 true
        answer 3 claimed $1/#1/5/10";
    let cancelled = stored(1, StateName::Cancelled, &[ended(StateName::Cancelled, None)]);
    assert_caught(Class::WentBackwards, 1, text, &[cancelled]);
    let marks = [claimed(1, 5), ended(StateName::DeadLetter, None)];
    let dead = stored(1, StateName::DeadLetter, &marks);
    assert_caught(Class::WentBackwards, 1, text, &[dead]);
}

#[test]
fn a_retry_that_nobody_asked_for_is_caught() {
    let marks = [
        ended(StateName::Cancelled, None),
        Mark::Revived,
        claimed(1, 5),
        ended(StateName::Completed, Some(1)),
    ];
    let task = stored(1, StateName::Completed, &marks);
    assert_caught(Class::WentBackwards, 1, LIFE, &[task]);
}

#[test]
fn a_forgotten_claim_is_caught() {
    let marks = [claimed(2, 6), ended(StateName::Completed, Some(1))];
    let task = stored(1, StateName::Completed, &marks);
    assert_caught(Class::Forgotten, 1, LIFE, &[task]);
}

#[test]
fn a_forgotten_settle_is_caught() {
    let text =
        LIFE.replace("completed\n", "released\n").replace("completed false", "pending false");
    let with = [claimed(1, 5), left(Some(1)), ended(StateName::Cancelled, None)];
    assert_passes(&text, &[stored(1, StateName::Cancelled, &with)]);
    let without = [claimed(1, 5), ended(StateName::Cancelled, None)];
    assert_caught(Class::Forgotten, 1, &text, &[stored(1, StateName::Cancelled, &without)]);
}

#[test]
fn a_refused_repeat_of_a_settle_is_caught() {
    let text = format!("{LIFE}\nintent 4 settle $1 #1 completed\nanswer 4 refused lease lost");
    assert_caught(Class::Forgotten, 1, &text, &[completed()]);
    // Another outcome with the same token is another settle.
    let other = text.replace("4 settle $1 #1 completed", "4 settle $1 #1 released");
    assert_passes(&other, &[completed()]);
}

#[test]
fn a_refused_submission_is_caught() {
    let text = format!("{LIFE}\nintent 4 submit $2/20/-\nanswer 4 refused another body");
    assert_caught(Class::Refused, 2, &text, &[completed()]);
}

#[test]
fn trouble_is_caught() {
    for line in ["intent 4 register\nanswer 4 trouble no disk", "answer 9 refused unasked"] {
        let violations = verdict(&format!("{LIFE}\n{line}"), &[completed()]).violations;
        assert_eq!(violations.first().map(|one| one.class), Some(Class::Trouble), "{line}");
    }
}
