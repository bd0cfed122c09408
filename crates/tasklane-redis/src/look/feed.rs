//! The feed (S17).

use bytes::{Buf, Bytes};
use tasklane_core::Timestamp;
use tasklane_store::{Cursor, FeedEvent, FeedPage, Position, codec};

use crate::catalog::Catalog;
use crate::fault::Fault;
use crate::keys::Key;
use crate::read::Read;
use crate::shared::Shared;
use crate::value;

/// Writes read at once.
const ENTRIES_MAX: usize = 64;

/// The events of one write, as they are in the stream.
pub(crate) struct Entry {
    first: Position,
    count: u32,
    at: Timestamp,
    packed: Bytes,
}

impl Entry {
    pub(crate) fn read(mut packed: Bytes) -> Result<Self, Fault> {
        if packed.len() < 20 {
            return Err(Fault::Corrupt("an entry of the feed is cut short".into()));
        }
        let (first, count, at) = (packed.get_u64(), packed.get_u32(), packed.get_i64());
        Ok(Self { first: Position(first), count, at: Timestamp::from_micros(at), packed })
    }

    /// The number of its last event.
    pub(crate) fn last(&self) -> Position {
        Position((self.first.0 + u64::from(self.count)).saturating_sub(1))
    }

    pub(crate) fn events(&self, catalog: &Catalog) -> Result<Vec<FeedEvent>, Fault> {
        Ok(codec::decode_feed(&self.packed, self.first, self.at, catalog)?)
    }
}

impl Shared {
    pub(crate) async fn head(&self) -> Result<Cursor, Fault> {
        let (snapshot, _) = self.look(Vec::new()).await?;
        let position = Position(snapshot.meta.last.0);
        Ok(Cursor { epoch: snapshot.meta.epoch, position })
    }

    pub(crate) async fn events_after(
        &self,
        cursor: Cursor,
        limit: usize,
    ) -> Result<FeedPage, Fault> {
        let oldest = Read::plain("XRANGE", Key::Feed, ["-", "+", "COUNT", "1"]);
        let count = limit.clamp(1, ENTRIES_MAX).to_string();
        let after = |position: u64| {
            let from = format!("{}-0", position.saturating_add(1));
            Read::plain("XRANGE", Key::Feed, [&from, "+", "COUNT", &count])
        };
        let earlier = cursor.epoch.to_string().into_bytes();
        let reads = vec![
            oldest.clone(),
            after(cursor.position.0),
            Read::Field(Key::Epochs, earlier.clone()),
        ];
        let (mut snapshot, mut catalog) = self.look(reads).await?;
        let (epoch, last) = (snapshot.meta.epoch, snapshot.meta.last.0);
        let oldest = value::entries(snapshot.plain(&oldest).cloned().unwrap_or_default())?;
        let oldest = oldest.into_iter().next().filter(|entry| entry.len() >= 8);
        let before_oldest = oldest.map_or(last, |mut entry| entry.get_u64() - 1);
        let at = cursor.position.0;
        let until = match cursor.epoch == epoch {
            true => Some(last),
            // How far what it has read is what is here.
            false => snapshot
                .field(&Key::Epochs, &earlier)
                .and_then(Option::as_ref)
                .map(|until| value::number(until))
                .transpose()?
                .map(i64::unsigned_abs),
        };
        let known = until.is_some_and(|until| (before_oldest..=until).contains(&at));
        let from = if known { at } else { before_oldest };
        if !known {
            (snapshot, catalog) = self.look(vec![after(from)]).await?;
        }
        let mut page = FeedPage {
            events: Vec::new(),
            next: Cursor { epoch, position: Position(from) },
            gap: !known && cursor != Cursor::OLDEST,
        };
        let entries = value::entries(snapshot.plain(&after(from)).cloned().unwrap_or_default())?;
        for entry in entries {
            if page.events.len() >= limit.max(1) {
                break;
            }
            let events = Entry::read(entry)?.events(&catalog)?;
            page.events.extend(events.into_iter().filter(|event| event.position.0 > from));
        }
        if let Some(last) = page.events.last() {
            page.next.position = last.position;
        }
        Ok(page)
    }
}
