//! Workers as a store knows them.

use crate::error::{Invalid, Problem};
use crate::id::WorkerId;
use crate::lane::{Names, Selection};
use crate::limits;
use crate::time::Timestamp;

/// What a worker says of itself when it registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerSpec {
    /// For people.
    pub name: Option<Box<str>>,
    /// What it takes.
    pub selection: Selection,
    /// How many leases it may hold at once.
    pub capacity: u32,
    /// Of its software.
    pub version: Option<Box<str>>,
    /// Where it runs.
    pub host: Option<Box<str>>,
    /// The key that registered it; only that key may speak for it.
    pub owner: Option<Box<str>>,
}

impl WorkerSpec {
    /// A worker that takes what `selection` says, `capacity` at a time.
    pub fn new(selection: Selection, capacity: u32) -> Result<Self, Invalid> {
        if !(1..=limits::WORKER_CAPACITY_MAX).contains(&capacity) {
            return Err(Invalid::out_of_range("capacity", "1 to 10000"));
        }
        Ok(Self { name: None, selection, capacity, version: None, host: None, owner: None })
    }

    /// Checks what can be set without a constructor.
    pub fn check(&self) -> Result<(), Invalid> {
        Self::new(self.selection.clone(), self.capacity)?;
        for names in [&self.selection.queues, &self.selection.types] {
            if let Names::Matching(patterns) = names {
                Names::matching(patterns.to_vec())?;
            }
        }
        Ok(())
    }

    /// Adds what is shown to people; each at most 128 bytes.
    pub fn described(
        mut self,
        name: Option<&str>,
        version: Option<&str>,
        host: Option<&str>,
    ) -> Result<Self, Invalid> {
        for (field, text) in [("name", name), ("version", version), ("host", host)] {
            let text = text.unwrap_or_default();
            if text.len() > limits::NAME_BYTES_MAX {
                return Err(Invalid::new(field, Problem::TooLong { max: limits::NAME_BYTES_MAX }));
            }
            if text.chars().any(char::is_control) {
                return Err(Invalid::new(field, Problem::Characters));
            }
        }
        (self.name, self.version, self.host) =
            (name.map(Box::from), version.map(Box::from), host.map(Box::from));
        Ok(self)
    }
}

/// Whether a worker gets tasks, and why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum WorkerState {
    /// Gets tasks.
    #[default]
    Active,
    /// An operator paused it.
    Paused,
    /// Finishes what it has.
    Draining,
    /// It reports trouble, or its tasks fail in a row.
    Unhealthy,
    /// It has not been heard of for too long. Its id is never used again.
    Dead,
}

impl WorkerState {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 5] =
        [Self::Active, Self::Paused, Self::Draining, Self::Unhealthy, Self::Dead];

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Draining => "draining",
            Self::Unhealthy => "unhealthy",
            Self::Dead => "dead",
        }
    }
}

/// What a heartbeat may carry.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Health {
    /// Percent of the machine.
    pub cpu_percent: Option<f32>,
    /// Percent of the machine.
    pub memory_percent: Option<f32>,
    /// Tasks it says it has.
    pub load: Option<u32>,
}

/// A worker as a store shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Worker {
    /// Its id.
    pub id: WorkerId,
    /// What it said of itself.
    pub spec: WorkerSpec,
    /// Whether it gets tasks.
    pub state: WorkerState,
    /// When it registered.
    pub registered_at: Timestamp,
    /// When it was last heard of.
    pub seen_at: Timestamp,
    /// Leases it holds.
    pub leases: u32,
    /// What it last reported.
    pub health: Health,
}
