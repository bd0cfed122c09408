//! What a task's story must look like when a zombie had its hands on it.

use serde_json::Value;

use super::told::{Kind, Told};

/// Where the task was when the zombie went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meanwhile {
    /// Its lease was lost, and nobody had claimed it yet.
    Waiting,
    /// Another worker held it.
    Held,
    /// Another worker had completed it.
    Ended,
}

/// One zombie and its heir.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) meanwhile: Meanwhile,
    /// When it was let go on: what it began later is stale.
    pub(super) woken_at: u64,
    /// What it told, from its claim to its end.
    pub(super) zombie: Vec<Told>,
    /// What the worker told that got the task after it.
    pub(super) heir: Vec<Told>,
    /// Of the task, before the zombie went on and in the end.
    pub(super) history_before: Value,
    pub(super) history: Value,
    /// The task in the end.
    pub(super) task: Value,
}

/// What was seen of one case, or of all.
#[derive(Debug, Default, Clone)]
pub(super) struct Seen {
    /// Stale calls by kind and by what they were answered.
    pub(super) calls: std::collections::BTreeMap<(Kind, u16, String), u64>,
    /// Stale writes that the sink refused.
    pub(super) writes_refused: u64,
    /// Stale writes that it took, though a newer holder had written.
    pub(super) writes_taken: u64,
    pub(super) violations: Vec<String>,
}

impl Seen {
    pub(super) fn add(&mut self, other: Self) {
        for (key, count) in other.calls {
            *self.calls.entry(key).or_default() += count;
        }
        self.writes_refused += other.writes_refused;
        self.writes_taken += other.writes_taken;
        self.violations.extend(other.violations);
    }

    fn accuse(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(what());
        }
    }
}

impl Case {
    /// Whether the machine was so slow that the heir lost its lease too, or the zombie before it
    /// was stopped: then nothing follows from the case.
    pub(super) fn is_void(&self) -> bool {
        let lost = kinds(&self.history).iter().filter(|kind| *kind == "task.lease_lost").count();
        let early = self.zombie.iter().any(|told| match told {
            Told::Called { began, word, .. } => *began < self.woken_at && word != "ok",
            _ => false,
        });
        lost > 1 || early
    }

    /// Compares what was told with what is promised (S5).
    pub(super) fn judge(&self) -> Seen {
        let mut seen = Seen::default();
        self.judge_calls(&mut seen);
        self.judge_writes(&mut seen);
        self.judge_trail(&mut seen);
        self.judge_task(&mut seen);
        let (task, meanwhile) = (self.task.get("id").cloned().unwrap_or_default(), self.meanwhile);
        for violation in &mut seen.violations {
            *violation = format!("task {task} ({meanwhile:?}): {violation}");
        }
        seen
    }

    /// Every stale call is refused for its lease; a sign of life under the old id because the worker
    /// is known to be dead.
    fn judge_calls(&self, seen: &mut Seen) {
        for told in &self.zombie {
            let Told::Called { kind, began, status, word } = told else { continue };
            if *began < self.woken_at {
                continue;
            }
            let refused = matches!(
                (kind, status, word.as_str()),
                (Kind::Renew | Kind::RenewAgain, 200, "lost")
                    | (Kind::SettleMany | Kind::SettleManyAgain, 200, "lease-lost")
                    | (_, 409, "lease-lost")
                    | (Kind::Renew, 410, "worker-gone")
            );
            seen.accuse(refused, || format!("a stale {} got {status} {word}", kind.as_str()));
            *seen.calls.entry((*kind, *status, word.clone())).or_default() += 1;
        }
        for kind in Kind::ALL {
            let made = seen.calls.keys().any(|(made, ..)| *made == kind);
            seen.accuse(made, || format!("the zombie made no stale {}", kind.as_str()));
        }
        for told in &self.heir {
            if let Told::Called { kind, status, word, .. } = told {
                let what = || format!("the heir's {} got {status} {word}", kind.as_str());
                seen.accuse(word == "ok", what);
            }
        }
    }

    /// A sink that compares fences takes what the heir writes, and nothing of the zombie after it.
    fn judge_writes(&self, seen: &mut Seen) {
        for told in &self.heir {
            if let Told::Wrote { taken: false, .. } = told {
                seen.violations.push("the sink refused the heir".to_owned());
            }
        }
        for told in &self.zombie {
            match told {
                Told::Wrote { began, taken }
                    if *began >= self.woken_at && self.meanwhile != Meanwhile::Waiting =>
                {
                    seen.writes_taken += u64::from(*taken);
                    seen.writes_refused += u64::from(!*taken);
                    seen.accuse(!*taken, || "the sink took a stale write".to_owned());
                }
                _ => {}
            }
        }
        let some =
            self.meanwhile == Meanwhile::Waiting || seen.writes_refused + seen.writes_taken > 0;
        seen.accuse(some, || "the zombie wrote nothing to the sink".to_owned());
    }

    /// The trail has what two honest workers leave behind, and no trace of the zombie's return.
    fn judge_trail(&self, seen: &mut Seen) {
        let expected =
            ["task.submitted", "task.claimed", "task.lease_lost", "task.claimed", "task.completed"];
        let found = kinds(&self.history);
        seen.accuse(found == expected, || format!("its trail is {found:?}"));
        let entry = |at: usize, name: &str| self.history.pointer(&format!("/history/{at}/{name}"));
        let claims = [(1, &self.zombie), (3, &self.heir)];
        let mut fences = Vec::new();
        for (at, told) in claims {
            let Some(Told::Claimed { fence, worker, .. }) = told.first() else { continue };
            let (shown, holder) = (entry(at, "fence"), entry(at, "worker_id"));
            let same = shown.and_then(Value::as_u64) == Some(*fence)
                && holder.and_then(Value::as_str) == Some(worker);
            seen.accuse(same, || format!("claim {fence} of {worker} is {shown:?} of {holder:?}"));
            fences.push(*fence);
        }
        seen.accuse(fences.is_sorted_by(|a, b| a < b), || {
            format!("fences do not rise: {fences:?}")
        });
        let unmoved = self.history_before == self.history;
        seen.accuse(unmoved || self.meanwhile != Meanwhile::Ended, || {
            format!("its trail moved after the end: {} then {}", self.history_before, self.history)
        });
    }

    /// The task is as the heir left it.
    fn judge_task(&self, seen: &mut Seen) {
        let heir = match self.heir.first() {
            Some(Told::Claimed { worker, .. }) => worker.as_str(),
            _ => "nobody",
        };
        let texts = [("/state", "completed"), ("/result/by", heir), ("/progress/message", heir)];
        for (path, expected) in texts {
            let found = self.task.pointer(path).and_then(Value::as_str);
            seen.accuse(found == Some(expected), || format!("{path} is {found:?}, not {expected}"));
        }
        for (path, expected) in [("/attempts", 1), ("/deliveries", 2)] {
            let found = self.task.pointer(path).and_then(Value::as_u64);
            seen.accuse(found == Some(expected), || format!("{path} is {found:?}, not {expected}"));
        }
    }
}

fn kinds(history: &Value) -> Vec<String> {
    let entries = history.get("history").and_then(Value::as_array);
    let kinds = entries.into_iter().flatten().filter_map(|entry| entry.get("type")?.as_str());
    kinds.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// An honest case: the heir had completed the task when the zombie went on.
    fn honest() -> Case {
        let claimed = |fence, worker: &str| {
            let (task, worker) = ("t".to_owned(), worker.to_owned());
            Told::Claimed { task, fence, worker }
        };
        let called = |kind: Kind| {
            let (began, word) = (20, "lease-lost".to_owned());
            Told::Called { kind, began, status: 409, word }
        };
        let mut zombie = vec![claimed(1, "a"), Told::Wrote { began: 5, taken: true }];
        zombie.extend(Kind::ALL.map(called));
        zombie.extend([Told::Wrote { began: 21, taken: false }, Told::Done]);
        let entry = |kind: &str, fence: u64, worker: &str| json!({"type": format!("task.{kind}"), "fence": fence, "worker_id": worker});
        let history = json!({"history": [
            {"type": "task.submitted"},
            entry("claimed", 1, "a"),
            {"type": "task.lease_lost"},
            entry("claimed", 2, "b"),
            {"type": "task.completed"},
        ]});
        Case {
            meanwhile: Meanwhile::Ended,
            woken_at: 10,
            zombie,
            heir: vec![claimed(2, "b"), Told::Wrote { began: 7, taken: true }, Told::Done],
            history_before: history.clone(),
            history,
            task: json!({"id": "t", "state": "completed", "result": {"by": "b"},
                "progress": {"message": "b"}, "attempts": 1, "deliveries": 2}),
        }
    }

    fn found(change: impl Fn(&mut Case)) -> Vec<String> {
        let mut case = honest();
        change(&mut case);
        case.judge().violations
    }

    #[test]
    fn an_honest_case_has_no_violations() {
        assert_eq!(found(|_| {}), Vec::<String>::new());
        assert!(!honest().is_void());
    }

    #[test]
    fn a_stale_call_that_is_taken_is_found() {
        for kind in Kind::ALL {
            let (began, status) = (30, 200);
            let taken = Told::Called { kind, began, status, word: "ok".to_owned() };
            assert_eq!(found(|case| case.zombie.push(taken.clone())).len(), 1, "{taken}");
        }
        let word = "worker-gone".to_owned();
        for kind in [Kind::Settle, Kind::SettleAgain] {
            let gone = Told::Called { kind, began: 30, status: 410, word: word.clone() };
            assert_eq!(found(|case| case.zombie.push(gone.clone())).len(), 1, "{gone}");
        }
        assert_eq!(found(|case| case.zombie.truncate(6)).len(), 6, "what was not tried");
    }

    #[test]
    fn a_sink_that_takes_what_is_stale_is_found() {
        let taken = Told::Wrote { began: 30, taken: true };
        assert_eq!(found(|case| case.zombie.push(taken.clone())).len(), 1);
        let refused = Told::Wrote { began: 8, taken: false };
        assert_eq!(found(|case| case.heir.push(refused.clone())).len(), 1);
    }

    #[test]
    fn a_trail_or_a_task_that_the_zombie_changed_is_found() {
        let more = json!({"type": "task.completed"});
        let lengthen = |case: &mut Case| {
            let entries = case.history.get_mut("history").and_then(Value::as_array_mut);
            entries.into_iter().for_each(|entries| entries.push(more.clone()));
        };
        assert_eq!(found(lengthen).len(), 2);
        let same_fence = |case: &mut Case| {
            if let Some(Told::Claimed { fence, .. }) = case.heir.first_mut() {
                *fence = 1;
            }
        };
        assert_eq!(found(same_fence).len(), 2);
        for path in ["/state", "/result/by", "/progress/message", "/attempts", "/deliveries"] {
            let spoil = |case: &mut Case| {
                case.task.pointer_mut(path).into_iter().for_each(|value| *value = json!("a"));
            };
            assert_eq!(found(spoil).len(), 1, "{path}");
        }
    }

    #[test]
    fn a_lease_that_was_lost_for_want_of_time_proves_nothing() {
        let mut case = honest();
        let (began, word) = (6, "lease-lost".to_owned());
        case.zombie.insert(1, Told::Called { kind: Kind::Renew, began, status: 409, word });
        assert!(case.is_void());
    }
}
