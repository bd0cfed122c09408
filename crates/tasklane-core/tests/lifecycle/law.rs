//! Laws that hold in every life, whatever is tried on the task and whatever the clock does.

use proptest::prelude::*;
use tasklane_core::lifecycle::{self, Decision, Moment, Repeat};
use tasklane_core::{
    CancelReason, Counts, DeadReason, Event, EventKind, Intent, LeaseToken, Outcome, Refusal,
    SeededRandom, State, StateName, Task, Timestamp, trail,
};

use crate::diagram;
use crate::life::{Asked, LATE, Life, Seen, Verdict};
use crate::step::any_plan;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_072))]

    /// That each event can be applied is checked by living at all.
    #[test]
    fn every_change_is_an_arrow_of_the_diagram(plan in any_plan()) {
        for (seen, event) in changes(&plan.live()) {
            let (from, to) = (seen.before.state.name(), seen.after.state.name());
            prop_assert!(diagram::allows(from, event.kind(), to), "{from} → {to} by {event:?}");
        }
    }

    #[test]
    fn what_is_refused_changes_nothing(plan in any_plan()) {
        for seen in plan.live().history {
            match &seen.verdict {
                Verdict::Changed(_) => continue,
                Verdict::Nothing => {}
                Verdict::Refused(Refusal::InvalidState { current }) => {
                    prop_assert_eq!(*current, seen.before.state.name());
                }
                Verdict::Refused(_) => {}
            }
            prop_assert_eq!(&seen.before, &seen.after);
        }
    }

    #[test]
    fn fences_rise_with_each_claim_and_stay_otherwise(plan in any_plan()) {
        for (seen, event) in changes(&plan.live()) {
            let (before, after) = (seen.before.fence, seen.after.fence);
            match event {
                Event::Claimed { fence, .. } => {
                    prop_assert!(after > before);
                    prop_assert!(after.as_u64() >= seen.now.as_micros().unsigned_abs());
                    prop_assert_eq!(*fence, after);
                }
                _ => prop_assert_eq!(before, after),
            }
        }
    }

    #[test]
    fn only_an_operator_retry_changes_what_has_ended(plan in any_plan()) {
        for (seen, event) in changes(&plan.live()) {
            let from = seen.before.state.name();
            if !from.is_terminal() {
                continue;
            }
            match event {
                Event::Discarded => prop_assert_eq!(timeless(&seen.before), timeless(&seen.after)),
                Event::Replayed { .. } => prop_assert!(from != StateName::Completed),
                other => prop_assert!(false, "{from} was changed by {other:?}"),
            }
        }
    }

    #[test]
    fn counts_count_what_they_say(plan in any_plan()) {
        let life = plan.live();
        for (seen, event) in changes(&life) {
            let counts = seen.after.counts;
            prop_assert_eq!(counts, counted(seen.before.counts, event));
            prop_assert!(counts.attempts <= counts.deliveries);
            let poison = counts.lease_losses >= life.rules.lease_losses_max;
            prop_assert!(!poison || seen.after.state.name().is_terminal());
        }
    }

    #[test]
    fn the_place_is_kept_but_for_what_makes_a_task_ready_anew(plan in any_plan()) {
        for (seen, event) in changes(&plan.live()) {
            let place = seen.after.place;
            let update = matches!(event, Event::Updated(update) if update.scheduled_at.is_some());
            match event.kind() {
                EventKind::Unblocked | EventKind::Replayed => {
                    prop_assert!(place.sequence > seen.before.place.sequence);
                    prop_assert!(place.ready_at >= seen.now);
                }
                EventKind::Updated if update => prop_assert!(place.ready_at >= seen.now),
                _ => prop_assert_eq!(place, seen.before.place),
            }
        }
    }

    #[test]
    fn a_token_that_is_not_current_always_gets_lease_lost(plan in any_plan()) {
        for seen in plan.live().history {
            let Asked::Intent(intent) = &seen.asked else { continue };
            let Some(token) = presented(intent) else { continue };
            let lost = matches!(seen.verdict, Verdict::Refused(Refusal::LeaseLost));
            let current = seen.before.state.lease().is_some_and(|lease| lease.token == token);
            prop_assert_eq!(lost, !current && !repeats_completion(&seen.before, intent));
        }
    }

    #[test]
    fn time_takes_nothing_before_its_deadline(plan in any_plan()) {
        for (seen, event) in changes(&plan.live()) {
            let Asked::Intent(intent) = &seen.asked else { continue };
            let passed = |at: Option<Timestamp>| at.is_some_and(|at| at <= seen.now);
            match intent {
                Intent::ComeDue => prop_assert!(passed(seen.before.state.due_at())),
                Intent::Expire => prop_assert!(passed(seen.before.expires_at)),
                Intent::LoseLease(_) => prop_assert!(seen.elapsed.lease),
                Intent::TimeOut(_) => prop_assert!(seen.elapsed.execution),
                Intent::Unassign(_) => prop_assert!(seen.elapsed.assignment),
                _ => {}
            }
            let expired = matches!(event, Event::Cancelled { reason: CancelReason::Expired, .. });
            prop_assert!(!expired || seen.before.state.name().is_waiting());
        }
    }

    #[test]
    fn nothing_is_claimed_past_its_expiry_or_by_whom_it_is_withheld_from(plan in any_plan()) {
        for (seen, event) in changes(&plan.live()) {
            let (Asked::Claim(worker), Event::Claimed { .. }) = (&seen.asked, event) else { continue };
            prop_assert!(!seen.before.is_expired(seen.now));
            let State::Pending { withheld } = seen.before.state else { panic!("{seen:?}") };
            prop_assert!(withheld.is_none_or(|held| held.worker != *worker || held.until <= seen.now));
        }
    }

    #[test]
    fn a_lease_under_cancel_ends_as_cancelled_or_completed(plan in any_plan()) {
        for (seen, event) in changes(&plan.live()) {
            let lease = seen.before.state.lease();
            let asked = lease.is_some_and(|lease| lease.cancel_requested.is_some());
            if asked && seen.after.state.lease().is_none() {
                let to = seen.after.state.name();
                let fits = matches!(to, StateName::Cancelled | StateName::Completed);
                prop_assert!(fits, "{to} by {event:?}");
            }
        }
    }

    #[test]
    fn the_trail_leads_to_the_task_at_every_step(plan in any_plan()) {
        let life = plan.live();
        for (seen, event) in changes(&life) {
            let task = &seen.after;
            let stored = life.stored.iter().take(seen.stored).cloned().collect();
            let entries = trail::whole(task, stored);
            prop_assert!(entries.is_sorted_by(|a, b| a.stamp.sequence < b.stamp.sequence));
            for spec in [&life.submitted, &task.spec] {
                let replayed = trail::replay(task.id, spec.clone(), task.admission, &entries);
                let replayed = replayed.unwrap();
                prop_assert!(trail::agrees(task, &replayed), "{event:?}\n{task:?}\n{replayed:?}");
            }
        }
    }

    #[test]
    fn a_repeated_settle_gets_its_answer_again_and_another_body_none(plan in any_plan()) {
        let life = plan.live();
        for (seen, _) in changes(&life) {
            let Asked::Intent(Intent::Settle(token, outcome)) = &seen.asked else { continue };
            let again = ask(&life, *token, outcome);
            let other = ask(&life, *token, &another(outcome));
            let found = lifecycle::repeated(&life.stored, token, outcome.digest());
            let mistaken = lifecycle::repeated(&life.stored, token, another(outcome).digest());
            prop_assert_eq!((other, mistaken), (Err(Refusal::LeaseLost), None));
            let state = seen.after.state.name();
            if state == StateName::Completed {
                prop_assert_eq!(again, Ok(Decision::Nothing));
            } else {
                let answer = Repeat { state, due_at: seen.after.state.due_at() };
                prop_assert_eq!((again, found), (Err(Refusal::LeaseLost), Some(answer)));
            }
        }
    }
}

fn changes(life: &Life) -> impl Iterator<Item = (&Seen, &Event)> {
    life.history.iter().filter_map(|seen| match &seen.verdict {
        Verdict::Changed(event) => Some((seen, event)),
        Verdict::Nothing | Verdict::Refused(_) => None,
    })
}

fn timeless(task: &Task) -> Task {
    Task { updated_at: Timestamp::EPOCH, ..task.clone() }
}

/// The counts after an event, by the words of the contract.
fn counted(before: Counts, event: &Event) -> Counts {
    let mut counts = before;
    let poisoned = matches!(event, Event::Failed(death) | Event::DeadLettered(death)
        if death.failure.is_none());
    // Nobody had it, so nobody tried.
    let refused =
        matches!(event, Event::DeadLettered(death) if death.reason == DeadReason::Refused);
    let attempted = event.kind() == EventKind::Completed || event.failure().is_some() && !refused;
    counts.attempts += u32::from(attempted);
    counts.deliveries += u32::from(event.kind() == EventKind::Claimed);
    counts.replays += u32::from(event.kind() == EventKind::Replayed);
    counts.lease_losses += u32::from(poisoned || *event == Event::LeaseLost);
    let released = event.kind() == EventKind::Released;
    if attempted || released || event.settled().is_some() {
        counts.lease_losses = 0;
    }
    if let Event::Replayed { reset_attempts, .. } = event {
        counts.lease_losses = 0;
        counts.attempts = if *reset_attempts { 0 } else { before.attempts };
    }
    counts
}

const fn presented(intent: &Intent) -> Option<LeaseToken> {
    match intent {
        Intent::Start(token)
        | Intent::Progress(token, _)
        | Intent::Settle(token, _)
        | Intent::LoseLease(token)
        | Intent::TimeOut(token)
        | Intent::Unassign(token) => Some(*token),
        _ => None,
    }
}

fn repeats_completion(task: &Task, intent: &Intent) -> bool {
    match (&task.state, intent) {
        (State::Completed { lease, digest, .. }, Intent::Settle(token, outcome)) => {
            lease.token == *token && *digest == outcome.digest()
        }
        _ => false,
    }
}

/// What a settle would get at the end of a life.
fn ask(life: &Life, token: LeaseToken, outcome: &Outcome) -> Result<Decision, Refusal> {
    let moment = Moment { now: life.now, rules: &life.rules, elapsed: LATE, key_free: true };
    let intent = Intent::Settle(token, outcome.clone());
    lifecycle::decide(&life.task, &intent, &moment, &mut SeededRandom::new(0))
}

/// The same in kind, but not the same.
fn another(outcome: &Outcome) -> Outcome {
    match outcome {
        Outcome::Completed(result) => Outcome::Completed([result, &b" "[..]].concat().into()),
        Outcome::Failed { failure, retry_after } => {
            let failure = failure.clone().with_code("E2");
            Outcome::Failed { failure, retry_after: *retry_after }
        }
        Outcome::Cancelled => Outcome::Released { delay: None },
        Outcome::Released { delay: None } => Outcome::Cancelled,
        Outcome::Released { delay: Some(_) } => Outcome::Released { delay: None },
    }
}
