//! Lists: newest first, a page at a time.

use bytes::Bytes;
use tasklane_core::{StateName, limits};
use tasklane_store::{Page, PageCursor, Query, StoredTask};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::View;
use crate::fault::Fault;
use crate::rows;

/// Records read in one go. A page that is found early has read little; one that is not looks on.
const READ_AT_ONCE: i64 = 1_000;

/// Which tasks a list goes through, and in which order.
enum Way {
    /// Those that have ended, latest end first.
    ByEnd,
    /// Newest id first: the live ones, and perhaps the ended ones.
    ById { ended: bool },
}

impl View<'_> {
    pub(crate) async fn list(&self, query: &Query) -> Result<Page, Fault> {
        let states = &query.filter.states;
        let live = states.is_empty() || states.iter().any(|state| !state.is_terminal());
        let ended = states.is_empty() || states.iter().any(|state| state.is_terminal());
        let way = if live { Way::ById { ended } } else { Way::ByEnd };
        let mut page = Page::default();
        let mut after = query.after;
        let (wanted, mut bytes) = (query.limit.clamp(1, limits::PAGE_MAX), 0);
        loop {
            let found = self.records(&way, after, states).await?;
            self.shared.lanes.meet(self.transaction, found.iter().map(|row| row.get(1))).await?;
            let is_last = (found.len() as i64) < READ_AT_ONCE;
            for (at, row) in found.iter().enumerate() {
                let lane = self.shared.lanes.get(row.get(1));
                let loaded = rows::unpack(row.get(0), lane, row.get(2), row.get(3))?;
                page.examined += 1;
                after = Some(cursor(&way, row));
                if query.filter.matches(&loaded.task) {
                    let (payload, result) = (Bytes::new(), None);
                    page.tasks.push(StoredTask { task: loaded.task, payload, result });
                    bytes += usize::try_from(row.get::<_, i64>(4)).unwrap_or_default();
                }
                let is_full = page.tasks.len() >= wanted
                    || query.bodies && bytes >= limits::PAGE_BYTES_MAX
                    || page.examined >= limits::EXAMINED_MAX;
                if is_full {
                    let ends = is_last && at + 1 == found.len();
                    page.next = after.filter(|_| !ends);
                    return self.with_bodies(page, query.bodies).await;
                }
            }
            if is_last {
                return self.with_bodies(page, query.bodies).await;
            }
        }
    }

    /// Columns: id, lane, spec, record, bytes of the bodies, ended_at, ended_number.
    async fn records(
        &self,
        way: &Way,
        after: Option<PageCursor>,
        states: &[StateName],
    ) -> Result<Vec<Row>, Fault> {
        let live = "SELECT t.id, t.lane, t.spec, coalesce(p.record, w.record, l.record),
                           t.bytes::int8, 0::int8, 0::int8
                    FROM (SELECT * FROM task WHERE id < $1 ORDER BY id DESC LIMIT $2) t
                    LEFT JOIN pend p ON p.id = t.id LEFT JOIN wait w ON w.id = t.id
                    LEFT JOIN lease l ON l.id = t.id";
        let ended =
            "SELECT id, lane, spec, record, bytes + coalesce(octet_length(result), 0)::int8,
                            ended_at, ended_number FROM history";
        let by_id = format!("({ended} WHERE id < $1 ORDER BY id DESC LIMIT $2)");
        let sql = match way {
            Way::ByEnd => {
                let after = after.unwrap_or(PageCursor { major: i64::MAX, minor: i64::MAX });
                let states: Vec<i16> = states.iter().map(|state| state.index() as i16).collect();
                let sql = format!(
                    "{ended} WHERE state = ANY($3) AND (ended_at, ended_number) < ($1, $2)
                     ORDER BY ended_at DESC, ended_number DESC LIMIT $4"
                );
                let parameters = [
                    (&after.major as _, Type::INT8),
                    (&after.minor as _, Type::INT8),
                    (&states as _, Type::INT2_ARRAY),
                    (&READ_AT_ONCE as _, Type::INT8),
                ];
                return self.transaction.query(&sql, &parameters).await;
            }
            Way::ById { ended: false } => format!("{live} ORDER BY id DESC"),
            Way::ById { ended: true } => {
                format!(
                    "SELECT * FROM (({live}) UNION ALL {by_id}) both_ ORDER BY id DESC LIMIT $2"
                )
            }
        };
        let before = after.map_or(Uuid::max(), |cursor| {
            Uuid::from_u64_pair(cursor.major as u64, cursor.minor as u64)
        });
        let parameters = [(&before as _, Type::UUID), (&READ_AT_ONCE as _, Type::INT8)];
        self.transaction.query(&sql, &parameters).await
    }

    /// Payloads and results of what was found, where they are wanted.
    async fn with_bodies(&self, mut page: Page, bodies: bool) -> Result<Page, Fault> {
        if bodies && !page.tasks.is_empty() {
            let ids: Vec<_> = page.tasks.iter().map(|stored| stored.task.id).collect();
            page.tasks = self.get(&ids).await?.into_iter().flatten().collect();
        }
        Ok(page)
    }
}

fn cursor(way: &Way, row: &Row) -> PageCursor {
    match way {
        Way::ByEnd => PageCursor { major: row.get(5), minor: row.get(6) },
        Way::ById { .. } => {
            let (major, minor) = row.get::<_, Uuid>(0).as_u64_pair();
            PageCursor { major: major as i64, minor: minor as i64 }
        }
    }
}
