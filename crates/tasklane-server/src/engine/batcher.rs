//! Gathers concurrent calls into batches: a batch is what arrived while the others were under way.
//! A store that gathers by itself gets each call as it comes.
//!
//! Nobody waits while nothing is under way. Beside a batch that is, a small one waits a moment for
//! more, unless all that are under way end before: each costs the store a round of its own, and answers that come together are followed by calls
//! that come together.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tasklane_store::{StoreError, apart};
use tokio::sync::{Notify, oneshot};
use tokio_util::task::TaskTracker;

use crate::limits::{BATCH_WEIGHT_MAX, WAITING_WEIGHT_MAX};

/// How long a small batch waits for more beside others, at most. Submissions one by one on PostgreSQL,
/// in turns: 23.0k/s where it always waits so long, 26.9k/s where it ends with the wait for more.
const MOMENT: Duration = Duration::from_millis(1);
/// Tasks that are worth a batch of their own at once.
const WORTHWHILE: usize = 32;

/// The verdicts of a batch, one for each of its units in order.
pub(crate) type Verdicts<T> = Pin<Box<dyn Future<Output = Result<Vec<T>, StoreError>> + Send>>;

/// One verb as a call on many units.
pub(crate) trait Verb: Send + Sync + 'static {
    /// What one caller asks for.
    type Unit: Clone + Send + Sync + 'static;
    /// What one caller gets.
    type Verdict: Send + 'static;

    /// How many tasks a unit is about.
    fn weight(&self, unit: &Self::Unit) -> usize;
    /// Carries out a batch.
    fn call(self: Arc<Self>, units: Vec<Self::Unit>) -> Verdicts<Self::Verdict>;
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
    /// Tasks of the runtime that carry out batches.
    in_flight: usize,
    /// Batches that the store has.
    under_way: usize,
}

/// A verb with callers in front of it.
pub(crate) struct Batcher<V: Verb> {
    verb: Arc<V>,
    errands: TaskTracker,
    /// `None`: calls are not gathered.
    in_flight_max: Option<usize>,
    state: Mutex<State<V>>,
    /// A small batch has grown, or there is no other any more that it could wait beside.
    go: Notify,
}

impl<V: Verb> Batcher<V> {
    /// What is carried out beside its callers is an errand, so that the end of the server waits for
    /// it.
    pub(crate) fn new(verb: V, errands: &TaskTracker, in_flight_max: Option<usize>) -> Arc<Self> {
        let state = State { waiting: VecDeque::new(), weight: 0, in_flight: 0, under_way: 0 };
        let (verb, errands) = (Arc::new(verb), errands.clone());
        let (state, go) = (Mutex::new(state), Notify::new());
        Arc::new(Self { verb, errands, in_flight_max, state, go })
    }

    /// Has one unit carried out together with others. Once called it happens, whether or not
    /// anybody waits for the verdict.
    pub(crate) async fn call(self: &Arc<Self>, unit: V::Unit) -> Result<V::Verdict, StoreError> {
        let lost = || StoreError::OutcomeUnknown("the answer was lost".into());
        let Some(in_flight_max) = self.in_flight_max else {
            let call = Some(Arc::clone(&self.verb).call(vec![unit]));
            let verdicts = Attended { batcher: Arc::clone(self), call }.await?;
            return verdicts.into_iter().next().ok_or_else(lost);
        };
        let answer = self.queue(unit, in_flight_max)?;
        Awaited { verb: Arc::clone(&self.verb), answer }.await.unwrap_or_else(|_| Err(lost()))
    }

    fn queue(
        self: &Arc<Self>,
        unit: V::Unit,
        in_flight_max: usize,
    ) -> Result<Answer<V>, StoreError> {
        let weight = self.verb.weight(&unit).max(1);
        let (reply, answer) = oneshot::channel();
        let mut state = self.lock();
        if state.weight > WAITING_WEIGHT_MAX {
            return Err(StoreError::Overloaded("too many calls are waiting".into()));
        }
        let was_small = state.weight < WORTHWHILE;
        state.weight += weight;
        if was_small && state.weight >= WORTHWHILE {
            self.go.notify_waiters();
        }
        state.waiting.push_back(Waiting { unit, weight, reply });
        if state.in_flight < in_flight_max.max(1) {
            state.in_flight += 1;
            self.errands.spawn(Arc::clone(self).run());
        }
        Ok(answer)
    }

    /// Carries out batches until nobody waits.
    async fn run(self: Arc<Self>) {
        let panics = Panics(&self);
        loop {
            self.wait_for_more().await;
            let Some((units, replies)) = self.next_batch() else { break };
            let under_way = UnderWay(&self);
            let verdicts = apart(units, |units| Arc::clone(&self.verb).call(units)).await;
            drop(under_way);
            for (verdict, reply) in verdicts.into_iter().zip(replies) {
                // The caller may have gone.
                if let Err(Ok(verdict)) = reply.send(verdict) {
                    self.verb.orphaned(verdict);
                }
            }
        }
        drop(panics);
    }

    /// Beside others a small batch waits until it is none, but no more than a moment.
    async fn wait_for_more(&self) {
        let go = self.go.notified();
        let is_small = {
            let state = self.lock();
            state.under_way > 0 && !state.waiting.is_empty() && state.weight < WORTHWHILE
        };
        if is_small {
            let _ = tokio::time::timeout(MOMENT, go).await;
        }
    }

    /// The store has carried out a batch.
    fn ended(&self) {
        let mut state = self.lock();
        state.under_way -= 1;
        if state.under_way == 0 {
            self.go.notify_waiters();
        }
    }

    /// Somebody else goes on where a panic ended one who carried out batches.
    fn replace(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.waiting.is_empty() {
            state.in_flight -= 1;
        } else {
            self.errands.spawn(Arc::clone(self).run());
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
        state.under_way += 1;
        Some((units, replies))
    }

    fn lock(&self) -> MutexGuard<'_, State<V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A batch that the store has, until it is carried out or has panicked.
struct UnderWay<'a, V: Verb>(&'a Batcher<V>);

impl<V: Verb> Drop for UnderWay<'_, V> {
    fn drop(&mut self) {
        self.0.ended();
    }
}

/// Somebody who carries out batches, and whose place is not lost with a panic.
struct Panics<'a, V: Verb>(&'a Arc<Batcher<V>>);

impl<V: Verb> Drop for Panics<'_, V> {
    fn drop(&mut self) {
        // Otherwise nobody waits any more, or the runtime has ended.
        if std::thread::panicking() {
            self.0.replace();
        }
    }
}

/// A verdict that is taken back if whoever waits for it goes away once it has been sent.
struct Awaited<V: Verb> {
    verb: Arc<V>,
    answer: Answer<V>,
}

impl<V: Verb> Future for Awaited<V> {
    type Output = <Answer<V> as Future>::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(context)
    }
}

impl<V: Verb> Drop for Awaited<V> {
    fn drop(&mut self) {
        self.answer.close();
        if let Ok(Ok(verdict)) = self.answer.try_recv() {
            self.verb.orphaned(verdict);
        }
    }
}

/// A call that is seen to its end even if whoever waits for it goes away.
struct Attended<V: Verb> {
    batcher: Arc<Batcher<V>>,
    /// `None` when it has ended.
    call: Option<Verdicts<V::Verdict>>,
}

impl<V: Verb> Future for Attended<V> {
    type Output = Result<Vec<V::Verdict>, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(call) = &mut self.call else { return Poll::Pending };
        let verdicts = ready!(call.as_mut().poll(context));
        self.call = None;
        Poll::Ready(verdicts)
    }
}

impl<V: Verb> Drop for Attended<V> {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else { return };
        let verb = Arc::clone(&self.batcher.verb);
        self.batcher.errands.spawn(async move {
            for verdict in call.await.into_iter().flatten() {
                verb.orphaned(verdict);
            }
        });
    }
}

#[cfg(test)]
#[path = "tests/batcher.rs"]
mod tests;
