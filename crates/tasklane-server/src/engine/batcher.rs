//! Gathers concurrent calls into batches: a batch is what arrived while the others were under way.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tasklane_store::StoreError;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::limits::{BATCH_WEIGHT_MAX, WAITING_WEIGHT_MAX};

/// The verdicts of a batch, one for each of its units in order.
pub(crate) type Verdicts<'a, T> =
    Pin<Box<dyn Future<Output = Result<Vec<T>, StoreError>> + Send + 'a>>;

/// One verb as a call on many units.
pub(crate) trait Verb: Send + Sync + 'static {
    /// What one caller asks for.
    type Unit: Send + 'static;
    /// What one caller gets.
    type Verdict: Send + 'static;

    /// How many tasks a unit is about.
    fn weight(&self, unit: &Self::Unit) -> usize;
    /// Carries out a batch.
    fn call(&self, units: Vec<Self::Unit>) -> Verdicts<'_, Self::Verdict>;
    /// Takes back a verdict whose caller has gone.
    fn orphaned(&self, _verdict: Self::Verdict) {}
}

type Answer<V> = oneshot::Receiver<Result<<V as Verb>::Verdict, StoreError>>;
/// Units, and who waits for their verdicts.
type Taken<V> = (Vec<<V as Verb>::Unit>, Vec<Reply<V>>);
type Reply<V> = oneshot::Sender<Result<<V as Verb>::Verdict, StoreError>>;

struct Waiting<V: Verb> {
    unit: V::Unit,
    weight: usize,
    reply: Reply<V>,
}

struct State<V: Verb> {
    waiting: VecDeque<Waiting<V>>,
    weight: usize,
    in_flight: usize,
}

/// A verb with callers in front of it.
pub(crate) struct Batcher<V: Verb> {
    verb: V,
    errands: TaskTracker,
    in_flight_max: usize,
    state: Mutex<State<V>>,
}

impl<V: Verb> Batcher<V> {
    /// Batches are carried out as errands, so that the end of the server waits for them.
    pub(crate) fn new(verb: V, errands: &TaskTracker, in_flight_max: usize) -> Arc<Self> {
        let state = State { waiting: VecDeque::new(), weight: 0, in_flight: 0 };
        let (errands, in_flight_max) = (errands.clone(), in_flight_max.max(1));
        Arc::new(Self { verb, errands, in_flight_max, state: Mutex::new(state) })
    }

    /// Has one unit carried out together with others. Once called it happens, whether or not
    /// anybody waits for the verdict.
    pub(crate) async fn call(self: &Arc<Self>, unit: V::Unit) -> Result<V::Verdict, StoreError> {
        let lost = || StoreError::OutcomeUnknown("the answer was lost".into());
        self.queue(unit)?.await.unwrap_or_else(|_| Err(lost()))
    }

    fn queue(self: &Arc<Self>, unit: V::Unit) -> Result<Answer<V>, StoreError> {
        let weight = self.verb.weight(&unit).max(1);
        let (reply, answer) = oneshot::channel();
        let mut state = self.lock();
        if state.weight > WAITING_WEIGHT_MAX {
            return Err(StoreError::Overloaded("too many calls are waiting".into()));
        }
        state.weight += weight;
        state.waiting.push_back(Waiting { unit, weight, reply });
        if state.in_flight < self.in_flight_max {
            state.in_flight += 1;
            self.errands.spawn(Arc::clone(self).run());
        }
        Ok(answer)
    }

    /// Carries out batches until nobody waits.
    async fn run(self: Arc<Self>) {
        while let Some((units, replies)) = self.next_batch() {
            match self.verb.call(units).await {
                Ok(verdicts) => {
                    for (verdict, reply) in verdicts.into_iter().zip(replies) {
                        if let Err(Ok(verdict)) = reply.send(Ok(verdict)) {
                            self.verb.orphaned(verdict);
                        }
                    }
                }
                Err(error) => {
                    for reply in replies {
                        // The caller may have gone.
                        let _ = reply.send(Err(error.clone()));
                    }
                }
            }
        }
    }

    fn next_batch(&self) -> Option<Taken<V>> {
        let mut state = self.lock();
        if state.waiting.is_empty() {
            state.in_flight -= 1;
            return None;
        }
        let (mut units, mut replies, mut weight) = (Vec::new(), Vec::new(), 0);
        while weight < BATCH_WEIGHT_MAX {
            let Some(waiting) = state.waiting.pop_front() else { break };
            weight += waiting.weight;
            units.push(waiting.unit);
            replies.push(waiting.reply);
        }
        state.weight -= weight;
        Some((units, replies))
    }

    fn lock(&self) -> MutexGuard<'_, State<V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
