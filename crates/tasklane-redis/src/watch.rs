//! What other servers have written, as a hint; and whether the server is still fit to be written to.

use std::sync::Weak;
use std::time::Duration;

use redis::Value;
use tasklane_store::{Position, Signal};

use crate::fault::Fault;
use crate::keys::Key;
use crate::link::{WATCH_TIME_MAX, Way};
use crate::value;
use crate::writer::Shared;

/// Writes looked at in one go.
const ENTRIES_MAX: usize = 64;
/// How long to wait after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// How often the server's settings are looked at.
const GUARD_EVERY: Duration = Duration::from_secs(2);

/// Follows the feed on a connection of its own until the store is dropped. Losing it costs latency:
/// whoever waits also looks by itself.
pub(crate) async fn follow(store: Weak<Shared>) {
    while let Some(shared) = store.upgrade() {
        let outcome = look(&shared).await;
        drop(shared);
        if outcome.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

async fn look(shared: &Shared) -> Result<(), Fault> {
    let mut command = redis::cmd("XREAD");
    let from = format!("{}-0", shared.signal.borrow().last.0);
    command.arg("COUNT").arg(ENTRIES_MAX).arg("BLOCK").arg(WATCH_TIME_MAX.as_millis() as u64);
    command.arg("STREAMS").arg(shared.link.name(&Key::Feed)).arg(from);
    let answer = shared.link.send(Way::Watching, &command).await?;
    if let Some(last) = last_entry(answer)? {
        shared.signal.send_if_modified(|signal| notice(signal, last));
    }
    Ok(())
}

/// Each event may have made a task claimable. What this server wrote itself it knows already.
fn notice(signal: &mut Signal, last: Position) -> bool {
    let news = last.0.saturating_sub(signal.last.0);
    signal.claimable += news;
    signal.last = signal.last.max(last);
    news > 0
}

/// The number of the last event among what `XREAD` found.
fn last_entry(answer: Value) -> Result<Option<Position>, Fault> {
    let Some(stream) = value::array(answer)?.into_iter().next() else { return Ok(None) };
    // A pair of name and entries: an array, or the only pair of a map.
    let entries = match stream {
        Value::Array(pair) => pair.into_iter().nth(1),
        other => Some(other),
    };
    let Some(entry) = value::array(entries.unwrap_or_default())?.into_iter().next_back() else {
        return Ok(None);
    };
    let id = value::array(entry)?.into_iter().next().unwrap_or_default();
    let id = value::bytes(id)?.unwrap_or_default();
    let number = id.split(|byte| *byte == b'-').next().unwrap_or_default();
    Ok(Some(Position(value::number(number)?.unsigned_abs())))
}

/// Looks at the server's settings now and then: what is wrong with them stops all writes.
pub(crate) async fn guard(store: Weak<Shared>) {
    loop {
        tokio::time::sleep(GUARD_EVERY).await;
        let Some(shared) = store.upgrade() else { return };
        // A server that does not answer is noticed by those who write.
        let _ = shared.link.look().await;
    }
}
