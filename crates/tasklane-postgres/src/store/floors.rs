//! Comparing floors with what is there, so that nothing stays behind one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::types::Type;

use super::Shared;
use crate::fault::Fault;
use crate::floor::Floor;
use crate::rows;

/// How often that is done at most.
const EVERY: Duration = Duration::from_secs(1);
/// It may take a while beside a snapshot that is long open: the pause is so much longer, up to a bound.
const REST: u32 = 20;
const PAUSE_MAX: Duration = Duration::from_secs(5);

impl Shared {
    /// Lowers floors to the first task that is there.
    async fn compare_floors(&self) -> Result<(), Fault> {
        if self.floors.all().is_empty() {
            return Ok(());
        }
        let transaction = self.pool.read().await?;
        self.recognize(&transaction);
        let timeline = transaction.timeline;
        let floors = self.floors.all();
        let queues: Vec<i32> = floors.iter().map(|floor| floor.queue).collect();
        let priorities: Vec<i16> =
            floors.iter().map(|floor| floor.priority.number().into()).collect();
        let sql = "SELECT queue, priority, first.ready_at
                   FROM unnest($1, $2) AS known(queue, priority) CROSS JOIN LATERAL (
                       SELECT p.ready_at FROM pend p WHERE p.queue = known.queue
                       AND p.priority = known.priority AND NOT p.late
                       ORDER BY p.ready_at, p.sequence LIMIT 1) first";
        let parameters = [(&queues as _, Type::INT4_ARRAY), (&priorities as _, Type::INT2_ARRAY)];
        let found = transaction.query(sql, &parameters).await;
        transaction.roll_back().await;
        for row in found? {
            let (queue, priority) = (row.get(0), rows::priority(row.get(1))?);
            let floor = Floor { queue, priority, at: row.get(2) };
            self.timeline.remember(timeline, || self.floors.lower(floor));
        }
        Ok(())
    }
}

pub(super) async fn keep_floors(shared: Arc<Shared>) {
    let mut pause = EVERY;
    loop {
        tokio::time::sleep(pause).await;
        let begun = Instant::now();
        if let Err(fault) = shared.compare_floors().await {
            tracing::debug!(%fault, "floors could not be compared; that is tried again");
            shared.floors.doubt();
        }
        pause = (begun.elapsed() * REST).clamp(EVERY, PAUSE_MAX);
    }
}
