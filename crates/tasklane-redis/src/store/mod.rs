//! The store itself: a handle that queues calls and waits for their answers.

mod contract;

use std::sync::Arc;

use tasklane_core::Random;
use tasklane_store::{Answer, Durability, StoreError};
use tokio::runtime::Handle;

use crate::address::Address;
use crate::epoch;
use crate::fault::Fault;
use crate::inbox::Class;
use crate::link::{Link, Way};
use crate::options::{Mode, Options};
use crate::session::Session;
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::system::SystemRandom;
use crate::watch;
use crate::writer::Writer;

/// A store on Redis. Dropping it finishes what is queued.
pub struct RedisStore {
    shared: Arc<Shared>,
    durability: Durability,
    /// What it lives on: whoever asks need not have one.
    runtime: Handle,
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore").field("durability", &self.durability).finish_non_exhaustive()
    }
}

impl RedisStore {
    /// Opens the store at an [`Address`]. It needs a Tokio runtime, on which its writer runs from
    /// then on.
    pub async fn open(address: &str, options: &Options) -> Result<Self, StoreError> {
        options.rules.check()?;
        let address: Address = address.parse()?;
        let namespace = address.namespace.clone().unwrap_or_else(|| options.namespace.clone());
        let options = Options { namespace, ..options.clone() };
        let opened = Self::start(&address, &options).await;
        let shared = Arc::new(opened.map_err(|fault| fault.to_store_error())?);
        tokio::spawn(Writer::new(Arc::clone(&shared)).run());
        tokio::spawn(watch::follow(Arc::downgrade(&shared)));
        tokio::spawn(watch::guard(Arc::downgrade(&shared)));
        let durability = match options.mode {
            Mode::Durable => Durability::Aof,
            Mode::Fast => Durability::Memory,
        };
        Ok(Self { shared, durability, runtime: Handle::current() })
    }

    async fn start(address: &Address, options: &Options) -> Result<Shared, Fault> {
        let mut random = SystemRandom::default();
        let link = Link::new(address, options, random.next_u64())?;
        link.look().await?;
        if let Some(text) = link.refusal() {
            return Err(StoreError::Unavailable(text).into());
        }
        let mut snapshot = Snapshot::default();
        link.load(Way::Writing, Vec::new(), &mut snapshot).await?;
        while snapshot.meta.epoch == 0 {
            // Of several servers that begin at once, one does it.
            epoch::begin(&link, &mut random).await?;
            link.load(Way::Writing, Vec::new(), &mut snapshot).await?;
        }
        let shared = Shared::new(link, options.rules);
        shared.signals.begin(tasklane_store::Position(snapshot.meta.last.0));
        Ok(shared)
    }

    /// Queues a call to the writer now; the answer is awaited later.
    fn write<T: Send + 'static>(
        &self,
        class: Class,
        size: usize,
        call: impl FnMut(&mut Session<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Answer<'_, T> {
        self.shared.inbox.call(class, size, call)
    }

    /// Looks at the store, past the writer.
    fn look<T, F>(&self, look: impl FnOnce(Arc<Shared>) -> F) -> Answer<'_, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let looking = self.runtime.spawn(look(Arc::clone(&self.shared)));
        let lost = |_| Err(StoreError::Unavailable("a look was not finished".into()).into());
        Box::pin(async move {
            looking.await.unwrap_or_else(lost).map_err(|fault| fault.to_store_error())
        })
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        self.shared.inbox.close();
    }
}
