//! Tells live readers how deep queues are and what was done lately, now and then.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tasklane_client::wire;
use tasklane_core::{Priority, QueueName, Reach, StateName, Timestamp};
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
    let (mut known, mut number) = (HashMap::new(), 0);
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
        number += 1;
        engine.bulletin().send_replace(Arc::new(Bulletin { number, entries }));
    }
}

/// All queues, with those marked that have changed since they were last told: whoever has heard of
/// the others already is not told again.
fn tell_depths(stats: &Stats, known: &mut HashMap<QueueName, (Depths, Bytes)>) -> Vec<Told> {
    let mut before = std::mem::take(known);
    let mut entries = Vec::new();
    let mut tell = |queue: QueueName, text: Bytes, is_news: bool| {
        entries.push(Told { is_news, kind: QUEUE_DEPTH, queue: Some(queue), text });
    };
    for (queue, depths) in depths(stats) {
        let told = before.remove(&queue).filter(|(told, _)| *told == depths);
        let is_news = told.is_none();
        let text = told.map_or_else(|| depth(&queue, depths, stats.now), |(_, text)| text);
        known.insert(queue.clone(), (depths, text.clone()));
        tell(queue, text, is_news);
    }
    // A queue whose last task was removed is empty now.
    for (queue, _) in before {
        let text = depth(&queue, Depths::default(), stats.now);
        tell(queue, text, true);
    }
    entries
}

fn depth(queue: &QueueName, depths: Depths, now: Timestamp) -> Bytes {
    let name = Some(queue.as_str().into());
    let data = wire::EventData { queue: name, depths: Some(depths), ..Default::default() };
    frame::text(&frame::told(QUEUE_DEPTH, now, data))
}

/// Everything counted, as far as the store gives it now.
async fn tell_figures(engine: &Engine) -> Told {
    let throughput = Some(lately::throughput(&engine.statistics()));
    let stats = stats::gather(engine, None, &Reach::default()).await.ok().map(Box::new);
    let data = wire::EventData { throughput, stats, ..Default::default() };
    let text = frame::text(&frame::told(SYSTEM_METRICS, engine.now(), data));
    Told { is_news: true, kind: SYSTEM_METRICS, queue: None, text }
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
