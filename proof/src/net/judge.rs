//! Compares what was sent and answered with what the store holds, once all has ended.

use std::collections::{HashMap, HashSet};

use tasklane_core::TaskId;

use super::look::Shown;
use super::record::Record;
use crate::checker::{Class, Violation};

/// How often things happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Tasks that were sent.
    pub sent: u64,
    /// Of those, the acknowledged.
    pub taken: u64,
    /// Calls of producers that were not answered, and sent again.
    pub unanswered: u64,
    /// Acknowledgements that said that the task was there already.
    pub replayed: u64,
    /// Completions that were accepted.
    pub completed: u64,
    /// Completions that came too late.
    pub late: u64,
    /// Leases that were lost.
    pub lease_losses: u64,
    /// Tokens of leases that were given up and shown again; all of them refused if all is well.
    pub stale: u64,
    /// Events that the follower was told of.
    pub told: u64,
    /// How often it came back to the feed.
    pub resumed: u64,
}

/// What came of the comparison.
#[derive(Debug, Default)]
pub struct Verdict {
    /// How often things happened.
    pub counts: Counts,
    /// What must not have happened.
    pub violations: Vec<Violation>,
}

/// All that is known of one task from outside.
#[derive(Debug, Default)]
struct Known {
    sent: bool,
    taken: bool,
    /// It was taken as new: so many times.
    made: u64,
    tokens: HashSet<String>,
    told: Vec<String>,
}

/// Compares.
pub fn judge(records: &[Record], content: &[Shown]) -> Verdict {
    let mut verdict = Verdict::default();
    let known = verdict.gather(records);
    let held: HashMap<TaskId, &Shown> = content.iter().map(|shown| (shown.id, shown)).collect();
    if held.len() != content.len() {
        verdict.accuse(Class::Duplicated, None, "an id is listed more than once".into());
    }
    for (id, known) in &known {
        verdict.outside(*id, known, held.get(id).copied());
    }
    for shown in content {
        verdict.inside(shown, known.get(&shown.id));
    }
    verdict
}

impl Verdict {
    fn accuse(&mut self, class: Class, task: Option<TaskId>, what: String) {
        self.violations.push(Violation { class, task, what });
    }

    fn gather(&mut self, records: &[Record]) -> HashMap<TaskId, Known> {
        let mut all: HashMap<TaskId, Known> = HashMap::new();
        for record in records {
            match record {
                Record::Sent(id) => all.entry(*id).or_default().sent = true,
                Record::Taken(id, replayed) => {
                    let known = all.entry(*id).or_default();
                    known.taken = true;
                    known.made += u64::from(!replayed);
                    self.counts.replayed += u64::from(*replayed);
                }
                Record::Unanswered(count) => self.counts.unanswered += count,
                Record::Completed(id, token) => {
                    all.entry(*id).or_default().tokens.insert(token.clone());
                }
                Record::Late(..) => self.counts.late += 1,
                Record::Stale(id, status) => {
                    self.counts.stale += 1;
                    if *status != 409 {
                        let what = format!("a token that was given up was answered {status}");
                        self.accuse(Class::CompletedTwice, Some(*id), what);
                    }
                }
                Record::Told(id, kind) => {
                    all.entry(*id).or_default().told.push(kind.clone());
                    self.counts.told += 1;
                }
                Record::Resumed => self.counts.resumed += 1,
                Record::Wrong(what) => self.accuse(Class::Trouble, None, what.clone()),
            }
        }
        all
    }

    /// What callers know of a task, against the store.
    fn outside(&mut self, id: TaskId, known: &Known, shown: Option<&Shown>) {
        self.counts.sent += u64::from(known.sent);
        self.counts.taken += u64::from(known.taken);
        self.counts.completed += u64::from(!known.tokens.is_empty());
        if known.made > 1 {
            let what = format!("its submission was taken as new {} times", known.made);
            self.accuse(Class::Duplicated, Some(id), what);
        }
        if known.tokens.len() > 1 {
            let what = format!("its completion was accepted with {} tokens", known.tokens.len());
            self.accuse(Class::CompletedTwice, Some(id), what);
        }
        match shown {
            None if known.taken => {
                self.accuse(Class::Lost, Some(id), "its submission was acknowledged".into());
            }
            None => {}
            Some(shown) => {
                let is_own = |token| known.tokens.contains(token);
                if !known.tokens.is_empty() && !shown.token.as_ref().is_some_and(is_own) {
                    let what = "the completion that was accepted is not the one that counts";
                    self.accuse(Class::Forgotten, Some(id), what.into());
                }
            }
        }
    }

    /// What the store has of a task, against what callers know.
    fn inside(&mut self, shown: &Shown, known: Option<&Known>) {
        let id = Some(shown.id);
        let losses = shown.kinds.iter().filter(|kind| *kind == "task.lease_lost").count();
        self.counts.lease_losses += losses as u64;
        if !known.is_some_and(|known| known.sent) {
            self.accuse(Class::Phantom, id, "nobody sent it".into());
            return;
        }
        let completions = shown.kinds.iter().filter(|kind| *kind == "task.completed").count();
        if shown.state != "completed" {
            self.accuse(Class::Stuck, id, format!("it is {} in the end", shown.state));
        } else if completions != 1 {
            let what = format!("its history has {completions} completions");
            self.accuse(Class::CompletedTwice, id, what);
        }
        let told = known.map_or(&[][..], |known| &known.told);
        if told != shown.kinds {
            let what = format!("its history has {:?}, the feed told {told:?}", shown.kinds);
            self.accuse(Class::Missed, id, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use tasklane_core::SeededRandom;

    use super::*;

    const KINDS: [&str; 3] = ["task.submitted", "task.claimed", "task.completed"];

    fn id(number: u64) -> TaskId {
        TaskId::generate(1_750_000_000_000, number, &mut SeededRandom::new(number))
    }

    fn shown(number: u64) -> Shown {
        Shown {
            id: id(number),
            state: "completed".into(),
            token: Some("t".into()),
            kinds: KINDS.map(str::to_owned).to_vec(),
        }
    }

    fn records(number: u64) -> Vec<Record> {
        let id = id(number);
        let mut records = vec![
            Record::Sent(id),
            Record::Taken(id, false),
            Record::Stale(id, 409),
            Record::Completed(id, "t".into()),
            Record::Taken(id, true),
        ];
        records.extend(KINDS.map(|kind| Record::Told(id, kind.into())));
        records
    }

    fn classes(records: &[Record], content: &[Shown]) -> Vec<Class> {
        judge(records, content).violations.iter().map(|violation| violation.class).collect()
    }

    #[test]
    fn a_life_without_fault_is_no_violation() {
        let verdict = judge(&records(1), &[shown(1)]);
        assert!(verdict.violations.is_empty(), "{:?}", verdict.violations);
        let Counts { sent, taken, completed, replayed, stale, told, .. } = verdict.counts;
        assert_eq!((sent, taken, completed, replayed, stale, told), (1, 1, 1, 1, 1, 3));
    }

    #[test]
    fn what_was_acknowledged_and_is_gone_is_lost_and_what_nobody_sent_is_a_phantom() {
        assert_eq!(classes(&records(1), &[]), [Class::Lost]);
        assert_eq!(classes(&records(1), &[shown(1), shown(2)]), [Class::Phantom]);
        // Sent and never answered: both are right.
        assert_eq!(classes(&[Record::Sent(id(1))], &[]), []);
    }

    #[test]
    fn a_second_completion_is_found_however_it_shows() {
        let with = |record| [records(1), vec![record]].concat();
        let twice = with(Record::Completed(id(1), "u".into()));
        assert_eq!(classes(&twice, &[shown(1)]), [Class::CompletedTwice]);
        let stale = with(Record::Stale(id(1), 200));
        assert_eq!(classes(&stale, &[shown(1)]), [Class::CompletedTwice]);
        let again = with(Record::Taken(id(1), false));
        assert_eq!(classes(&again, &[shown(1)]), [Class::Duplicated]);
        let other = Shown { token: Some("u".into()), ..shown(1) };
        assert_eq!(classes(&records(1), &[other]), [Class::Forgotten]);
        let mut two = shown(1);
        two.kinds.push("task.completed".into());
        let told = with(Record::Told(id(1), "task.completed".into()));
        assert_eq!(classes(&told, &[two]), [Class::CompletedTwice]);
    }

    #[test]
    fn what_did_not_end_is_stuck_and_what_the_feed_left_out_is_missed() {
        let running = Shown { state: "running".into(), ..shown(1) };
        assert_eq!(classes(&records(1), &[running]), [Class::Stuck]);
        let all = records(1);
        for left_out in 5..8 {
            let mut records = all.clone();
            records.remove(left_out);
            assert_eq!(classes(&records, &[shown(1)]), [Class::Missed], "{left_out}");
        }
        let wrong = [records(1), vec![Record::Wrong("500".into())]].concat();
        assert_eq!(classes(&wrong, &[shown(1)]), [Class::Trouble]);
    }
}
