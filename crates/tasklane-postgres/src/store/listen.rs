//! Telling other servers that something happened, and hearing of it: a hint on a connection of its
//! own, never part of a write. Where it is lost, or a pooler does not pass it on, looking now and
//! then has to do.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_postgres::{AsyncMessage, Connection, Socket};

use super::Shared;
use crate::address::{Address, notice_who_goes};
use crate::connection::quoted;
use crate::tls::Encrypted;

/// How long after a connection that failed the next one is tried.
const REST: Duration = Duration::from_secs(1);

/// Listens and tells until it is stopped.
pub(super) async fn keep_listening(shared: Arc<Shared>, address: Address, schema: String) {
    loop {
        if let Err(error) = listen(&shared, &address, &schema).await {
            tracing::debug!(%error, "no notifications for now");
        }
        tokio::time::sleep(REST).await;
    }
}

async fn listen(
    shared: &Shared,
    address: &Address,
    schema: &str,
) -> Result<(), tokio_postgres::Error> {
    let (client, connection) = address.config.connect(address.tls.clone()).await?;
    let heard = Arc::new(Notify::new());
    // Ends with the client, or with the connection.
    let own = Arc::new(AtomicI32::new(0));
    let mut driver = tokio::spawn(drive(connection, Arc::clone(&heard), Arc::clone(&own)));
    let process: i32 = client.query_typed_one("SELECT pg_backend_pid()", &[]).await?.get(0);
    own.store(process, Ordering::Relaxed);
    client.batch_execute(&format!("{}; LISTEN {}", notice_who_goes(), quoted(schema))).await?;
    // Something may have happened before this was heard.
    heard.notify_one();
    let tell = format!("NOTIFY {}", quoted(schema));
    loop {
        tokio::select! {
            _ = &mut driver => return Ok(()),
            // However many commits there were, it is told once.
            () = shared.signals.happened() => client.batch_execute(&tell).await?,
            () = heard.notified() => {
                if let Err(error) = shared.sequence().await {
                    tracing::debug!(%error, "the feed could not be looked after");
                }
            }
        }
    }
}

/// Keeps a connection going and notes each notification that it brings from others.
async fn drive(
    mut connection: Connection<Socket, Encrypted>,
    heard: Arc<Notify>,
    own: Arc<AtomicI32>,
) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message
            && notification.process_id() != own.load(Ordering::Relaxed)
        {
            heard.notify_one();
        }
    }
}
