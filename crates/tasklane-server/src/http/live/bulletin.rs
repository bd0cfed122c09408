//! Tells live readers how deep queues are and what was done lately, now and then.

use std::collections::HashMap;
use std::sync::Arc;

use tasklane_client::wire;
use tasklane_core::{Priority, QueueName, Reach, StateName};
use tasklane_store::Stats;
use tokio_util::sync::CancellationToken;

use super::frame;
use super::kind::{QUEUE_DEPTH, SYSTEM_METRICS};
use crate::engine::{Bulletin, Engine, Told};
use crate::http::{lately, stats};

/// By critical, high, normal and low.
type Depths = [u64; Priority::COUNT];

/// Tells until `stop`, while somebody listens.
pub(crate) async fn run(engine: Arc<Engine>, stop: CancellationToken) {
    let mut known = HashMap::new();
    loop {
        tokio::select! {
            () = engine.live_settings().sleep(|settings| settings.metrics_every) => {}
            () = stop.cancelled() => return,
        }
        if engine.feed().readers() == 0 {
            continue;
        }
        let entries = match engine.store().stats().await {
            Ok(stats) => tell_depths(&stats, &mut known),
            Err(error) => {
                tracing::warn!(%error, "depths could not be told; it is tried again");
                continue;
            }
        };
        let figures = tell_figures(&engine).await;
        let entries = entries.into_iter().chain([figures]).collect();
        engine.bulletin().send_replace(Arc::new(Bulletin { entries }));
    }
}

/// What has changed since it was last told.
fn tell_depths(stats: &Stats, known: &mut HashMap<QueueName, Depths>) -> Vec<Told> {
    let fresh = depths(stats);
    let mut entries = Vec::new();
    let mut depth = |queue: &QueueName, depths: Depths| {
        let name = Some(queue.as_str().into());
        let data = wire::EventData { queue: name, depths: Some(depths), ..Default::default() };
        let text = frame::text(&frame::told(QUEUE_DEPTH, stats.now, data));
        entries.push(Told { kind: QUEUE_DEPTH, queue: Some(queue.clone()), text });
    };
    for (queue, depths) in &fresh {
        if known.get(queue) != Some(depths) {
            depth(queue, *depths);
        }
    }
    // A queue whose last task was removed is empty now.
    for queue in known.keys().filter(|queue| !fresh.contains_key(*queue)) {
        depth(queue, Depths::default());
    }
    *known = fresh;
    entries
}

/// Everything counted, as far as the store gives it now.
async fn tell_figures(engine: &Engine) -> Told {
    let throughput = Some(lately::throughput(&engine.statistics()));
    let stats = stats::gather(engine, None, &Reach::default()).await.ok().map(Box::new);
    let data = wire::EventData { throughput, stats, ..Default::default() };
    let text = frame::text(&frame::told(SYSTEM_METRICS, engine.now(), data));
    Told { kind: SYSTEM_METRICS, queue: None, text }
}

fn depths(stats: &Stats) -> HashMap<QueueName, Depths> {
    let mut queues: HashMap<QueueName, Depths> = HashMap::new();
    for lane in &stats.lanes {
        let pending = lane.counts.get(StateName::Pending.index()).copied().unwrap_or(0);
        let depths = queues.entry(lane.lane.queue.clone()).or_default();
        let index = Priority::COUNT - 1 - lane.priority.index();
        if let Some(depth) = depths.get_mut(index) {
            *depth += pending;
        }
    }
    queues
}
