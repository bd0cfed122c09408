//! The feed (S17): what was committed is numbered by one sequencer at a time, then read.

use tasklane_core::{Random, limits};
use tasklane_store::codec;
use tasklane_store::{Cursor, FeedPage, Position};
use tokio_postgres::types::Type;

use super::View;
use crate::connection::Transaction;
use crate::fault::Fault;
use crate::rows::time;
use crate::session::Woken;

/// Writes numbered in one transaction.
const WRITES_AT_ONCE: i64 = 5_000;

/// What was numbered after a number that was known.
pub(crate) struct News {
    /// The last number now.
    pub(crate) head: Position,
    /// Events of one's own.
    pub(crate) own: u64,
    /// Tasks that others made claimable, and where.
    pub(crate) claimable: u64,
    pub(crate) woken: Woken,
}

/// Numbers what is committed and not numbered, from a row of the outbox on, and folds counters. Gives
/// the last row, and whether there is more to do.
pub(crate) async fn sequence(
    transaction: &Transaction,
    mut random: impl Random,
    after: i64,
) -> Result<(i64, bool), Fault> {
    // Another that is at it does what is to be done here too: worth waiting for.
    let lock = "SELECT set_config('lock_timeout', '10s', true),
                pg_advisory_xact_lock(hashtext('tasklane feed'), hashtext(current_schema()))";
    transaction.query(lock, &[]).await?;
    // Whatever was promoted or restored may lack the last events that readers saw.
    let epoch = (random.next_u64() >> 1).max(1) as i64;
    let renew = "WITH moved AS (UPDATE meta SET value = timeline()
                     WHERE name = 'timeline' AND value <> timeline() RETURNING 1)
                 UPDATE meta SET value = $1 WHERE name = 'epoch' AND EXISTS (SELECT 1 FROM moved)";
    transaction.execute(renew, &[(&epoch, Type::INT8)]).await?;
    let sql = "WITH part AS (SELECT number FROM outbox WHERE number > $2 ORDER BY number LIMIT $1),
        gone AS (
            DELETE FROM outbox WHERE number > $2 AND number <= (SELECT max(number) FROM part)
            RETURNING *
        ), total AS (
            SELECT coalesce(sum(count), 0)::int8 AS events, count(*) AS writes,
                   coalesce(max(number), 0) AS last FROM gone
        ), head AS (
            UPDATE meta SET value = value + total.events FROM total WHERE name = 'head'
            RETURNING meta.value, total.events, total.writes, total.last
        ), written AS (
            INSERT INTO feed(first, count, at, events, origin, claimable, lanes)
            SELECT head.value - head.events + sum(gone.count) OVER (ORDER BY gone.number) - gone.count + 1,
                   gone.count, gone.at, gone.events, gone.origin, gone.claimable, gone.lanes
            FROM gone, head WHERE gone.count > 0
        ), counted AS (
            SELECT c.queue, c.lane, c.priority, c.state, sum(c.change) AS change
            FROM gone CROSS JOIN LATERAL
                unnest(gone.counted_queue, gone.counted_lane, gone.counted_priority,
                    gone.counted_state, gone.change) AS c(queue, lane, priority, state, change)
            GROUP BY c.queue, c.lane, c.priority, c.state
        ), deep AS (
            INSERT INTO depth(queue, count)
            SELECT queue, sum(change) FROM counted WHERE state IN (0, 1, 2, 5) GROUP BY queue
            ON CONFLICT (queue) DO UPDATE SET count = depth.count + excluded.count
        ), tallied AS (
            INSERT INTO tally(queue, lane, priority, state, count) SELECT * FROM counted
            ON CONFLICT (lane, priority, state) DO UPDATE SET count = tally.count + excluded.count
        )
        SELECT writes, last FROM head";
    let parameters = [(&WRITES_AT_ONCE as _, Type::INT8), (&after as _, Type::INT8)];
    let row = transaction.one(sql, &parameters).await?;
    Ok((row.get(1), row.get::<_, i64>(0) == WRITES_AT_ONCE))
}

impl View<'_> {
    /// Whether there is anything to do for the sequencer after a row of the outbox.
    pub(crate) async fn is_behind(&self, after: i64) -> Result<bool, Fault> {
        let sql = "SELECT EXISTS (SELECT 1 FROM outbox WHERE number > $1)
                       OR timeline() <> (SELECT value FROM meta WHERE name = 'timeline')";
        Ok(self.transaction.one(sql, &[(&after, Type::INT8)]).await?.get(0))
    }

    /// What was numbered after the number that is known.
    pub(crate) async fn news(&self, known: Position) -> Result<News, Fault> {
        let sql = "SELECT (SELECT value FROM meta WHERE name = 'head'),
                coalesce(sum(count) FILTER (WHERE origin = $2), 0)::int8,
                coalesce(sum(claimable) FILTER (WHERE origin <> $2), 0)::int8,
                coalesce(bool_or(lanes IS NULL) FILTER (WHERE origin <> $2), false),
                ARRAY(SELECT DISTINCT unnest(lanes) FROM feed WHERE first > $1 AND origin <> $2)
            FROM feed WHERE first > $1";
        let known = known.0 as i64;
        let parameters = [(&known as _, Type::INT8), (&self.shared.origin as _, Type::INT8)];
        let row = self.transaction.one(sql, &parameters).await?;
        let number = |at| row.get::<_, i64>(at).unsigned_abs();
        let lanes: Vec<i32> = row.get(4);
        if lanes.iter().any(|lane| self.shared.lanes.get(*lane).is_none()) {
            self.shared.lanes.meet_all(self.transaction).await?;
        }
        let mut woken = if row.get(3) { Woken::Anywhere } else { Woken::default() };
        lanes.into_iter().for_each(|lane| woken.add(lane));
        Ok(News { head: Position(number(0)), own: number(1), claimable: number(2), woken })
    }

    pub(crate) async fn epoch(&self) -> Result<u64, Fault> {
        let sql = "SELECT value FROM meta WHERE name = 'epoch'";
        Ok(self.transaction.one(sql, &[]).await?.get::<_, i64>(0).unsigned_abs())
    }

    pub(crate) async fn events_after(
        &self,
        cursor: Cursor,
        limit: usize,
    ) -> Result<FeedPage, Fault> {
        let sql = "SELECT (SELECT value FROM meta WHERE name = 'epoch'),
                          (SELECT value FROM meta WHERE name = 'head'), min(first) FROM feed";
        let row = self.transaction.one(sql, &[]).await?;
        let epoch = row.get::<_, i64>(0).unsigned_abs();
        let last = row.get::<_, i64>(1).unsigned_abs();
        let oldest: Option<u64> = row.get::<_, Option<i64>>(2).map(i64::unsigned_abs);
        let from_start = cursor == Cursor::OLDEST;
        let foreign = !from_start && cursor.epoch != epoch;
        let missed = oldest.is_some_and(|oldest| cursor.position.0.saturating_add(1) < oldest);
        // Past the end: what it saw there was lost, and the numbers have been given again.
        let ahead = cursor.position.0 > last;
        let after = if foreign || ahead { Position(0) } else { cursor.position };
        let mut page = FeedPage {
            events: Vec::new(),
            next: Cursor { epoch, position: after },
            gap: foreign || ahead || (missed && !from_start),
        };
        let limit = limit.clamp(1, limits::EXAMINED_MAX);
        // The row that holds the next event may begin before it.
        let sql = "SELECT first, at, events FROM feed WHERE first >= coalesce(
                       (SELECT max(first) FROM feed WHERE first <= $1 + 1), 0)
                   AND first + count > $1 + 1 ORDER BY first LIMIT $2";
        let parameters = [(&(after.0 as i64) as _, Type::INT8), (&(limit as i64) as _, Type::INT8)];
        let found = self.transaction.query(sql, &parameters).await?;
        for row in found {
            if page.events.len() >= limit {
                break;
            }
            let first = Position(row.get::<_, i64>(0).unsigned_abs());
            let at = time(row.get(1));
            let bytes: &[u8] = row.get(2);
            let events = match codec::decode_feed(bytes, first, at, &self.shared.lanes) {
                Ok(events) => events,
                Err(_) => {
                    self.shared.lanes.meet_all(self.transaction).await?;
                    codec::decode_feed(bytes, first, at, &self.shared.lanes)?
                }
            };
            page.events.extend(events.into_iter().filter(|event| event.position > after));
        }
        if let Some(last) = page.events.last() {
            page.next.position = last.position;
        }
        Ok(page)
    }
}
