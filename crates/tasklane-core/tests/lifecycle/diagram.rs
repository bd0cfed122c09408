//! The state diagram as data: what the contract allows, written apart from the code it checks.

use std::collections::BTreeSet;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tasklane_core::StateName::{self, *};
use tasklane_core::{EventKind, StateName as Name};

use crate::life::Verdict;
use crate::step;

/// Every pair of states that one event may join.
pub(crate) const ARROWS: [(Name, Name); 30] = [
    (Scheduled, Pending),
    (Scheduled, Cancelled),
    (Blocked, Pending),
    // Its ordering key is free before its time has come.
    (Blocked, Scheduled),
    (Blocked, Cancelled),
    (Pending, Assigned),
    (Pending, Running),
    (Pending, Cancelled),
    // Taken on trust, and refused.
    (Pending, DeadLetter),
    (Assigned, Running),
    (Assigned, Pending),
    // Released with a delay.
    (Assigned, Scheduled),
    (Assigned, Cancelled),
    // Poison: the last lease may be lost before the start.
    (Assigned, Failed),
    (Assigned, DeadLetter),
    (Running, Completed),
    (Running, Retrying),
    (Running, Pending),
    // Released with a delay.
    (Running, Scheduled),
    (Running, Cancelled),
    (Running, Failed),
    (Running, DeadLetter),
    (Retrying, Pending),
    (Retrying, Cancelled),
    (Failed, Pending),
    (Failed, Blocked),
    (Cancelled, Pending),
    (Cancelled, Blocked),
    (DeadLetter, Pending),
    (DeadLetter, Blocked),
];

/// Events that leave a task in its state.
const STAYING: [EventKind; 5] = [
    EventKind::Promoted,
    EventKind::Progressed,
    EventKind::CancelRequested,
    EventKind::Updated,
    EventKind::Discarded,
];

/// Whether an event of this kind may lead from one state to the other.
pub(crate) fn allows(from: StateName, kind: EventKind, to: StateName) -> bool {
    match STAYING.contains(&kind) {
        true => from == to,
        false => ARROWS.contains(&(from, to)),
    }
}

/// Without this, a generator that never got far would make every law hold.
#[test]
fn random_lives_take_every_arrow_and_meet_every_event_and_refusal() {
    let config = Config { failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let (mut arrows, mut kinds, mut refusals) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for _ in 0..600 {
        let plan = step::any_plan().new_tree(&mut runner).unwrap().current();
        for seen in plan.live().history {
            match seen.verdict {
                Verdict::Changed(event) => {
                    kinds.insert(event.kind());
                    arrows.insert((seen.before.state.name(), seen.after.state.name()));
                }
                Verdict::Refused(refusal) => {
                    refusals.insert(refusal.to_string());
                }
                Verdict::Nothing => {}
            }
        }
    }
    arrows.retain(|(from, to)| from != to);
    assert_eq!(arrows, BTreeSet::from(ARROWS));
    let admissions = [EventKind::Submitted, EventKind::Scheduled];
    let expected = EventKind::ALL.into_iter().filter(|kind| !admissions.contains(kind));
    assert_eq!(kinds, expected.collect());
    let states = StateName::ALL.map(|state| format!("not possible while the task is {state}"));
    let others = ["the lease was lost or never held", "not due yet"].map(String::from);
    for expected in states.iter().chain(&others) {
        assert!(refusals.contains(expected), "never met: {expected}");
    }
}
