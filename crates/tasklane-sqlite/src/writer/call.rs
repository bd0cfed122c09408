//! Calls on their way through the writer: run inside a transaction, answered after it.

use tasklane_store::StoreError;
use tokio::sync::oneshot;

use crate::fault::Fault;
use crate::session::Session;

/// Where an answer goes.
type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// A call on its way through the writer.
pub(super) trait Work: Send {
    /// Runs inside the transaction.
    fn run(&mut self, session: &mut Session<'_>) -> Result<(), Fault>;
    /// Whether it may run again, in another transaction, after the first one failed.
    fn repeats(&self) -> bool {
        false
    }
    /// Answers after it: with the value, or with why there is none.
    fn answer(self: Box<Self>, failed: Option<StoreError>);
}

/// A call that is made once.
pub(super) struct Call<T, F> {
    call: Option<F>,
    value: Option<T>,
    reply: Reply<T>,
}

impl<T, F> Call<T, F> {
    pub(super) const fn new(call: F, reply: Reply<T>) -> Self {
        Self { call: Some(call), value: None, reply }
    }
}

impl<T, F> Work for Call<T, F>
where
    T: Send,
    F: FnOnce(&mut Session<'_>) -> Result<T, Fault> + Send,
{
    fn run(&mut self, session: &mut Session<'_>) -> Result<(), Fault> {
        if let Some(call) = self.call.take() {
            self.value = Some(call(session)?);
        }
        Ok(())
    }

    fn answer(self: Box<Self>, failed: Option<StoreError>) {
        send(self.reply, self.value, failed);
    }
}

/// A call that can be made again.
pub(super) struct Repeatable<T, F> {
    call: F,
    value: Option<T>,
    reply: Reply<T>,
}

impl<T, F> Repeatable<T, F> {
    pub(super) const fn new(call: F, reply: Reply<T>) -> Self {
        Self { call, value: None, reply }
    }
}

impl<T, F> Work for Repeatable<T, F>
where
    T: Send,
    F: FnMut(&mut Session<'_>) -> Result<T, Fault> + Send,
{
    fn run(&mut self, session: &mut Session<'_>) -> Result<(), Fault> {
        self.value = Some((self.call)(session)?);
        Ok(())
    }

    fn repeats(&self) -> bool {
        true
    }

    fn answer(self: Box<Self>, failed: Option<StoreError>) {
        send(self.reply, self.value, failed);
    }
}

fn send<T>(reply: Reply<T>, value: Option<T>, failed: Option<StoreError>) {
    let answer = match (failed, value) {
        (None, Some(value)) => Ok(value),
        (Some(error), _) => Err(error),
        (None, None) => Err(StoreError::Closed),
    };
    // Nobody may be waiting any more; the call has happened all the same.
    let _ = reply.send(answer);
}
