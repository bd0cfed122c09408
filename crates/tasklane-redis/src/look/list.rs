//! Lists: by id from the index, by end from the sets of ended tasks.

use bytes::Bytes;
use tasklane_core::{StateName, TaskId, WorkerId, limits};
use tasklane_store::{Page, PageCursor, Query, StoredTask};

use crate::fault::Fault;
use crate::keys::Key;
use crate::read::Read;
use crate::session::held_count_read;
use crate::shared::Shared;
use crate::stored::{Stored, task_id};
use crate::value;

/// Blocks of the index read at once.
const BLOCKS: usize = 8;
/// Tasks read at once.
const TASKS_AT_ONCE: usize = 500;
/// Lists of tasks that were completed together, read at first of each queue.
const ENDED_AT_ONCE: usize = 64;
/// Of other ended tasks, which are listed one by one, so many times as many.
const MORE_OF_OTHERS: usize = 16;
/// How much more is read if that was too little, and up to where.
const MORE: usize = 4;
const ENDED_AT_ONCE_MAX: usize = 1_024;

/// A page that is being filled.
struct Filling<'q> {
    query: &'q Query,
    page: Page,
    bytes: usize,
}

impl Filling<'_> {
    /// Looks at a task. Says whether the page is full.
    fn add(&mut self, stored: Option<(Stored, StoredTask)>, cursor: PageCursor) -> bool {
        self.page.examined += 1;
        self.page.next = Some(cursor);
        if let Some((_, shown)) =
            stored.filter(|(stored, _)| self.query.filter.matches(&stored.task))
        {
            self.bytes += shown.body_bytes();
            self.page.tasks.push(shown);
        }
        self.is_full()
    }

    fn is_full(&self) -> bool {
        self.page.tasks.len() >= self.query.limit.clamp(1, limits::PAGE_MAX)
            || self.bytes >= limits::PAGE_BYTES_MAX
            || self.page.examined >= limits::EXAMINED_MAX
    }
}

impl Shared {
    pub(crate) async fn list(&self, query: &Query) -> Result<Page, Fault> {
        let states = &query.filter.states;
        let ended = !states.is_empty() && states.iter().all(|state| state.is_terminal());
        let leased = !states.is_empty() && states.iter().all(|state| state.is_leased());
        match (ended, leased) {
            (true, _) => self.list_ended(query).await,
            (_, true) => self.list_leased(query).await,
            _ => self.list_by_id(query).await,
        }
    }

    /// Newest id first.
    async fn list_by_id(&self, query: &Query) -> Result<Page, Fault> {
        let mut filling = Filling { query, page: Page::default(), bytes: 0 };
        let mut before = query.after.map(id_bytes);
        loop {
            let ids = self.ids_before(before).await?;
            let Some(last) = ids.last() else {
                filling.page.next = None;
                return Ok(filling.page);
            };
            before = Some(*last.as_bytes());
            if self.fill_by_id(&mut filling, &ids).await? {
                return Ok(filling.page);
            }
        }
    }

    /// From those that are held, which are few. Where they are more than one call looks at, it goes by
    /// id like any other: both go on from the same cursor.
    async fn list_leased(&self, query: &Query) -> Result<Page, Fault> {
        let workers = self.members([Key::Leases]).await?;
        let worker = |id: Bytes| <[u8; 16]>::try_from(&id[..]).map(WorkerId::from_bytes);
        let workers: Vec<_> = workers.into_iter().flat_map(worker).collect();
        if self.held_by_all(&workers).await? > limits::EXAMINED_MAX {
            return self.list_by_id(query).await;
        }
        let mut filling = Filling { query, page: Page::default(), bytes: 0 };
        let mut ids = Vec::new();
        for workers in workers.chunks(TASKS_AT_ONCE) {
            for member in self.members(workers.iter().copied().map(Key::Held)).await? {
                ids.push(task_id(&member)?);
            }
        }
        let before = query.after.map(id_bytes);
        ids.retain(|id| before.is_none_or(|before| *id.as_bytes() < before));
        ids.sort_unstable_by(|one, other| other.cmp(one));
        if !self.fill_by_id(&mut filling, &ids).await? {
            filling.page.next = None;
        }
        Ok(filling.page)
    }

    /// How many tasks workers hold.
    async fn held_by_all(&self, workers: &[WorkerId]) -> Result<usize, Fault> {
        let mut sum = 0;
        for workers in workers.chunks(TASKS_AT_ONCE) {
            let reads: Vec<_> = workers.iter().copied().map(held_count_read).collect();
            let (snapshot, _) = self.look(reads.clone()).await?;
            for read in &reads {
                let count = value::integer(snapshot.plain(read).cloned().unwrap_or_default())?;
                sum += usize::try_from(count).unwrap_or_default();
            }
        }
        Ok(sum)
    }

    /// All members of sorted sets.
    async fn members(&self, keys: impl IntoIterator<Item = Key>) -> Result<Vec<Bytes>, Fault> {
        let read = |key| Read::plain("ZRANGE", key, ["0", "-1"]);
        let reads: Vec<_> = keys.into_iter().map(read).collect();
        let (snapshot, _) = self.look(reads.clone()).await?;
        let mut members = Vec::new();
        for read in &reads {
            members.extend(value::strings(snapshot.plain(read).cloned().unwrap_or_default())?);
        }
        Ok(members)
    }

    /// Says whether the page is full.
    async fn fill_by_id(&self, filling: &mut Filling<'_>, ids: &[TaskId]) -> Result<bool, Fault> {
        for ids in ids.chunks(TASKS_AT_ONCE) {
            let found = self.tasks(ids, filling.query.bodies).await?;
            for (id, stored) in ids.iter().zip(found) {
                if filling.add(stored, cursor_of(id)) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The next ids below one, the greatest first; none at the end.
    pub(super) async fn ids_before(&self, before: Option<[u8; 16]>) -> Result<Vec<TaskId>, Fault> {
        let from = before.unwrap_or([u8::MAX; 16]);
        let mut count = BLOCKS;
        loop {
            let read = Read::Blocks { from, count };
            let (snapshot, _) = self.look(vec![read.clone()]).await?;
            let blocks = value::array(snapshot.plain(&read).cloned().unwrap_or_default())?;
            let found = blocks.len();
            let mut ids = Vec::new();
            for block in blocks {
                let block = value::bytes(block)?.unwrap_or_default();
                for bytes in block.chunks_exact(16).rev() {
                    if before.is_none_or(|before| bytes < &before[..]) {
                        ids.push(task_id(bytes)?);
                    }
                }
            }
            // Blocks may have been emptied.
            if !ids.is_empty() || found < count {
                return Ok(ids);
            }
            count *= 4;
        }
    }

    /// Most recently ended first, merged over states and queues.
    async fn list_ended(&self, query: &Query) -> Result<Page, Fault> {
        let mut filling = Filling { query, page: Page::default(), bytes: 0 };
        let (mut ended, more) = self.ended_before(query).await?;
        ended.sort_unstable_by(|one, other| other.cmp(one));
        let mut at = 0;
        while at < ended.len() {
            let part = ended.get(at..(at + TASKS_AT_ONCE).min(ended.len())).unwrap_or_default();
            let ids: Vec<_> = part.iter().map(|(_, _, id)| *id).collect();
            let found = self.tasks(&ids, query.bodies).await?;
            for ((ended_at, minor, _), stored) in part.iter().zip(found) {
                at += 1;
                let cursor = PageCursor { major: *ended_at, minor: *minor };
                // It may have been discarded, and have come and ended again.
                let same = |at: i64| at == *ended_at;
                let stored = stored.filter(|(stored, _)| {
                    stored.task.state.ended().is_some_and(|ended| same(ended.at.as_micros()))
                });
                let full = filling.add(stored, cursor);
                // A page does not end between two tasks that its cursor could not tell apart.
                let same =
                    ended.get(at).is_some_and(|next| (next.0, next.1) == (*ended_at, *minor));
                if full && !same {
                    filling.page.next = filling.page.next.filter(|_| more || at < ended.len());
                    return Ok(filling.page);
                }
            }
        }
        filling.page.next = filling.page.next.filter(|_| more);
        Ok(filling.page)
    }

    /// Ends before a cursor: time, minor key and id; and whether there are others before these.
    async fn ended_before(&self, query: &Query) -> Result<(Vec<(i64, i64, TaskId)>, bool), Fault> {
        let (_, catalog) = self.look(Vec::new()).await?;
        let mut states = query.filter.states.clone();
        states.sort_unstable();
        states.dedup();
        let wanted = |name: &tasklane_core::QueueName| query.filter.queues.contain(name.as_str());
        let queues =
            catalog.queues().filter(|(_, name, _)| wanted(name)).map(|(number, ..)| number);
        let lines: Vec<_> = queues
            .flat_map(|queue| states.iter().map(move |state| Key::Ended(*state, queue)))
            .collect();
        let after = query.after.unwrap_or(PageCursor { major: i64::MAX, minor: i64::MAX });
        let from = if query.after.is_some() { after.major.to_string() } else { "+inf".into() };
        // Of many queues less each: together they should not be more than one call looks at.
        let each = limits::EXAMINED_MAX / (lines.len() * MORE_OF_OTHERS).max(1);
        let mut count = each.clamp(1, ENDED_AT_ONCE);
        loop {
            let limit = |key: &Key| match key {
                Key::Ended(StateName::Completed, _) => count,
                _ => count * MORE_OF_OTHERS,
            };
            let read = |key: &Key| {
                let limit = limit(key).to_string();
                let with = [&from, "-inf", "WITHSCORES", "LIMIT", "0", &limit];
                Read::plain("ZREVRANGEBYSCORE", key.clone(), with)
            };
            let (snapshot, _) = self.look(lines.iter().map(read).collect()).await?;
            let (mut ended, mut floor) = (Vec::new(), None);
            for line in &lines {
                let answer = snapshot.plain(&read(line)).cloned().unwrap_or_default();
                let found = value::scored(answer)?;
                if found.len() >= limit(line) {
                    // Others of the last moment may not have been read.
                    floor = floor.max(found.last().map(|(at, _)| *at));
                }
                let each = |(at, ids): &(i64, Bytes)| {
                    ids.chunks(16).map(|id| (*at, task_id(id))).collect::<Vec<_>>()
                };
                for (at, id) in found.iter().flat_map(each) {
                    let id = id?;
                    let minor = id.row_key();
                    if (at, minor) < (after.major, after.minor) {
                        ended.push((at, minor, id));
                    }
                }
            }
            let examined = ended.len();
            ended.retain(|(at, ..)| floor.is_none_or(|floor| *at > floor));
            let enough = ended.len() >= query.limit.min(limits::PAGE_MAX);
            let all = count >= ENDED_AT_ONCE_MAX || examined >= limits::EXAMINED_MAX;
            if enough || all && !ended.is_empty() || floor.is_none() {
                return Ok((ended, floor.is_some()));
            }
            count *= MORE;
        }
    }
}

/// The sixteen bytes of an id as two numbers.
fn cursor_of(id: &TaskId) -> PageCursor {
    let bits = u128::from_be_bytes(*id.as_bytes());
    PageCursor { major: (bits >> 64) as i64, minor: bits as i64 }
}

fn id_bytes(cursor: PageCursor) -> [u8; 16] {
    let bits = u128::from(cursor.major as u64) << 64 | u128::from(cursor.minor as u64);
    bits.to_be_bytes()
}
