//! Calls on their way to Redis, and writes that are under way.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use crate::catalog::Catalog;
use crate::fault::Fault;
use crate::inbox::Call;
use crate::link::Committed;
use crate::session::Memory;
use crate::signal::News;

/// Calls that are decided together.
pub(crate) type Group = Vec<Box<dyn Call>>;

/// Calls on their way to Redis.
pub(crate) struct Trip {
    pub(crate) group: Group,
    /// How often this was tried before.
    pub(crate) attempt: u32,
    pub(crate) started: Instant,
    /// What is wrong even if it succeeds.
    pub(crate) trouble: Option<String>,
}

/// A write that is under way.
pub(crate) struct Flight {
    pub(crate) trip: Trip,
    /// Without one there is nothing to write: it ends with those before it.
    pub(crate) landing: Option<Landing>,
    pub(crate) catalog: Arc<Catalog>,
    /// What was remembered before it was decided.
    pub(crate) before: Memory,
    pub(crate) news: News,
}

pub(crate) type Landed = Result<Committed, Fault>;
pub(crate) type Landing = Pin<Box<dyn Future<Output = Landed> + Send>>;

impl Trip {
    pub(crate) fn new(group: Group) -> Self {
        Self { group, attempt: 0, started: Instant::now(), trouble: None }
    }
}

/// Sends a write, before any other can be sent.
pub(crate) async fn sent(mut landing: Landing) -> Landing {
    let landed = poll_fn(|context| match landing.as_mut().poll(context) {
        Poll::Ready(landed) => Poll::Ready(Some(landed)),
        Poll::Pending => Poll::Ready(None),
    });
    match landed.await {
        Some(landed) => Box::pin(std::future::ready(landed)),
        None => landing,
    }
}

/// How a write ended.
pub(crate) async fn land(flight: &mut Flight) -> Landed {
    match &mut flight.landing {
        Some(landing) => landing.await,
        None => Ok(Committed::Done),
    }
}
