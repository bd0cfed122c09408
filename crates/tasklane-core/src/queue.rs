//! What can be set per queue.

use std::time::Duration;

use crate::error::Invalid;
use crate::order::Order;
use crate::priority::Priority;
use crate::state::StateName;

/// A queue's own settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueSettings {
    /// Nothing is claimed from a paused queue.
    pub paused: bool,
    /// How it chooses among priorities.
    pub order: Order,
    /// Its share among queues when a worker takes several; at least 1.
    pub weight: Weight,
    /// From which depth submissions are refused.
    pub depth: DepthLimits,
    /// How long ended tasks are kept; `None` follows the store's own retention.
    pub retention: Option<Retention>,
    /// Which of these an operator has set.
    pub pinned: Pinned,
}

/// Which settings of a queue an operator has set: a configuration changes only the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pinned {
    /// How it chooses among priorities.
    pub order: bool,
    /// Its share among queues.
    pub weight: bool,
    /// From which depth submissions are refused.
    pub depth: bool,
    /// How long ended tasks are kept.
    pub retention: bool,
}

impl Pinned {
    /// All of them.
    pub const ALL: Self = Self { order: true, weight: true, depth: true, retention: true };
}

impl QueueSettings {
    /// Checks what can be set without a constructor.
    pub fn check(&self) -> Result<(), Invalid> {
        DepthLimits::new(self.depth.normal, self.depth.high, self.depth.all).map(|_| ())
    }
}

/// A queue's share among queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight(u32);

impl Default for Weight {
    fn default() -> Self {
        Self(1)
    }
}

impl Weight {
    /// 1 to 1,000.
    pub fn new(weight: u32) -> Result<Self, Invalid> {
        let fits = (1..=1_000).contains(&weight);
        fits.then_some(Self(weight)).ok_or(Invalid::out_of_range("weight", "1 to 1000"))
    }

    /// As a number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Depths from which submissions are refused, by urgency (S20).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepthLimits {
    /// Low and normal are refused from here.
    pub normal: u64,
    /// All but critical are refused from here.
    pub high: u64,
    /// All are refused from here.
    pub all: u64,
}

impl Default for DepthLimits {
    fn default() -> Self {
        Self { normal: 1_000_000, high: 5_000_000, all: 10_000_000 }
    }
}

impl DepthLimits {
    /// One limit for every priority.
    pub const fn flat(depth: u64) -> Self {
        Self { normal: depth, high: depth, all: depth }
    }

    /// Checks that a more urgent limit is not below a less urgent one.
    pub fn new(normal: u64, high: u64, all: u64) -> Result<Self, Invalid> {
        let fits = normal <= high && high <= all;
        let refused = Invalid::out_of_range("depth", "normal ≤ high ≤ all");
        fits.then_some(Self { normal, high, all }).ok_or(refused)
    }

    /// How many tasks may wait before one more of `priority` is refused.
    pub const fn of(&self, priority: Priority) -> u64 {
        match priority {
            Priority::Low | Priority::Normal => self.normal,
            Priority::High => self.high,
            Priority::Critical => self.all,
        }
    }
}

/// How long ended tasks are kept, by how they ended; `None` is for ever (S21).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Default 24 hours.
    pub completed: Option<Duration>,
    /// Default 24 hours.
    pub cancelled: Option<Duration>,
    /// Default 7 days.
    pub failed: Option<Duration>,
    /// Default 30 days.
    pub dead_letter: Option<Duration>,
}

impl Default for Retention {
    fn default() -> Self {
        let days = |n: u64| Some(Duration::from_secs(n * 86_400));
        Self { completed: days(1), cancelled: days(1), failed: days(7), dead_letter: days(30) }
    }
}

impl Retention {
    /// Nothing that has ended is kept.
    pub const NOTHING: Self = Self {
        completed: Some(Duration::ZERO),
        cancelled: Some(Duration::ZERO),
        failed: Some(Duration::ZERO),
        dead_letter: Some(Duration::ZERO),
    };

    /// For tasks that ended in `state`; `None` for ever, and for live states.
    pub const fn of(&self, state: StateName) -> Option<Duration> {
        match state {
            StateName::Completed => self.completed,
            StateName::Cancelled => self.cancelled,
            StateName::Failed => self.failed,
            StateName::DeadLetter => self.dead_letter,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tiers_are_those_that_are_promised() {
        let tiers = DepthLimits::default();
        assert_eq!(tiers.of(Priority::Low), 1_000_000);
        assert_eq!(tiers.of(Priority::Normal), 1_000_000);
        assert_eq!(tiers.of(Priority::High), 5_000_000);
        assert_eq!(tiers.of(Priority::Critical), 10_000_000);
        assert!(DepthLimits::new(1, 1, 1).is_ok());
        assert!(DepthLimits::new(2, 1, 3).is_err() && DepthLimits::new(1, 3, 2).is_err());
    }
}
