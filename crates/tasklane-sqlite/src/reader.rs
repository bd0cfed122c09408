//! Reads: on snapshots, on threads of their own, within a time limit.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};
use tasklane_core::{ApiKey, AuditRecord, StateName, TaskId, Timestamp, limits};
use tasklane_store::{
    AuditFrom, Cursor, FeedPage, Page, PageCursor, Position, Query, StoreError, StoredTask, Trail,
    codec,
};
use tokio::sync::oneshot;

use crate::ended::{self, Ended};
use crate::fault::Fault;
use crate::lanes::Lanes;
use crate::rows::{self, COLUMNS, COLUMNS_LEAN, JOINED, Loaded};
use crate::schema;

/// Reads that may wait; beyond it they are refused.
const WAITING_MAX: usize = 10_000;

/// A connection to read from, and what is needed to make sense of its rows.
pub(crate) struct View<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) lanes: &'a Lanes,
    pub(crate) epoch: u64,
}

type Read = Box<dyn FnOnce(&mut Connection, &Lanes) + Send>;

#[derive(Default)]
struct Waiting {
    reads: VecDeque<Read>,
    closed: bool,
}

#[derive(Default)]
struct Desk {
    waiting: Mutex<Waiting>,
    filled: Condvar,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A few threads that read.
pub(crate) struct Readers {
    desk: Arc<Desk>,
    threads: Vec<JoinHandle<()>>,
    time_max: Duration,
}

impl Readers {
    pub(crate) fn start(
        path: &Path,
        lanes: &Lanes,
        count: usize,
        time_max: Duration,
    ) -> Result<Self, Fault> {
        let desk = Arc::new(Desk::default());
        let mut readers = Self { desk: desk.clone(), threads: Vec::new(), time_max };
        for number in 0..count.max(1) {
            let (connection, desk, lanes) =
                (schema::open_reader(path)?, desk.clone(), lanes.clone());
            let thread = std::thread::Builder::new()
                .name(format!("tasklane-reader-{number}"))
                .spawn(move || serve(&desk, connection, &lanes));
            readers.threads.push(thread.map_err(Fault::no_thread)?);
        }
        Ok(readers)
    }

    /// Queues a read; it is interrupted when it takes too long.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection, &Lanes) -> Result<T, Fault> + Send + 'static,
    ) -> oneshot::Receiver<Result<T, StoreError>> {
        let (reply, answer) = oneshot::channel();
        let time_max = self.time_max;
        let mut waiting = self.desk.lock();
        if waiting.closed || waiting.reads.len() >= WAITING_MAX {
            let error = match waiting.closed {
                true => StoreError::Closed,
                false => StoreError::Unavailable("too many reads are waiting".into()),
            };
            let _ = reply.send(Err(error));
            return answer;
        }
        waiting.reads.push_back(Box::new(move |connection, lanes| {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                within(connection, time_max, |connection| read(connection, lanes))
            }));
            let died = || StoreError::Unavailable("the read failed".into());
            let _ = reply.send(outcome.unwrap_or_else(|_| Err(died())));
        }));
        drop(waiting);
        self.desk.filled.notify_one();
        answer
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.desk.lock().closed = true;
        self.desk.filled.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn serve(desk: &Desk, mut connection: Connection, lanes: &Lanes) {
    loop {
        let mut waiting = desk.lock();
        let read = loop {
            match waiting.reads.pop_front() {
                Some(read) => break read,
                None if waiting.closed => return,
                None => {
                    waiting = desk.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        drop(waiting);
        read(&mut connection, lanes);
    }
}

/// Runs a read in one snapshot and interrupts it when its time is over.
fn within<T>(
    connection: &mut Connection,
    time_max: Duration,
    read: impl FnOnce(&Connection) -> Result<T, Fault>,
) -> Result<T, StoreError> {
    let started = Instant::now();
    let interrupt = move || started.elapsed() >= time_max;
    let outcome = (|| {
        connection.progress_handler(10_000, Some(interrupt))?;
        connection.execute_batch("BEGIN")?;
        let value = read(connection);
        connection.progress_handler(0, None::<fn() -> bool>)?;
        connection.execute_batch("ROLLBACK")?;
        value
    })();
    outcome.map_err(|fault: Fault| match &fault {
        Fault::Sqlite(error)
            if error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted) =>
        {
            StoreError::TooSlow(u64::try_from(time_max.as_millis()).unwrap_or(u64::MAX))
        }
        _ => fault.to_store_error(),
    })
}

impl View<'_> {
    pub(crate) fn get(&self, ids: &[TaskId]) -> Result<Vec<Option<StoredTask>>, Fault> {
        let load = |id: &TaskId| {
            Ok(rows::load_whole(self.connection, self.lanes, *id)?
                .map(|loaded| stored(loaded, true)))
        };
        ids.iter().map(load).collect()
    }

    pub(crate) fn trail(&self, id: TaskId) -> Result<Option<Trail>, Fault> {
        let Some(loaded) = rows::load(self.connection, self.lanes, id)? else { return Ok(None) };
        let (entries, cut) = rows::trail(self.connection, loaded.key)?;
        let entries = tasklane_core::trail::whole(&loaded.task, entries);
        let Loaded { task, admitted, .. } = loaded;
        Ok(Some(Trail { task, admitted, entries, cut }))
    }

    pub(crate) fn list(&self, query: &Query) -> Result<Page, Fault> {
        let states = &query.filter.states;
        let ended = !states.is_empty() && states.iter().all(|state| state.is_terminal());
        let leased = !states.is_empty() && states.iter().all(|state| state.is_leased());
        if ended { self.list_ended(query) } else { self.list_by_id(query, leased) }
    }

    /// Newest id first; where only leased tasks are wanted, from the few that are.
    fn list_by_id(&self, query: &Query, leased: bool) -> Result<Page, Fault> {
        let columns = if query.bodies { COLUMNS } else { COLUMNS_LEAN };
        let from = if leased {
            "lease l JOIN task t ON t.task = l.task LEFT JOIN standing s ON s.task = t.task"
        } else {
            JOINED
        };
        let sql =
            format!("SELECT {columns} FROM {from} WHERE t.task <= ? ORDER BY t.task DESC LIMIT ?");
        let before = query.after.map_or(i64::MAX, |cursor| cursor.major.saturating_sub(1));
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut found = statement.query(params![before, limits::EXAMINED_MAX])?;
        let (mut page, mut bytes) = (Page::default(), 0);
        while let Some(row) = found.next()? {
            let loaded = rows::from_row(row, self.lanes)?;
            let cursor = PageCursor { major: loaded.key, minor: 0 };
            if add(&mut page, &mut bytes, query, loaded, cursor) {
                return Ok(page);
            }
        }
        page.next = page.next.filter(|_| page.examined >= limits::EXAMINED_MAX);
        Ok(page)
    }

    /// Most recently ended first, merged over states and queues.
    fn list_ended(&self, query: &Query) -> Result<Page, Fault> {
        let columns = if query.bodies { COLUMNS } else { COLUMNS_LEAN };
        let states = query.filter.states.iter().map(|state| state.index().to_string());
        let states = states.collect::<Vec<_>>().join(",");
        let after = query.after.unwrap_or(PageCursor { major: i64::MAX, minor: i64::MAX });
        let lines = self.ended_lines(&states)?;
        let mut heads = Vec::new();
        for (state, queue) in lines {
            let sql = "SELECT at, tasks FROM ended WHERE state = ? AND queue = ? AND at <= ?
                       ORDER BY at DESC";
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut found = statement.query(params![state, queue, after.major])?;
            let (mut seen, mut last) = (0, i64::MAX);
            while let Some(row) = found.next()? {
                let at: i64 = row.get(0)?;
                // Those of one moment may stand in several rows: all or none of them.
                if seen > limits::EXAMINED_MAX && at != last {
                    break;
                }
                last = at;
                let tasks = ended::unpack(rows::blob(row, 1)?)?;
                let behind = |ended: &Ended| (at, ended.key) < (after.major, after.minor);
                let before = heads.len();
                heads.extend(
                    tasks.iter().filter(|ended| behind(ended)).map(|ended| (at, ended.key)),
                );
                seen += heads.len() - before;
            }
        }
        heads.sort_unstable_by(|one, other| other.cmp(one));
        let sql = format!("SELECT {columns} FROM {JOINED} WHERE t.task = ?");
        let mut statement = self.connection.prepare_cached(&sql)?;
        let (mut page, mut bytes, total) = (Page::default(), 0, heads.len());
        for (at, key) in heads.into_iter().take(limits::EXAMINED_MAX) {
            let mut found = statement.query([key])?;
            let row = found.next()?;
            let row = row.ok_or_else(|| rows::corrupt(key, "missing, though it has ended"))?;
            let loaded = rows::from_row(row, self.lanes)?;
            if add(&mut page, &mut bytes, query, loaded, PageCursor { major: at, minor: key }) {
                return Ok(page);
            }
        }
        page.next = page.next.filter(|_| total > page.examined);
        Ok(page)
    }

    /// Which states and queues have ended tasks, by steps down the index.
    fn ended_lines(&self, states: &str) -> Result<Vec<(i64, i64)>, Fault> {
        let sql = format!(
            "WITH RECURSIVE line(state, queue) AS (
                SELECT * FROM (SELECT state, queue FROM ended ORDER BY state, queue LIMIT 1)
                UNION ALL
                SELECT (SELECT state FROM ended WHERE (state, queue) > (line.state, line.queue)
                        ORDER BY state, queue LIMIT 1),
                       (SELECT queue FROM ended WHERE (state, queue) > (line.state, line.queue)
                        ORDER BY state, queue LIMIT 1)
                FROM line WHERE line.state IS NOT NULL)
             SELECT state, queue FROM line WHERE state IN ({states})"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let lines = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(lines.collect::<rusqlite::Result<Vec<_>>>()?)
    }

    pub(crate) fn api_keys(&self) -> Result<Vec<ApiKey>, Fault> {
        let sql = "SELECT record FROM api_key ORDER BY id";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = statement.query([])?;
        let mut keys = Vec::new();
        while let Some(row) = found.next()? {
            keys.push(codec::decode_api_key(rows::blob(row, 0)?)?);
        }
        Ok(keys)
    }

    pub(crate) fn audit(&self, from: AuditFrom, limit: usize) -> Result<Vec<AuditRecord>, Fault> {
        let (number, sql) = match from {
            AuditFrom::After(number) => {
                (number, "SELECT record FROM audit WHERE number > ? ORDER BY number LIMIT ?")
            }
            AuditFrom::Before(number) => {
                (number, "SELECT record FROM audit WHERE number < ? ORDER BY number DESC LIMIT ?")
            }
            AuditFrom::Newest => return self.audit(AuditFrom::Before(u64::MAX), limit),
        };
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = statement.query(params![number, limit.clamp(1, limits::PAGE_MAX)])?;
        let mut records = Vec::new();
        while let Some(row) = found.next()? {
            records.push(codec::decode_audit(rows::blob(row, 0)?)?);
        }
        Ok(records)
    }

    fn last_position(&self) -> Result<u64, Fault> {
        let sql = "SELECT coalesce(max(first), 1) FROM feed";
        let first: u64 = self.connection.query_row(sql, [], |row| row.get(0))?;
        let sql = "SELECT count FROM feed WHERE first = ?";
        let count = self.connection.query_row(sql, [first], |row| row.get(0)).optional()?;
        Ok(first + count.unwrap_or(0u64) - 1)
    }

    pub(crate) fn events_after(&self, cursor: Cursor, limit: usize) -> Result<FeedPage, Fault> {
        let oldest: Option<u64> =
            self.connection.query_row("SELECT min(first) FROM feed", [], |row| row.get(0))?;
        let from_start = cursor == Cursor::OLDEST;
        let foreign = !from_start && cursor.epoch != self.epoch;
        let missed = oldest.is_some_and(|oldest| cursor.position.0.saturating_add(1) < oldest);
        // Past the end: what it saw there was lost, and the numbers have been given again.
        let ahead = cursor.position.0 > self.last_position()?;
        let after = if foreign || ahead { Position(0) } else { cursor.position };
        let mut page = FeedPage {
            events: Vec::new(),
            next: Cursor { epoch: self.epoch, position: after },
            gap: foreign || ahead || (missed && !from_start),
        };
        // The row that holds the next event may begin before it.
        let sql = "SELECT first, at, events FROM feed WHERE first + count > ?1 + 1
                   AND first >= coalesce((SELECT max(first) FROM feed WHERE first <= ?1 + 1), 0)
                   ORDER BY first";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = statement.query([after.0])?;
        while page.events.len() < limit.clamp(1, limits::EXAMINED_MAX) {
            let Some(row) = found.next()? else { break };
            let (first, at) = (Position(row.get(0)?), Timestamp::from_micros(row.get(1)?));
            let events = codec::decode_feed(rows::blob(row, 2)?, first, at, self.lanes)?;
            page.events.extend(events.into_iter().filter(|event| event.position > after));
        }
        if let Some(last) = page.events.last() {
            page.next.position = last.position;
        }
        Ok(page)
    }
}

/// Adds a task to a page if it matches. Says whether the page is full.
fn add(
    page: &mut Page,
    bytes: &mut usize,
    query: &Query,
    loaded: Loaded,
    cursor: PageCursor,
) -> bool {
    page.examined += 1;
    page.next = Some(cursor);
    if query.filter.matches(&loaded.task) {
        let stored = stored(loaded, query.bodies);
        *bytes += stored.body_bytes();
        page.tasks.push(stored);
    }
    page.tasks.len() >= query.limit.clamp(1, limits::PAGE_MAX) || *bytes >= limits::PAGE_BYTES_MAX
}

fn stored(loaded: Loaded, bodies: bool) -> StoredTask {
    StoredTask {
        task: loaded.task,
        payload: if bodies { loaded.payload } else { Bytes::new() },
        result: loaded.result.filter(|_| bodies),
    }
}

/// The order of states in the tables, for those who read them with other tools.
const _: () = assert!(StateName::DeadLetter.index() == 9);
