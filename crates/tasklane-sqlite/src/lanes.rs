//! Lanes by number, shared between the writer that makes them and the readers that name them.

use std::sync::{Arc, PoisonError, RwLock};

use hashbrown::HashMap;
use tasklane_core::Lane;
use tasklane_store::codec::LaneNumbers;

/// All lanes known. Only rows that were committed name a lane by its number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lanes(Arc<RwLock<HashMap<u64, Lane>>>);

impl Lanes {
    pub(crate) fn insert(&self, number: u64, lane: Lane) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(number, lane);
    }

    pub(crate) fn replace(&self, lanes: HashMap<u64, Lane>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = lanes;
    }
}

impl LaneNumbers for Lanes {
    fn lane(&self, number: u64) -> Option<Lane> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }
}
