//! Leases and their deadlines, on the clock that cannot step (S7).

use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::Duration;

use hashbrown::HashMap;
use tasklane_core::lifecycle::{Elapsed, Rules};
use tasklane_core::{Intent, LeaseToken, State, Task};

/// A leased task.
#[derive(Debug)]
pub(crate) struct Leased {
    pub(crate) lane: u32,
    /// Boxed: a map of many leases grows by moving its entries, and a task is large.
    pub(crate) task: Box<Task>,
    /// It has no row in `trail`.
    pub(crate) plain: bool,
    /// When the lease ends, unless it is renewed.
    ends: Duration,
    /// When the attempt began, or the claim if it has not.
    since: Duration,
    /// When to look at it again; never later than its first deadline.
    check_at: Duration,
}

impl Leased {
    pub(crate) fn new(lane: u32, task: Box<Task>, plain: bool) -> Self {
        let unset = Duration::ZERO;
        Self { lane, task, plain, ends: unset, since: unset, check_at: unset }
    }

    /// Whether this is the lease that `token` proves.
    pub(crate) fn is_held_by(&self, token: &LeaseToken) -> bool {
        self.task.state.lease().is_some_and(|lease| lease.token == *token)
    }

    pub(crate) const fn ends(&self) -> Duration {
        self.ends
    }

    pub(crate) fn elapsed(&self, tick: Duration, rules: &Rules) -> Elapsed {
        Elapsed {
            lease: tick >= self.ends,
            execution: tick >= self.since.saturating_add(self.task.timeout),
            assignment: tick >= self.since.saturating_add(rules.assignment),
        }
    }

    fn first_deadline(&self, rules: &Rules) -> Duration {
        let own = match self.task.state {
            State::Running(_) => self.task.timeout,
            _ => rules.assignment,
        };
        self.ends.min(self.since.saturating_add(own))
    }

    /// What time has done to it, if anything.
    fn lapse(&self, tick: Duration, rules: &Rules) -> Option<Intent> {
        let token = self.task.state.lease()?.token;
        let elapsed = self.elapsed(tick, rules);
        let running = matches!(self.task.state, State::Running(_));
        if elapsed.lease {
            Some(Intent::LoseLease(token))
        } else if running && elapsed.execution {
            Some(Intent::TimeOut(token))
        } else if !running && elapsed.assignment {
            Some(Intent::Unassign(token))
        } else {
            None
        }
    }
}

/// What of an earlier lease goes on when its task changes under it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carry {
    ends: Duration,
    since: Duration,
}

/// All leases, by the key of their task.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    by_key: HashMap<i64, Leased>,
    checks: BTreeSet<(Duration, i64)>,
    /// Where the last look at what is overdue ended.
    looked_at: Option<(Duration, i64)>,
}

impl Leases {
    pub(crate) fn get(&self, key: i64) -> Option<&Leased> {
        self.by_key.get(&key)
    }

    /// Begins a lease.
    pub(crate) fn begin(&mut self, key: i64, leased: Leased, tick: Duration, rules: &Rules) {
        let carry = Carry { ends: tick.saturating_add(rules.lease), since: tick };
        self.resume(key, leased, carry, rules);
    }

    /// Goes on with a lease whose task has changed.
    pub(crate) fn resume(&mut self, key: i64, mut leased: Leased, carry: Carry, rules: &Rules) {
        (leased.ends, leased.since) = (carry.ends, carry.since);
        leased.check_at = leased.first_deadline(rules);
        self.checks.insert((leased.check_at, key));
        self.by_key.insert(key, leased);
    }

    /// Takes a lease off the board: to end it, or to put it back with [`Leases::resume`].
    pub(crate) fn end(&mut self, key: i64) -> Option<(Leased, Carry)> {
        let leased = self.by_key.remove(&key)?;
        self.checks.remove(&(leased.check_at, key));
        let carry = Carry { ends: leased.ends, since: leased.since };
        Some((leased, carry))
    }

    /// Makes a lease last its full length from now. Costs no more than a look-up: when its old
    /// deadline comes, the new one is found there.
    pub(crate) fn renew(&mut self, key: i64, tick: Duration, rules: &Rules) {
        if let Some(leased) = self.by_key.get_mut(&key) {
            leased.ends = tick.saturating_add(rules.lease);
        }
    }

    /// What time has done, at most `limit` of it, from where the last look ended; and whether that
    /// was all there is.
    pub(crate) fn overdue(
        &mut self,
        tick: Duration,
        rules: &Rules,
        limit: usize,
    ) -> (Vec<(i64, Intent)>, bool) {
        let mut lapsed = Vec::new();
        while lapsed.len() < limit {
            let from = self.looked_at.map_or(Bound::Unbounded, Bound::Excluded);
            let next = self.checks.range((from, Bound::Included((tick, i64::MAX)))).next().copied();
            let Some((check_at, key)) = next else {
                self.looked_at = None;
                return (lapsed, true);
            };
            self.looked_at = Some((check_at, key));
            let Some(leased) = self.by_key.get_mut(&key) else { continue };
            match leased.lapse(tick, rules) {
                Some(intent) => lapsed.push((key, intent)),
                None => {
                    self.checks.remove(&(check_at, key));
                    leased.check_at = leased.first_deadline(rules);
                    self.checks.insert((leased.check_at, key));
                }
            }
        }
        (lapsed, false)
    }

    pub(crate) fn next_check(&self) -> Option<Duration> {
        self.checks.first().map(|(check_at, _)| *check_at)
    }
}

impl Carry {
    /// The attempt begins now.
    pub(crate) fn started(self, tick: Duration) -> Self {
        Self { since: tick, ..self }
    }

    /// A sign of life came.
    pub(crate) fn renewed(self, tick: Duration, rules: &Rules) -> Self {
        Self { ends: tick.saturating_add(rules.lease), ..self }
    }
}
