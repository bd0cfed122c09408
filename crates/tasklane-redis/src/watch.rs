//! What other servers have written, as a hint; and whether the server is still fit to be written to.

use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use tasklane_core::StateName;
use tasklane_store::Subject;

use crate::fault::Fault;
use crate::keys::Key;
use crate::link::{WATCH_TIME_MAX, Way};
use crate::look::Entry;
use crate::session::Woken;
use crate::shared::Shared;
use crate::value;

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
    let mut from = shared.signals.from();
    command.arg("COUNT").arg(ENTRIES_MAX).arg("BLOCK").arg(WATCH_TIME_MAX.as_millis() as u64);
    command.arg("STREAMS").arg(shared.link.name(&Key::Feed)).arg(format!("{}-0", from.0));
    let entries = entries(shared.link.send(Way::Watching, &command).await?)?;
    // What this server is writing may be among them.
    shared.signals.all_landed().await;
    for entry in entries {
        let entry = Entry::read(entry)?;
        let last = entry.last();
        if !shared.signals.is_own(last) {
            let (claimable, woken) = woken(shared, &entry).await?;
            shared.signals.tell(last, claimable, woken);
        }
        shared.signals.looked(from, last);
        from = last;
    }
    Ok(())
}

/// Tasks that became claimable by what another server wrote, and where.
async fn woken(shared: &Shared, entry: &Entry) -> Result<(u64, Woken), Fault> {
    let mut catalog = shared.catalog();
    let mut events = entry.events(&catalog);
    if events.is_err() {
        // A lane that is new to this server.
        (_, catalog) = shared.look(Vec::new()).await?;
        events = entry.events(&catalog);
    }
    // What cannot be read must not hide what comes after it.
    let Ok(events) = events else { return Ok((1, Woken::Anywhere)) };
    let (mut claimable, mut woken) = (0, Woken::default());
    for event in events {
        match event.subject {
            Subject::Task(notice) => {
                if notice.to == StateName::Pending && notice.from != Some(StateName::Pending) {
                    claimable += 1;
                    match catalog.lane_number(&notice.lane) {
                        Some(lane) => woken.add(lane),
                        None => woken = Woken::Anywhere,
                    }
                }
            }
            Subject::Queue(..) => (claimable, woken) = (claimable + 1, Woken::Anywhere),
            Subject::Worker(..) => {}
        }
    }
    Ok((claimable, woken))
}

/// What `XREAD` found.
fn entries(answer: Value) -> Result<Vec<Bytes>, Fault> {
    let Some(stream) = value::array(answer)?.into_iter().next() else { return Ok(Vec::new()) };
    // A pair of name and entries: an array, or the only pair of a map.
    let entries = match stream {
        Value::Array(pair) => pair.into_iter().nth(1),
        other => Some(other),
    };
    value::entries(entries.unwrap_or_default())
}

/// Looks at the server's settings now and then, and where the primary is: what is wrong with either
/// stops all writes to it.
pub(crate) async fn guard(store: Weak<Shared>) {
    let Some(doubt) = store.upgrade().map(|shared| shared.link.doubt()) else { return };
    loop {
        // A write that was not confirmed is a reason to look at once.
        let _ = tokio::time::timeout(GUARD_EVERY, doubt.notified()).await;
        let Some(shared) = store.upgrade() else { return };
        // A server that does not answer is noticed by those who write.
        let _ = shared.link.look().await;
        shared.link.leave_if_replaced().await;
    }
}
